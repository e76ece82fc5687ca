package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"podgrade/isolation/states"
	"podgrade/isolation/tree"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// OpenTree opens a directory whose archive PackTree makes: also one that the
// caller may not list, because it belongs to one of his subordinate ids. Every
// link of its path has been resolved: one that took a directory's place since then
// is not followed.
func OpenTree(dir string) (*os.File, error) {
	open, err := openPath(dir)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return open, nil
}

// TempDir makes a directory that goes with this podgrade.
func (h *Host) TempDir() (string, error) { return os.MkdirTemp(h.run.dir, "travel-") }

// PackTree writes the tree in a directory as an archive (tree.Pack), with the
// owners of the user namespace.
func (h *Host) PackTree(ctx context.Context, dir *os.File, o tree.PackOptions, to io.Writer) (tree.Packed, error) {
	if h.privilege.ids() == nil {
		return h.pack(ctx, worker.StagePack, dir, o, to)
	}
	shown, err := h.privilege.source(&worker.View{Source: dir.Name(), Kind: worker.ViewCopy})
	if err != nil {
		return tree.Packed{}, err
	}
	defer closeAll(shown)
	return h.pack(ctx, worker.StagePack, shown[0], o, to)
}

// PackState writes the archive that stands for a kept state layer. Its bytes
// have the sum that names the layer.
func (h *Host) PackState(ctx context.Context, diffID string, to io.Writer) (tree.Packed, error) {
	state, err := readState(h.stateDir(diffID))
	if err != nil {
		return tree.Packed{}, &Fault{Kind: Refusal, Tried: "read the state layer", On: diffID, Why: err, Do: lostState}
	}
	layer, err := filepath.EvalSymlinks(states.LayerDir(state.Path))
	if err != nil {
		return tree.Packed{}, &Fault{Tried: "read the state layer", On: diffID, Why: err}
	}
	dir, err := OpenTree(layer)
	if err != nil {
		return tree.Packed{}, &Fault{Tried: "read the state layer", On: diffID, Why: err}
	}
	defer dir.Close()
	return h.pack(ctx, worker.StagePackLayer, dir, worker.PackLayer{State: state.Path}, to)
}

// writing keeps the error of a writer whose reader does not see it, and how much
// it took.
type writing struct {
	to      io.Writer
	err     error
	written int64
}

func (w *writing) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.err = errors.Join(w.err, err)
	w.written += int64(n)
	return n, err
}

func (h *Host) pack(ctx context.Context, stage string, dir *os.File, o any, to io.Writer) (tree.Packed, error) {
	var packed worker.PackSaid
	options, err := json.Marshal(o)
	if err != nil {
		return packed.Packed, err
	}
	said, out := &tail{max: 64 << 10}, &writing{to: to}
	code, err := h.execInside(ctx, h.workerArgs(stage, string(options)), hostEnv(), dir, out, said)
	switch {
	case err != nil:
		err = h.workerFault(err)
	case code != 0:
		err = errors.New(said.String())
	case out.err != nil:
		err = out.err
	default:
		if err = json.Unmarshal([]byte(said.String()), &packed); err == nil && packed.Written != out.written {
			err = fmt.Errorf("%d of its %d bytes came", out.written, packed.Written)
		}
	}
	switch {
	case err == nil:
		return packed.Packed, nil
	case out.err != nil: // which the other error may come from
		return packed.Packed, &Fault{Tried: "pack", On: dir.Name(), Why: noted(err, out.err), Do: "see that what is packed can be written, and that its disk has room"}
	}
	return packed.Packed, &Fault{Tried: "pack", On: dir.Name(), Why: err, Do: "see that all of it can be read"}
}

// noted adds that a disk is full, which the other error may come from.
func noted(err, writing error) error {
	if writing == nil || errors.Is(err, writing) {
		return err
	}
	return errors.Join(writing, err)
}

// UnpackTree makes the tree of an archive in an empty directory that nobody else
// may reach.
func (h *Host) UnpackTree(ctx context.Context, from, dir *os.File, o tree.UnpackOptions) error {
	if h.privilege.ids() == nil {
		return h.unpack(ctx, from, dir, o)
	}
	given, err := h.privilege.target(&worker.View{Source: dir.Name()})
	if err != nil {
		return &Fault{Tried: "unpack into", On: dir.Name(), Why: err}
	}
	defer given.Close()
	err = h.unpack(ctx, from, given, o)
	_, back := h.privilege.takeBack(context.WithoutCancel(ctx), h, dir, tree.Owner{})
	return errors.Join(err, back)
}

