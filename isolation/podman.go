package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/isolation/states"
	"podgrade/isolation/worker"
)

// bootPodman makes a cell as a container of Podman. What is bound into it, and
// the specification that it is compared with, are made as for the bundle
// engine; Podman brings the root file system and starts the runtime.
func (c *cell) bootPodman(ctx context.Context) error {
	if c.container != "" { // held by endPodman
		return &Fault{Tried: "use the cell", Why: fmt.Errorf("%w: a command ended it, and the Podman engine cannot go on in its root file system", ErrCellLost), Do: "use --engine bundle"}
	}
	watch := stopwatch{into: c.made.TimingsMS, last: time.Now()}
	facts, err := c.host.imageFacts(ctx, c.order)
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
	if err := c.views(ctx); err != nil {
		return err
	}
	watch.lap("views")
	spec, err := c.contain(ctx, facts, &watch)
	if err != nil {
		return err
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	watch.lap("network")
	// Only now: before its supervisor runs the process is the runtime's own,
	// whose capabilities and filter say nothing.
	if err := c.verify(ctx, spec); err != nil {
		return err
	}
	watch.lap("verify")
	return nil
}

// contain makes the container and starts it, in the cell's control group where it
// has one. A group that no container starts in, or that the runtime does not
// enter, is none, as with the bundle engine: the container is made again without.
func (c *cell) contain(ctx context.Context, facts *worker.RootFacts, watch *stopwatch) (*specs.Spec, error) {
	for {
		spec, err := c.makeContainer(ctx, facts, watch)
		if c.limits == nil || ctx.Err() != nil || c.host.gone() || errors.Is(err, ErrNoImage) {
			return spec, err
		}
		if err == nil {
			if err = c.limits.holds(); err == nil {
				return spec, nil
			}
			c.end(true, true)
		}
		if err := c.unlimited(err); err != nil {
			return nil, err
		}
	}
}

// makeContainer makes the container, up to its supervisor's hello.
func (c *cell) makeContainer(ctx context.Context, facts *worker.RootFacts, watch *stopwatch) (*specs.Spec, error) {
	spec, raw, err := c.specification(facts)
	if err != nil {
		return nil, err
	}
	if err := c.createContainer(ctx, spec, raw); err != nil {
		return nil, err
	}
	if err := c.applyState(ctx); err != nil {
		return nil, c.failed("grade with the state layer", err)
	}
	watch.lap("create")
	if err := c.prepareContainer(ctx, facts); err != nil {
		return nil, c.failed("prepare the container", err)
	}
	watch.lap("prepare")
	if err := c.startContainer(ctx); err != nil {
		return nil, err
	}
	watch.lap("start")
	return spec, nil
}

// failed ends what was begun, and adds what the runtime and Podman said.
func (c *cell) failed(tried string, err error) error {
	c.end(true, true)
	if said := c.stderr; said != nil && said.String() != "" {
		err = fmt.Errorf("%w: %s", err, strings.ReplaceAll(said.String(), "\n", "; "))
	}
	if errors.Is(err, ErrClosed) {
		err = c.host.workerFault(err)
	}
	if errors.Is(err, states.ErrDamaged) {
		return damagedState(c.order.State, err)
	}
	return &Fault{Tried: tried, On: "of " + c.order.Image.Pin.String(), Why: err, Do: "check that `podman run` works for this user"}
}

// prepareContainer attaches to the container, which makes Podman prepare it,
// and adopts it.
func (c *cell) prepareContainer(ctx context.Context, facts *worker.RootFacts) error {
	theirs, err := c.channel()
	if err != nil {
		return err
	}
	if err := c.attach(ctx, theirs); err != nil {
		return err
	}
	return c.adoptContainer(ctx, facts)
}

// startContainer lets the container run, until its supervisor says hello.
func (c *cell) startContainer(ctx context.Context) error {
	if err := c.runContainer(ctx); err != nil {
		return c.failed("start the container", err)
	}
	return c.greet(ctx)
}

// adoptContainer hands the container's first process to the worker, which makes
// its root file system like the bundle engine's and finds a home for its user.
func (c *cell) adoptContainer(ctx context.Context, facts *worker.RootFacts) error {
	pid, err := c.containerPID(ctx)
	if err != nil {
		return fmt.Errorf("find its first process: %w", err)
	}
	image := &worker.RootFacts{Mtab: facts.Mtab, Work: facts.Work}
	watch, end, err := os.Pipe()
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, worker.Request{Op: worker.OpAdopt, PID: pid, Image: image, Upper: c.podmanUpper(ctx)}, end)
	end.Close()
	go detachAtEnd(watch, c.attached)
	if err != nil {
		return err
	}
	home, err := c.ask(ctx, worker.Request{Op: worker.OpHome, User: &c.user, Create: c.order.Create, WorkingDir: c.order.WorkingDir})
	if err != nil {
		return fmt.Errorf("find a home for the image's user: %w", err)
	}
	c.made.Home = home.Path
	return c.layCapture(ctx)
}

// detachGrace is how long after the end of a container's first process its last
// words may still come.
const detachGrace = 2 * time.Second

// detachAtEnd cuts the connection to a container's streams when its first
// process has ended, which closes watch. Podman does it, but not when somebody
// has killed conmon: a command would be waited for that is no more.
func detachAtEnd(watch io.ReadCloser, attached io.Closer) {
	io.Copy(io.Discard, watch)
	watch.Close()
	time.Sleep(detachGrace)
	attached.Close()
}

