package isolation

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"podgrade/isolation/tree"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// ViewCapture is how a cell sees the workspace of a task with a working
// directory whose state layer was not kept: what was captured of the directory
// is laid over that of the image. ViewState is the state layer's own.
const (
	ViewCapture = "capture"
	ViewState   = string(worker.ViewNone)
)

// workingDirFault refuses a working directory that podgrade or the kernel has
// something else at.
func (c *cell) workingDirFault() error {
	dir := c.order.WorkingDir
	if dir == "" {
		return nil
	}
	why := ""
	switch {
	case c.made.Engine == EngineHost:
		why = "without a container there is no image to work in"
	case !path.IsAbs(dir) || path.Clean(dir) != dir:
		why = "it is no clean absolute path"
	case reservedPath(dir):
		why = "something else is there in every cell"
	case dir == "/" && c.made.Engine == EnginePodman:
		why = "the Podman engine has its own mounts there"
	default:
		return nil
	}
	return &Fault{Kind: Refusal, Tried: "work inside the image", On: "in " + dir, Why: errors.New(why), Do: "use another working_dir"}
}

// homeFault explains why the root file system could not be made ready.
func homeFault(workingDir string, err error) error {
	f := &Fault{Tried: "find a home for the image's user", Why: err}
	var failed *workerError
	if errors.As(err, &failed) && failed.cause.Refused {
		f.Kind, f.Tried, f.On, f.Do = Refusal, "work inside the image", "in "+workingDir, "use another working_dir"
	}
	return f
}

func reservedPath(dir string) bool {
	for _, taken := range []string{"/proc", "/sys", "/dev", oci.WorkPath, oci.ToolPath} {
		if dir == taken || strings.HasPrefix(dir, taken+"/") {
			return true
		}
	}
	return false
}

// inImage prepares a workspace inside the image: nothing is mounted over it.
func (c *cell) inImage(ctx context.Context) error {
	c.viewPaths = map[string]string{}
	switch {
	case c.order.Create:
		c.made.View = View{Kind: string(worker.ViewLend), Reason: "inside the image"}
		return nil
	case c.laysCapture():
		return nil // see layCapture
	case c.order.Workspace == "":
		c.made.View = View{Kind: ViewState, Reason: "inside the image"}
		return nil
	}
	reply, err := c.view(ctx, &worker.View{Name: "workspace", Kind: worker.ViewNone, Source: c.order.Workspace, Digests: c.host.digests()})
	if err == nil {
		c.made.View = viewOf(*reply.View, *reply.Tree)
	}
	return err
}

// laysCapture tells whether no state layer has the workspace.
func (c *cell) laysCapture() bool { return c.order.State == "" || c.order.BeforeAgent }

// layCapture lays the captured workspace over the image's own directory, in the
// root of a cell that has not started.
func (c *cell) layCapture(ctx context.Context) error {
	if c.order.WorkingDir == "" || c.order.Create || !c.laysCapture() || c.laid {
		return nil
	}
	reply, err := c.withCapture(ctx, worker.Request{Op: worker.OpLay}, c.order.Workspace, c.order.Ignore)
	if err != nil {
		return viewFault(&worker.View{Source: c.order.Workspace}, err)
	}
	c.laid = c.made.Engine != EnginePodman // whose containers are made anew each time
	c.made.View = viewOf(worker.ViewMade{Kind: ViewCapture, Reason: "the agent worked inside the image, and its state layer was not kept"}, *reply.Tree)
	return nil
}

// withCapture asks the worker to copy between a directory of the host and the
// cell's working directory.
func (c *cell) withCapture(ctx context.Context, r worker.Request, dir string, ignore []string) (worker.Reply, error) {
	kind := worker.ViewCopy
	if r.Op == worker.OpCapture {
		kind = worker.ViewLend
	}
	files, err := c.openForView(&worker.View{Source: dir, Kind: kind})
	if err != nil {
		return worker.Reply{}, fmt.Errorf("open %s: %w", dir, err)
	}
	defer closeAll(files)
	r.Cell = c.name
	r.Capture = &worker.Capture{Dir: c.order.WorkingDir, Owner: tree.Owner{UID: c.user.UID, GID: c.user.GID}, Ignore: ignore}
	return c.host.worker.do(ctx, r, files...)
}

// capture copies the working directory of an ended cell to the host. The copy
// is the image user's until it is taken back.
func (c *cell) capture(ctx context.Context, s Settle) (excluded int, err error) {
	if c.order.WorkingDir == "" {
		return 0, nil
	}
	if err := c.noteLent(s.Capture); err != nil {
		return 0, err
	}
	mounted, release, err := c.mountContainer(ctx)
	if err != nil {
		return 0, captureFault(c.order.WorkingDir, err)
	}
	reply, err := c.withCapture(ctx, worker.Request{Op: worker.OpCapture, Mounted: mounted}, s.Capture, s.Ignore)
	if err := errors.Join(err, release()); err != nil {
		return 0, captureFault(c.order.WorkingDir, err)
	}
	return reply.Tree.Excluded, nil
}

func captureFault(dir string, err error) error {
	f := &Fault{Tried: "copy the workspace out of the cell", On: "from " + dir, Why: err, Do: "check that there is space for it"}
	var failed *workerError
	switch {
	case !errors.As(err, &failed):
	case failed.cause.Workspace:
		f.Kind, f.Do = Evidence, ""
	case failed.cause.Refused:
		f.Kind, f.Do = Refusal, ""
	}
	return f
}
