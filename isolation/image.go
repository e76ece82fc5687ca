package isolation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"podgrade/isolation/worker"
	"podgrade/oci"
)

// inspected is the part of `podman image inspect` that we use.
type inspected struct {
	ID           string `json:"Id"`
	Digest       string
	RepoTags     []string
	RepoDigests  []string
	Created      time.Time
	Architecture string
	Variant      string
	Os           string
	Labels       map[string]string
	Config       struct {
		User       string
		Env        []string
		WorkingDir string
		Volumes    map[string]struct{}
	}
	GraphDriver struct {
		Name string
		Data map[string]string
	}
}

// Image looks an image up in Podman's store by name or id. It never pulls. The
// error wraps ErrNoImage when the store has none of that name.
func (h *Host) Image(ctx context.Context, reference string) (Image, error) {
	if reference == "" || strings.HasPrefix(reference, "-") {
		return Image{}, &Fault{Kind: Refusal, Tried: "look up an image", Why: fmt.Errorf("%q cannot be the name of one", reference)}
	}
	if image, ok := h.lookups.find(reference); ok {
		return image, nil
	}
	defer h.lookups.wait(reference)()
	if image, ok := h.lookups.find(reference); ok {
		return image, nil
	}
	if image, ok := h.lookups.findKept(reference); ok {
		return image, nil
	}
	out, began, err := h.inspectImage(ctx, reference)
	if err != nil {
		return Image{}, err
	}
	var found []inspected
	if err := json.Unmarshal(out, &found); err != nil || len(found) != 1 {
		return Image{}, &Fault{Tried: "look up the image", On: reference, Why: fmt.Errorf("podman's answer describes %d images (%v)", len(found), err)}
	}
	image, err := found[0].image(reference)
	if err == nil {
		h.lookups.keep(reference, image.clone(), began)
	}
	return image, err
}

// inspectTries is how often Podman is asked for an image that it cannot read: it sees
// now and then what another Podman has written in part ("layer not known"), and finds
// no image of an id that is there.
const (
	inspectTries = 3
	inspectPause = 200 * time.Millisecond
)

// inspectImage returns what Podman prints of an image, and when it was asked.
func (h *Host) inspectImage(ctx context.Context, reference string) (out []byte, began time.Time, err error) {
	for try := 1; ; try++ {
		began = time.Now()
		out, stderr, code, err := h.runPodman(ctx, "image", "inspect", "--format", "json", "--", reference)
		if err != nil || code == 0 {
			return out, began, err
		}
		fault := imageFault(reference, podmanFailed(stderr, code))
		if errors.Is(fault, ErrNoImage) && !imageID.MatchString(reference) || try == inspectTries {
			return nil, began, fault
		}
		select {
		case <-ctx.Done():
			return nil, began, fault
		case <-time.After(inspectPause):
		}
	}
}

// ImageByPin looks an image up by its id, whatever tags say now, or by its
// manifest digest when the pin has no id.
func (h *Host) ImageByPin(ctx context.Context, pin oci.Pin) (Image, error) {
	name := pin.ID
	if name != "" && !imageID.MatchString(name) {
		return Image{}, &Fault{Kind: Refusal, Tried: "find the pinned image", On: pin.Reference, Why: fmt.Errorf("%.80q is not the id of an image, 64 lower-case hexadecimal digits", name),
			Do: "correct the pin: podgrade images ls --json prints whole ids"}
	}
	if name == "" {
		repository, _, _ := strings.Cut(pin.Reference, "@")
		if i := strings.LastIndex(repository, ":"); i > strings.LastIndex(repository, "/") {
			repository = repository[:i]
		}
		name = repository + "@" + pin.Digest
	}
	image, err := h.Image(ctx, name)
	if err != nil {
		return Image{}, err
	}
	if !image.Pin.Same(pin) {
		return Image{}, &Fault{Tried: "find the pinned image", On: pin.String(), Why: fmt.Errorf("%w: %s leads to %s", ErrNoImage, name, image.Pin)}
	}
	image.Pin.Reference = pin.Reference
	return image, nil
}

func imageFault(reference string, why error) error {
	// Podman has no exit code of its own for "not found": 125 is everything. Words
	// that do not speak of an image will not do: a program or a library that is
	// not found is a fault of the host.
	for _, words := range []string{"no such image", "image not known", "failed to find image", "unable to find image"} {
		if strings.Contains(strings.ToLower(why.Error()), words) {
			return &Fault{Tried: "look up the image", On: reference, Why: ErrNoImage, Do: GetImage(reference) + ", or pull or load it with podman"}
		}
	}
	if fault := halfMadeFault("look up the image", reference, why); fault != nil {
		return fault
	}
	return &Fault{Tried: "look up the image", On: reference, Why: why, Do: "see what `podgrade doctor` says"}
}

