package regrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"podgrade/isolation"
	"podgrade/isolation/tree"
	"podgrade/oci"
	"podgrade/regrade/archive"
)

// images loads the images that the store has not.
func (i *importing) images(ctx context.Context) error {
	for _, image := range i.archive.Manifest.Images {
		pin := oci.Pin{ID: image.ID, Platform: image.Platform}
		_, err := i.engines.ImageByPin(ctx, pin)
		if err == nil {
			i.result.Kept = append(i.result.Kept, image.ID)
			continue
		}
		if !errors.Is(err, isolation.ErrNoImage) {
			return err
		}
		if err := i.image(ctx, image, pin); err != nil {
			return err
		}
		i.result.Images = append(i.result.Images, image.ID)
	}
	return nil
}

// image loads one image: only its own blobs, as its manifest names them, are
// given to Podman.
func (i *importing) image(ctx context.Context, image archive.Image, pin oci.Pin) error {
	text, err := i.archive.Text(ctx, archive.BlobPart(image.Manifest), largestConfig)
	if err != nil {
		return i.damaged(err)
	}
	manifest, err := imageManifest(text, image.ID)
	if err != nil {
		return i.refuse(fmt.Errorf("the image %s: %w", image.ID, err), "the archive is not to be trusted; nothing of it was used")
	}
	temp, err := i.engines.TempDir()
	if err != nil {
		return i.failed(err)
	}
	defer os.RemoveAll(temp)
	layout := filepath.Join(temp, isolation.ImportedName+image.ID)
	blobs := filepath.Join(layout, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		return i.failed(err)
	}
	kind := manifest.MediaType
	if kind == "" {
		kind = types.OCIManifestSchema1
	}
	of := v1.Descriptor{MediaType: kind, Size: int64(len(text)), Digest: v1.Hash{Algorithm: "sha256", Hex: image.Manifest[len("sha256:"):]}}
	for _, blob := range append([]v1.Descriptor{of, manifest.Config}, manifest.Layers...) {
		if err := i.extract(ctx, archive.BlobPart(blob.Digest.String()), filepath.Join(blobs, blob.Digest.Hex)); err != nil {
			return err
		}
	}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{of}})
	if err == nil {
		err = errors.Join(
			os.WriteFile(filepath.Join(layout, "index.json"), index, 0o600),
			os.WriteFile(filepath.Join(layout, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o600))
	}
	if err != nil {
		return i.failed(err)
	}
	_, err = i.engines.LoadImage(ctx, layout, pin)
	return err
}

// extract writes a part into a new file.
func (i *importing) extract(ctx context.Context, part, path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil // a layer that is there twice
	}
	if err != nil {
		return i.failed(err)
	}
	if err := errors.Join(i.archive.Copy(ctx, part, file), file.Close()); err != nil {
		return i.damaged(err)
	}
	return nil
}

// states takes the state layers in that are not kept here, and holds them all: from
// now until it is noted which rows need them, nobody could know that they are needed.
func (i *importing) states(ctx context.Context) error {
	for _, state := range i.archive.Manifest.States {
		release, err := i.engines.HoldState(state.DiffID)
		if errors.Is(err, isolation.ErrNoState) {
			if err := i.state(ctx, state); err != nil {
				return err
			}
			release, err = i.engines.HoldState(state.DiffID)
		}
		if err != nil {
			return i.failed(fmt.Errorf("hold the state layer %s: %w", state.DiffID, err))
		}
		i.held = append(i.held, release)
	}
	return nil
}

// state takes one state layer in.
func (i *importing) state(ctx context.Context, state archive.State) error {
	image, err := i.engines.ImageByPin(ctx, oci.Pin{ID: state.Image})
	if errors.Is(err, isolation.ErrNoImage) {
		return i.refuse(fmt.Errorf("the image %s, which the state layer %s lies above, is not in the store: %w", state.Image, state.DiffID, isolation.ErrNoImage),
			"load the image first, or export the rows with their images")
	}
	if err != nil {
		return err
	}
	if len(image.References) > 0 {
		image.Pin.Reference = image.References[0]
	}
	part := archive.BlobPart(state.DiffID)
	p := i.archive.Part(part)
	// Whiteouts of whole directories come beside the entries that are counted.
	stock := isolation.Stock{
		DiffID: state.DiffID, Most: tree.Bound{Entries: 2*state.Entries + 1, Bytes: p.Size}, BeforeAgent: !i.after[state.DiffID],
	}
	if err := i.stream(ctx, part, func(from *os.File) error {
		return i.engines.StockState(ctx, from, image, stock)
	}); err != nil {
		return err
	}
	i.result.States = append(i.result.States, state.DiffID)
	return nil
}
