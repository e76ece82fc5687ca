package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"podgrade/isolation/protocol"
	"podgrade/isolation/states"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// helloGrace is how long a started cell may take to say hello. A cell is
// there in some 30 ms; a loaded host takes longer.
const helloGrace = 60 * time.Second

// openCell makes a cell with the engine that choose sets.
func (h *Host) openCell(ctx context.Context, o Order, choose func(*cell)) (Cell, error) {
	h.mu.Lock()
	h.cells++
	c := &cell{host: h, name: fmt.Sprintf("cell-%d", h.cells), order: o}
	h.open[c] = true
	h.mu.Unlock()
	c.made = Made{Pin: o.Image.Pin, HostIDs: h.privilege.ids(), LimitsAsked: o.Plan.Limits, TimingsMS: map[string]float64{}}
	choose(c)
	if err := h.privilege.check(c.made.Engine); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.limit()
	if err := errors.Join(o.namesFault(), c.limitsFault(), c.findState(), c.workingDirFault()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.boot(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if o.Create {
		c.made.StateProblem = c.stateProblem()
	}
	return c, nil
}

// bootBundle makes a cell with the bundle engine: our own OCI bundle, run by
// crun or runc on the layers in Podman's store. It makes the root file system,
// the views (the first time) and the container, and proves it.
func (c *cell) bootBundle(ctx context.Context) error {
	watch := stopwatch{into: c.made.TimingsMS, last: time.Now()}
	facts, err := c.rootFS(ctx)
	if err != nil {
		return err
	}
	watch.lap("root")
	if c.user, err = c.imageUser(facts); err != nil {
		return err
	}
	c.made.Programs = facts.Programs
	if facts.Shell {
		c.made.Shell = "/bin/sh"
	}
	home, err := c.ask(ctx, worker.Request{Op: worker.OpHome, User: &c.user, Create: c.order.Create, WorkingDir: c.order.WorkingDir})
	if err != nil {
		return homeFault(c.order.WorkingDir, c.host.workerFault(err))
	}
	c.made.Home = home.Path
	if err := errors.Join(c.views(ctx), c.layCapture(ctx)); err != nil {
		return err
	}
	watch.lap("views")
	spec, err := c.start(ctx, facts)
	if err != nil {
		return err
	}
	watch.lap("start")
	if err := c.connect(ctx); err != nil {
		return err
	}
	watch.lap("network")
	if err := c.verify(ctx, spec); err != nil {
		return err
	}
	watch.lap("verify")
	return nil
}

type stopwatch struct {
	into map[string]float64
	last time.Time
}

func (s *stopwatch) lap(name string) {
	now := time.Now()
	s.into[name] += float64(now.Sub(s.last).Microseconds()) / 1000
	s.last = now
}

// workerGrace bounds what a worker does in milliseconds. Only views take as
// long as their trees are large, and state layers as what they share is.
const workerGrace = 60 * time.Second

// ask asks the worker about the cell. A worker that does not answer is ended,
// and with it, by the kernel, every cell: waiting for it again in each step of
// the clean-up would take minutes.
func (c *cell) ask(ctx context.Context, r worker.Request, files ...*os.File) (worker.Reply, error) {
	r.Cell = c.name
	if r.Op == worker.OpView || r.Op == worker.OpRoot && r.Root.State != "" {
		return c.host.worker.do(ctx, r, files...)
	}
	waiting, cancel := context.WithTimeout(ctx, c.host.patience)
	defer cancel()
	reply, err := c.host.worker.do(waiting, r, files...)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		c.host.worker.end(fmt.Errorf("it did not answer within %v", c.host.patience))
		c.host.process.Kill()
		return reply, c.host.worker.err
	}
	return reply, err
}

func (c *cell) rootFS(ctx context.Context) (*worker.RootFacts, error) {
	root := c.root()
	image, err := c.host.privilege.image(ctx, c, root)
	defer closeAll(image)
	var reply worker.Reply
	if err == nil {
		reply, err = c.ask(ctx, worker.Request{Op: worker.OpRoot, Root: root, SearchPath: c.order.Image.searchPath(), Programs: c.order.Programs}, image...)
	}
	if err != nil {
		do := ""
		if errors.Is(err, ErrNoImage) {
			do = "the image was removed meanwhile: make it again, then grade again"
		}
		if errors.Is(err, states.ErrDamaged) {
			return nil, damagedState(c.order.State, err)
		}
		return nil, &Fault{Tried: "mount the image", On: c.order.Image.Pin.String(), Why: c.host.workerFault(err), Do: do}
	}
	return reply.Rootfs, nil
}

func (c *cell) root() *worker.Root {
	r := &worker.Root{Layers: c.order.Image.Layers, Create: c.order.Create}
	if c.order.State != "" {
		r.State = c.host.stateDir(c.order.State)
	}
	return r
}

// imageUser finds the user once: commands may change what names him.
func (c *cell) imageUser(facts *worker.RootFacts) (oci.User, error) {
	if c.viewPaths != nil {
		return c.user, nil
	}
	user, err := oci.ResolveUser(c.order.Image.User, facts.Passwd, facts.Group)
	if err == nil {
		err = oci.CheckUser(user, c.host.hello.IDs)
	}
	if err != nil {
		return user, &Fault{Kind: Refusal, Tried: "start a cell", On: "of " + c.order.Image.Pin.String(), Why: err}
	}
	return user, nil
}

// specification makes the cell's OCI specification and the small files that
// it binds over those of the image.
func (c *cell) specification(facts *worker.RootFacts) (*specs.Spec, []byte, error) {
	etc, err := c.etcFiles()
	if err != nil {
		return nil, nil, &Fault{Tried: "write the cell's /etc files", Why: err, Do: "check that there is space in the scratch directory"}
	}
	binds := append([]oci.Bind{{Source: worker.ToolDir(c.host.run.dir), Destination: oci.ToolPath, ReadOnly: true}}, c.binds...)
	spec, err := oci.Spec(c.order.Plan, oci.Facts{
		Rootfs: facts.Path, Binds: append(binds, etc...), User: c.user,
		IDs: c.host.hello.IDs, Rlimits: c.host.hello.Rlimits, Resources: c.limits.asSpec(),
	})
	if err != nil {
		return nil, nil, &Fault{Tried: "make the cell's specification", Why: err}
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, nil, &Fault{Tried: "make the cell's specification", Why: err}
	}
	c.made.Spec, c.made.SpecSHA256 = spec, sha256Hex(raw)
	return spec, raw, nil
}

// hostsFile is one of worker.EtcFiles.
const hostsFile = "hosts"

// etcContent is what the files of worker.EtcFiles hold.
func (c *cell) etcContent() map[string]string {
	hostname := c.order.Plan.HostnameOrDefault()
	return map[string]string{
		hostsFile:     fmt.Sprintf("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t%s\n", hostname),
		"hostname":    hostname + "\n",
		"resolv.conf": resolver(c.order.Plan.Network),
	}
}

// etcFiles writes hosts, hostname and resolv.conf of the cell.
func (c *cell) etcFiles() ([]oci.Bind, error) {
	files := c.etcContent()
	dir := worker.EtcDir(c.host.run.dir, c.name)
	if err := errors.Join(os.MkdirAll(dir, 0o755), c.host.privilege.own(dir)); err != nil {
		return nil, err
	}
	var binds []oci.Bind
	for _, name := range worker.EtcFiles {
		path := filepath.Join(dir, name)
		binds = append(binds, oci.Bind{Source: path, Destination: "/etc/" + name})
		// An execute cell that a command ended goes on with what it had.
		if _, err := os.Lstat(path); err == nil && c.order.Create {
			continue
		}
		if err := errors.Join(writeForEveryone(path, files[name]), c.host.privilege.own(path)); err != nil {
			return nil, err
		}
	}
	return binds, nil
}

// writeForEveryone writes a file that the cell's user can read, whatever the
// caller's umask is, in the place of one that an earlier start of the cell may
// have given to somebody else.
func writeForEveryone(path, content string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
}

// start starts the runtime on the cell's specification, in the cell's control
// group where it has one, and waits until the supervisor says hello. A group
// that no process can be put into is none: that limits are not enforced is for
// the record to say, unless they are required.
func (c *cell) start(ctx context.Context, facts *worker.RootFacts) (*specs.Spec, error) {
	for {
		spec, raw, err := c.specification(facts)
		if err != nil {
			return nil, err
		}
		err = c.startRuntime(ctx, spec, raw)
		if err == nil {
			if err = c.greet(ctx); err != nil {
				c.host.filters.forget(c.profile)
			}
			return spec, errors.Join(err, c.limitsHold(err))
		}
		if c.limits == nil || ctx.Err() != nil || c.host.gone() {
			return nil, &Fault{Tried: "start a cell", On: "of " + c.order.Image.Pin.String(), Why: c.host.workerFault(err)}
		}
		if err := c.unlimited(err); err != nil {
			return nil, err
		}
	}
}

func (c *cell) startRuntime(ctx context.Context, spec *specs.Spec, raw []byte) error {
	request, err := c.host.filters.start(spec, raw)
	if err != nil {
		return err
	}
	c.profile = request.Profile
	theirs, err := c.channel()
	if err != nil {
		return err
	}
	defer closeAll(theirs[:])
	files := theirs[:]
	if c.limits != nil {
		doors, err := c.limits.doors()
		if err != nil {
			return err
		}
		defer closeAll(doors)
		files = append(slices.Clone(files), doors...)
		request.Enter = c.limits.first
	}
	_, err = c.ask(ctx, request, files...)
	return err
}

// greet waits until the started supervisor says hello.
func (c *cell) greet(ctx context.Context) error {
	c.client = protocol.NewClient(c.ends.fromCell, c.ends.toCell)
	waiting, cancel := context.WithTimeout(ctx, helloGrace)
	defer cancel()
	if err := c.client.Hello(waiting); err != nil {
		return c.noHello(ctx, err)
	}
	return nil
}

// noHello explains a cell whose supervisor never spoke: the runtime's and the
// kernel's last words say why.
func (c *cell) noHello(ctx context.Context, err error) error {
	end := c.end(true, true)
	if ctx.Err() != nil { // it was not waited for
		return ctx.Err()
	}
	runtime := c.host.runtime.Path
	why := fmt.Errorf("its supervisor did not answer (%w)", err)
	if said := runtimeSaid(c.stderr.String()); said != "" {
		why = fmt.Errorf("its supervisor did not start with %s: %s", runtime, said)
	} else if end != "" {
		why = fmt.Errorf("its supervisor did not start with %s (%s)", runtime, end)
	}
	return &Fault{Tried: "start a cell", On: "of " + c.order.Image.Pin.String(), Why: why,
		Do: "check that the image's platform is this machine's, that programs can be started from the scratch directory, and that `" + runtime + " --version` works"}
}