func (i inspected) image(reference string) (Image, error) {
	layers, err := i.layers()
	if err != nil {
		return Image{}, &Fault{Tried: "use the image", On: reference, Why: err}
	}
	platform := i.Os + "/" + i.Architecture
	if i.Variant != "" {
		platform += "/" + i.Variant
	}
	var volumes []string
	for v := range i.Config.Volumes {
		volumes = append(volumes, v)
	}
	slices.Sort(volumes)
	return Image{
		Pin:        oci.Pin{Reference: reference, ID: strings.TrimPrefix(i.ID, "sha256:"), Digest: i.Digest, Platform: platform},
		References: i.RepoTags, Env: i.Config.Env, WorkingDir: i.Config.WorkingDir, User: i.Config.User,
		Volumes: volumes, Driver: i.driver(layers), Layers: layers, Labels: i.Labels, Created: i.Created, Digests: i.RepoDigests,
	}, nil
}

// layers are the directories of an image that the driver overlay keeps, top
// first.
func (i inspected) layers() ([]string, error) {
	if i.GraphDriver.Name != overlayDriver {
		return nil, nil
	}
	layers := []string{i.GraphDriver.Data["UpperDir"]}
	if lower := i.GraphDriver.Data["LowerDir"]; lower != "" {
		layers = append(layers, strings.Split(lower, ":")...)
	}
	for _, dir := range layers {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("podman names %q as one of its layers", dir)
		}
	}
	return layers, nil
}

// maxPodmanOutput caps what we read of one Podman command, in bytes.
const maxPodmanOutput = 16 << 20

// runPodman runs one Podman command on the caller's store.
func (h *Host) runPodman(ctx context.Context, args ...string) (stdout []byte, stderr string, code int, err error) {
	return h.runPodmanOn(ctx, nil, args...)
}

// runPodmanOn runs one Podman command on an input; nil: /dev/null.
func (h *Host) runPodmanOn(ctx context.Context, stdin *os.File, args ...string) (stdout []byte, stderr string, code int, err error) {
	var out bytes.Buffer
	errTail := &tail{max: 4 << 10}
	code, err = h.privilege.podman(ctx, h, append([]string{h.podman}, args...), stdin, &limitedWriter{w: &out, left: maxPodmanOutput}, errTail)
	if err != nil {
		return nil, "", 0, &Fault{Tried: "run podman " + args[0], Why: h.workerFault(err)}
	}
	return out.Bytes(), errTail.String(), code, nil
}

// execInside runs a program of the host inside the worker's namespaces.
func (h *Host) execInside(ctx context.Context, argv, env []string, stdin *os.File, stdout, stderr io.Writer) (int, error) {
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return 0, err
		}
		defer null.Close()
		stdin = null
	}
	out, err := newDrain(stdout)
	if err != nil {
		return 0, err
	}
	defer out.close()
	said, err := newDrain(stderr)
	if err != nil {
		return 0, err
	}
	defer said.close()
	reply, err := h.worker.do(ctx, worker.Request{Op: worker.OpExec, Exec: &worker.Exec{Argv: argv, Env: env, Dir: "/"}}, stdin, out.end, said.end)
	return reply.ExitCode, err
}

// drain copies what a program writes to its end.
type drain struct {
	end, from *os.File
	done      chan struct{}
}

func newDrain(w io.Writer) (*drain, error) {
	from, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	d := &drain{end: end, from: from, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		io.Copy(w, from)
		io.Copy(io.Discard, from) // a full writer must not stop the program
	}()
	return d, nil
}

// drainGrace is how long the output of a program that has ended may still
// come: what it left running in a session of its own may hold the pipe.
const drainGrace = 2 * time.Second

func (d *drain) close() {
	d.end.Close()
	select {
	case <-d.done:
	case <-time.After(drainGrace):
	}
	d.from.Close()
	<-d.done
}

// limitedWriter fails once it has taken left bytes.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, fmt.Errorf("more than %d bytes", maxPodmanOutput)
	}
	l.left -= len(p)
	return l.w.Write(p)
}

// searchPath is the image's own PATH; "" when its configuration has none.
func (i Image) searchPath() string {
	for _, entry := range slices.Backward(i.Env) {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			return value
		}
	}
	return ""
}