func (h *Host) unpack(ctx context.Context, from, dir *os.File, o tree.UnpackOptions) error {
	options, err := json.Marshal(o)
	if err != nil {
		return err
	}
	text := &tail{max: 8 << 10}
	said, err := newDrain(text)
	if err != nil {
		return err
	}
	reply, err := h.worker.do(ctx, worker.Request{Op: worker.OpExec, Exec: &worker.Exec{
		Argv: h.workerArgs(worker.StageUnpack, string(options)), Env: hostEnv(), Dir: "/",
	}}, from, dir, said.end)
	said.close()
	if err != nil {
		return &Fault{Tried: "unpack into", On: dir.Name(), Why: h.workerFault(err)}
	}
	switch said := errors.New(text.String()); reply.ExitCode {
	case 0:
		return nil
	case worker.ExitNoSpace:
		return &Fault{Tried: "unpack into", On: dir.Name(), Why: fmt.Errorf("%w: %w", ErrNoSpace, said), Do: "free some space on its disk"}
	default:
		return &Fault{Kind: Refusal, Tried: "unpack into", On: dir.Name(), Why: said, Do: "the archive is not to be trusted"}
	}
}

// Stock is a state layer that came from elsewhere: its diff id, how large it may
// be, and whether the rows that it came with say that it was made before the
// agent worked.
type Stock = worker.Stock

// StockState takes a state layer in that came from elsewhere: from is the
// archive that stands for it, image what it lies above. A layer that is there
// already is kept.
func (h *Host) StockState(ctx context.Context, from *os.File, image Image, stock Stock) (err error) {
	diffID := stock.DiffID
	if h.HasState(diffID) {
		return nil
	}
	request := worker.Request{
		Op: worker.OpStock, Pin: image.Pin.String(), SearchPath: image.searchPath(),
		Root: &worker.Root{Layers: image.Layers}, Stock: &stock,
	}
	var shown []*os.File // what the image is seen by, where the worker cannot open it
	if len(image.Layers) > 0 {
		if shown, err = h.privilege.image(ctx, &cell{host: h}, request.Root); err != nil {
			return mountFault(image, err)
		}
		defer closeAll(shown)
	} else {
		if request.Mounted, err = h.podmanSays(ctx, "image", "mount", image.Pin.ID); err != nil {
			return mountFault(image, err)
		}
		defer func() {
			_, unmounting := h.podmanSays(ctx, "image", "unmount", image.Pin.ID)
			err = errors.Join(err, unmounting)
		}()
	}
	h.mu.Lock()
	h.cells++
	request.Cell = fmt.Sprintf("stock-%d", h.cells)
	h.mu.Unlock()
	_, err = h.worker.do(ctx, request, append([]*os.File{from}, shown...)...)
	_, discarding := h.worker.do(context.WithoutCancel(ctx), worker.Request{Op: worker.OpDiscard, Cell: request.Cell})
	var failed *workerError
	if errors.As(err, &failed) && failed.cause.Workspace {
		return &Fault{Kind: Refusal, Tried: "take the state layer in", On: diffID, Why: err, Do: "the archive is not to be trusted"}
	}
	if err = errors.Join(err, discarding); err != nil {
		return &Fault{Tried: "take the state layer in", On: diffID, Why: h.workerFault(err), Do: "check that there is space in the scratch directory"}
	}
	return nil
}

// SaveImage writes an image as it is in the store into a new directory: a
// manifest and blobs, named by their sums. Layers are not compressed, so that
// what two images share is the same blob.
func (h *Host) SaveImage(ctx context.Context, image Image, dir string) error {
	if _, err := h.podmanSays(ctx, "push", "--quiet", "--remove-signatures", image.Pin.ID, "dir:"+dir); err != nil {
		return &Fault{Tried: "read the image", On: image.Pin.String(), Why: saidByPodman(err), Do: "check that there is space in the scratch directory"}
	}
	return nil
}

// ImportedName begins the name that an imported image gets: its id follows.
const ImportedName = "podgrade-imported-"

// LoadImage puts the one image of an OCI layout into the store. The layout's
// directory is called ImportedName and the image's id. The image gets the name
// that follows from that, which nothing else has: so no tag of this host is
// moved, and the image is not taken for one that nobody wants. An image that is
// there already is kept.
func (h *Host) LoadImage(ctx context.Context, layout string, pin oci.Pin) (Image, error) {
	image, err := h.ImageByPin(ctx, pin)
	if !errors.Is(err, ErrNoImage) {
		return image, err
	}
	// Podman 4.3 names the image after the path as it is given, which must be a
	// name too: so it is given from the directory above.
	said := &tail{max: 4 << 10}
	base := filepath.Base(layout)
	pull := []string{"/bin/sh", "-c", `cd "$0" && exec "$@"`, filepath.Dir(layout), h.podman, "pull", "--quiet", "oci:" + base}
	code, err := h.privilege.podman(ctx, h, pull, nil, io.Discard, said)
	if err == nil && code != 0 {
		err = saidByPodman(errors.New(said.String()))
	}
	if err != nil {
		return Image{}, &Fault{Tried: "load the image", On: pin.String(), Why: err, Do: "check that there is space where Podman keeps its images"}
	}
	if image, err = h.ImageByPin(ctx, pin); err != nil {
		return Image{}, err
	}
	return image, h.tag(ctx, image, localDomain+"/"+base+":latest")
}
