package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// The workspace views: how a cell sees the workspace.
const (
	ViewAuto    = string(worker.ViewAuto)    // a copy of a small tree, an overlay of a large one
	ViewCopy    = string(worker.ViewCopy)    // a private copy
	ViewOverlay = string(worker.ViewOverlay) // a private overlay; a copy where that would not show the tree as it is
	ViewBind    = string(worker.ViewBind)    // the tree itself, which commands change
)

// Views are those that can be asked for.
func Views() []string { return []string{ViewAuto, ViewCopy, ViewOverlay, ViewBind} }

// mostBrought bounds what a task brings along, which is copied for each row: a
// record can name any directory as that of its task.
var mostBrought = tree.Bound{Entries: 100_000, Bytes: 4 << 30}

// views makes the views of the workspace and of what the task brings. A cell
// that is made again after a command ended it keeps them, with what earlier
// commands wrote.
func (c *cell) views(ctx context.Context) error {
	if c.viewPaths != nil {
		return nil
	}
	asked, err := c.askedView()
	if err != nil {
		return err
	}
	if c.order.WorkingDir != "" {
		if err := c.inImage(ctx); err != nil || c.order.Create {
			return err
		}
	} else if c.order.Create {
		return c.lendWorkspace(ctx)
	}
	if c.viewPaths == nil {
		c.viewPaths = map[string]string{}
	}
	for _, v := range []struct {
		name, source, destination string
		kind                      worker.ViewKind
		readOnly                  bool
	}{
		{"workspace", c.order.Workspace, oci.WorkspacePath, asked, false},
		{"task-dir", c.order.TaskDir, oci.TaskDirPath, worker.ViewCopy, true},
		{"reference", c.order.Reference, oci.ReferencesPath, worker.ViewCopy, true},
	} {
		if v.source == "" || !v.readOnly && c.order.WorkingDir != "" {
			continue
		}
		var most tree.Bound
		if v.readOnly {
			most = mostBrought
		}
		reply, err := c.view(ctx, &worker.View{Most: most,
			Name: v.name, Kind: v.kind, Source: v.source, ReadOnly: v.readOnly, Unmounted: c.made.Engine == EngineHost,
			Options: tree.Options{Give: tree.Owner{UID: c.user.UID, GID: c.user.GID}, Filter: v.readOnly, Skip: c.skipped()},
			Digests: c.host.digests(),
		})
		if err != nil {
			return err
		}
		c.viewPaths[v.name] = reply.Path
		c.binds = append(c.binds, oci.Bind{Source: reply.Path, Destination: v.destination, ReadOnly: v.readOnly})
		switch v.name {
		case "workspace":
			c.made.View = viewOf(*reply.View, *reply.Tree)
		case "task-dir":
			c.made.TaskDirDigest = reply.Tree.Digest
		case "reference":
			c.made.ReferenceDigest = reply.Tree.Digest
		}
	}
	return nil
}

// digests is where digests of large trees are kept from one podgrade to the next,
// in the user's cache and so outside of every run; "" where there is none. Root's
// cells have ids that are nobody's, which find nothing there.
func (h *Host) digests() string {
	cache, err := os.UserCacheDir()
	if err != nil || os.Geteuid() == 0 {
		return ""
	}
	return filepath.Join(cache, "podgrade", "digests")
}

// askedView is the view that the order asks for.
func (c *cell) askedView() (worker.ViewKind, error) {
	if c.order.View == "" {
		return worker.ViewAuto, nil
	}
	if !slices.Contains(Views(), c.order.View) {
		return "", &Fault{Kind: Refusal, Tried: "choose a workspace view", Why: fmt.Errorf("there is no view %q", c.order.View), Do: "the views are " + strings.Join(Views(), ", ")}
	}
	return worker.ViewKind(c.order.View), nil
}

func viewOf(made worker.ViewMade, r tree.Report) View {
	return View{Kind: string(made.Kind), Reason: made.Reason, Entries: r.Entries, Bytes: r.Bytes, Digest: r.Digest, Times: r.Times, Hazards: r.Hazards}
}

// skipped keeps the run directory and our own scratch, which may lie inside a task
// directory, out of what the cell is given: the scratch holds the copy itself.
func (c *cell) skipped() []tree.FileID {
	var ids []tree.FileID
	for _, dir := range append(slices.Clone(c.order.Hidden), c.host.options.Scratch) {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			ids = append(ids, tree.FileID{Dev: st.Dev, Ino: st.Ino})
		}
	}
	return ids
}

// view makes one view in the worker.
func (c *cell) view(ctx context.Context, v *worker.View) (worker.Reply, error) {
	dirs, err := c.openForView(v)
	if err != nil {
		return worker.Reply{}, openFault(v.Source, err)
	}
	defer closeAll(dirs)
	reply, err := c.ask(ctx, worker.Request{Op: worker.OpView, View: v}, dirs...)
	if err != nil {
		return reply, viewFault(v, err)
	}
	return reply, nil
}

// openForView opens what a view is made of.
func (c *cell) openForView(v *worker.View) ([]*os.File, error) {
	if v.Kind != worker.ViewLend {
		return c.host.privilege.source(v)
	}
	dir, err := c.host.privilege.target(v)
	return []*os.File{dir}, err
}

// openFault blames the directory that cannot be opened, unless somebody knows
// better.
func openFault(path string, err error) error {
	var known *Fault
	if errors.As(err, &known) {
		return err
	}
	return &Fault{Kind: Evidence, Tried: "open the directory", On: path, Why: err}
}

func viewFault(v *worker.View, err error) error {
	f := &Fault{Tried: "make a view of", On: v.Source, Why: err, Do: "check that there is space in the scratch directory"}
	var failed *workerError
	switch {
	case !errors.As(err, &failed):
	case failed.cause.Workspace:
		f.Kind, f.Do = Evidence, ""
	case failed.cause.Refused && v.ReadOnly:
		f.Kind, f.Tried, f.Do = Refusal, "copy what the task brings along", "put the task file, or the reference, into a directory of its own"
	case failed.cause.Refused:
		f.Kind, f.Tried, f.Do = Refusal, "bind the workspace", "use another --workspace-view: auto, copy or overlay"
	}
	return f
}