// endPodman ends the container and removes it. That of an execute cell stays
// when keep is set: it holds what is still to be taken.
func (c *cell) endPodman(kill, keep bool) string {
	ctx, cancel := context.WithTimeout(context.Background(), containerGrace)
	defer cancel()
	if c.ends != nil {
		c.ends.toCell.Close() // the supervisor leaves on this
	}
	_, err := c.ask(ctx, worker.Request{Op: worker.OpFinish, Kill: kill, Keep: keep})
	how := "it was never made"
	switch {
	case c.container == "":
	case keep && c.order.Create && c.made.Verified:
		how = "it is held"
	default:
		how = c.removeContainer(ctx)
	}
	if c.ends != nil {
		select {
		case <-c.ends.drained:
		case <-ctx.Done():
		}
		c.ends.fromCell.Close()
		c.ends = nil
	}
	c.client = nil
	if err != nil && !c.host.gone() {
		return err.Error()
	}
	return how
}

// checkContainer tells whether the container is still there: Podman removes an
// image only together with the containers that stand on it.
func (c *cell) checkContainer(ctx context.Context) error {
	// Podman is asked without the lock, or Close would wait for it.
	c.mu.Lock()
	name := c.container
	if c.client == nil { // its own command ended it
		name = ""
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, containerGrace)
	defer cancel()
	var err error
	if name != "" {
		err = c.containerRuns(ctx, name)
	}
	if err == nil {
		_, err = c.host.ImageByPin(ctx, c.order.Image.Pin)
	}
	if err != nil {
		return &Fault{Tried: "check the image", On: c.order.Image.Pin.String(), Why: err,
			Do: "the row is unchanged: make the image again, then grade again"}
	}
	return nil
}

func (c *cell) containerRuns(ctx context.Context, name string) error {
	s, err := c.host.podmanService(ctx)
	if err != nil {
		return err
	}
	found, err := s.inspect(ctx, name)
	switch {
	case isNotFound(err):
		return fmt.Errorf("%w: its container was removed while it was graded", ErrNoImage)
	case err != nil:
		return err
	case !found.Running:
		return fmt.Errorf("%w: its container does not run any more", ErrCellLost)
	}
	return nil
}

// imageFacts looks into an image once: through its layers where the kernel mounts
// them for Podman too, which spares two starts of Podman, else through a mount that
// Podman makes whatever its driver is.
func (h *Host) imageFacts(ctx context.Context, o Order) (*worker.RootFacts, error) {
	image, key := o.Image, strings.Join(append([]string{o.Image.Pin.ID}, o.Programs...), "\x00")
	h.mu.Lock()
	facts := h.facts[key]
	h.mu.Unlock()
	if facts != nil {
		return facts, nil
	}
	look := worker.Request{Op: worker.OpLook, SearchPath: image.searchPath(), Programs: o.Programs}
	if image.Driver == overlayDriver && len(image.Layers) > 0 {
		look.Root = &worker.Root{Layers: image.Layers}
		reply, err := h.worker.do(ctx, look)
		switch {
		case err == nil:
			facts = reply.Rootfs
		case ctx.Err() != nil || errors.Is(err, ErrClosed):
			return nil, &Fault{Tried: "look into the image", On: image.Pin.String(), Why: h.workerFault(err)}
		} // else Podman says what is wrong with the image, if anything is
	}
	if facts == nil {
		reply, err := h.lookMounted(ctx, image, look)
		if err != nil {
			return nil, mountFault(image, err)
		}
		facts = reply.Rootfs
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.facts == nil {
		h.facts = map[string]*worker.RootFacts{}
	}
	h.facts[key] = facts
	return facts, nil
}

func (h *Host) lookMounted(ctx context.Context, image Image, look worker.Request) (worker.Reply, error) {
	dir, err := h.podmanSays(ctx, "image", "mount", image.Pin.ID)
	if err != nil {
		return worker.Reply{}, err
	}
	look.Root, look.Dir = nil, dir
	reply, err := h.worker.do(ctx, look)
	_, unmounting := h.podmanSays(context.WithoutCancel(ctx), "image", "unmount", image.Pin.ID)
	return reply, errors.Join(err, unmounting)
}

// mountFault wraps ErrNoImage when the image is not in the store any more.
func mountFault(image Image, err error) error {
	if errors.Is(imageFault("", err), ErrNoImage) {
		return removedFault("mount the image", image)
	}
	return &Fault{Tried: "mount the image", On: image.Pin.String(), Why: err}
}

func removedFault(tried string, image Image) error {
	return &Fault{Tried: tried, On: image.Pin.String(), Why: ErrNoImage, Do: "the image was removed meanwhile: make it again, then grade again"}
}

// entrust writes the specification where Podman's hook finds it.
func (c *cell) entrust(ctx context.Context, raw json.RawMessage) (specFile string, err error) {
	reply, err := c.ask(ctx, worker.Request{Op: worker.OpEntrust, Spec: raw})
	if err != nil {
		return "", &Fault{Tried: "prepare the cell", Why: c.host.workerFault(err)}
	}
	return reply.Path, nil
}

// ownerLabels say whose a container is.
func ownerLabels(run string) (map[string]string, error) {
	owner, err := processIdentity()
	return map[string]string{labelCell: owner, labelRun: run}, err
}

// Labels of a cell of the Podman engine.
const (
	labelCell = "podgrade.cell" // value as of labelHolder
	labelRun  = "podgrade.run"  // directory of the podgrade in its scratch
)
