package regrade

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

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"podgrade/isolation"
	"podgrade/isolation/tree"
	"podgrade/policy"
	"podgrade/regrade/archive"
	"podgrade/tasks/record"
)

// builtOn is an image that a state layer lies above.
type builtOn struct {
	manifest *v1.Manifest
	config   []byte
}

// cellOf takes along what the row's cell was made of: its image, and the layers
// of what was changed in it.
func (x *exporting) cellOf(ctx context.Context, id record.Identity, info *record.Object) (image string, states []string, err error) {
	pin := record.Pin(info)
	if !pin.Known() {
		if info.Text(record.ExecutedOnHost) == "" && !x.options.WithoutImages {
			fmt.Fprintf(x.options.Notice, "warning: %s: the record pins no image, so none is taken along\n", policy.Neutral(id.String()))
		}
		return "", nil, nil
	}
	layers := record.StateLayers(info)
	if x.options.WithoutImages && len(layers) == 0 {
		return pin.ID, nil, nil
	}
	found, err := x.engines.ImageByPin(ctx, pin)
	if err != nil {
		var do string
		if errors.Is(err, isolation.ErrNoImage) && !x.options.WithoutImages {
			do = "load the pinned image again, or leave images out with --without-images"
			err = &Error{Kind: Refused, Tried: "take the image along", On: pin.String(), Why: isolation.ErrNoImage, Do: do}
		}
		if !x.options.WithoutImages {
			return "", nil, err
		}
	}
	below := pin.ID
	if err == nil {
		below = found.Pin.ID
	}
	if !x.options.WithoutImages {
		if err := x.image(ctx, found); err != nil {
			return "", nil, err
		}
	}
	for _, diffID := range layers {
		if err := x.state(ctx, diffID, below); err != nil {
			return "", nil, err
		}
	}
	return below, layers, nil
}

// image takes the blobs of an image along, once.
func (x *exporting) image(ctx context.Context, image isolation.Image) error {
	if _, done := x.manifests[image.Pin.ID]; done {
		return nil
	}
	dir := filepath.Join(x.dir, "image-"+image.Pin.ID)
	if err := x.engines.SaveImage(ctx, image, dir); err != nil {
		return err
	}
	on := image.Pin.String()
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return spoolError(on, err)
	}
	manifest, err := imageManifest(text, image.Pin.ID)
	if err != nil {
		return &Error{Kind: Infrastructure, Tried: "take the image along", On: on, Why: err, Do: "see what `podman inspect` says of it"}
	}
	config, err := os.ReadFile(filepath.Join(dir, manifest.Config.Digest.Hex))
	if err != nil {
		return spoolError(on, err)
	}
	for _, blob := range append([]v1.Descriptor{manifest.Config}, manifest.Layers...) {
		if err := x.blob(filepath.Join(dir, blob.Digest.Hex), blob); err != nil {
			return err
		}
	}
	digest, err := x.blobOf(text)
	if err != nil {
		return err
	}
	x.manifests[image.Pin.ID] = builtOn{manifest, config}
	x.manifest.Images = append(x.manifest.Images, archive.Image{ID: image.Pin.ID, Manifest: digest, Platform: image.Pin.Platform})
	return nil
}

// largestConfig caps what is read of an image's manifest or configuration, in
// bytes.
const largestConfig = 8 << 20

// mostLayers is more layers than an image has.
const mostLayers = 1000

// imageManifest reads the manifest of an image whose layers are not compressed,
// so that they are named by what is in them.
func imageManifest(text []byte, id string) (*v1.Manifest, error) {
	manifest, err := v1.ParseManifest(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("its manifest: %w", err)
	}
	if manifest.Config.Digest.Algorithm != "sha256" || manifest.Config.Digest.Hex != id {
		return nil, fmt.Errorf("its manifest names the configuration %s, and its id is %s", manifest.Config.Digest, id)
	}
	if len(manifest.Layers) == 0 || len(manifest.Layers) > mostLayers {
		return nil, fmt.Errorf("its manifest names %d layers", len(manifest.Layers))
	}
	for _, layer := range manifest.Layers {
		if layer.Digest.Algorithm != "sha256" || layer.MediaType != types.OCIUncompressedLayer && layer.MediaType != types.DockerUncompressedLayer {
			return nil, fmt.Errorf("its layer %s is of the type %s", layer.Digest, layer.MediaType)
		}
	}
	return manifest, nil
}

// blob takes a file along as a blob.
func (x *exporting) blob(path string, blob v1.Descriptor) error {
	name := archive.BlobPart(blob.Digest.String())
	if _, there := x.parts[name]; there {
		return nil
	}
	info, err := os.Lstat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() != blob.Size) {
		err = fmt.Errorf("it has %d bytes, and its manifest says %d", info.Size(), blob.Size)
	}
	if err != nil {
		return spoolError(path, err)
	}
	return x.add(spooled{Part: archive.Part{Name: name, Size: blob.Size, SHA256: blob.Digest.Hex}, path: path})
}

// blobOf takes a text along as a blob, and names it.
func (x *exporting) blobOf(text []byte) (digest string, err error) {
	part, err := x.text("", text)
	return "sha256:" + part.SHA256, err
}

// text takes a text along; without a name as a blob.
func (x *exporting) text(name string, text []byte) (spooled, error) {
	part, err := x.spool(func(to io.Writer) error {
		_, err := to.Write(text)
		return err
	})
	if err != nil {
		return part, err
	}
	if part.Name = name; name == "" {
		part.Name = archive.BlobPart(part.SHA256)
	}
	return part, x.add(part)
}

// state takes a state layer along, once.
func (x *exporting) state(ctx context.Context, diffID, image string) error {
	if slices.ContainsFunc(x.manifest.States, func(s archive.State) bool { return s.DiffID == diffID }) {
		return nil
	}
	var packed tree.Packed
	part, err := x.spool(func(to io.Writer) (err error) {
		packed, err = x.engines.PackState(ctx, diffID, to)
		return err
	})
	if err != nil {
		return err
	}
	if "sha256:"+part.SHA256 != diffID {
		return &Error{Kind: Infrastructure, Tried: "take the state layer along", On: diffID,
			Why: fmt.Errorf("what is kept under this name is sha256:%s", part.SHA256), Do: "remove it (podgrade state rm) and execute the row again"}
	}
	part.Name, part.Entries = archive.BlobPart(diffID), packed.Entries
	if err := x.add(part); err != nil {
		return err
	}
	state := archive.State{DiffID: diffID, Image: image, Entries: packed.Entries}
	if below, ok := x.manifests[image]; ok {
		if state.Manifest, err = x.above(below, part.Part); err != nil {
			return err
		}
	}
	x.manifest.States = append(x.manifest.States, state)
	return nil
}

// above makes the image that is another one with one more layer, for programs
// that know of images only.
func (x *exporting) above(below builtOn, layer archive.Part) (digest string, err error) {
	config, err := v1.ParseConfigFile(bytes.NewReader(below.config))
	if err != nil {
		return "", spoolError("the configuration of an image", err)
	}
	hash := v1.Hash{Algorithm: "sha256", Hex: layer.SHA256}
	config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, hash)
	config.History = append(config.History, v1.History{CreatedBy: "podgrade: what an agent changed"})
	text, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	configDigest, err := x.blobOf(text)
	if err != nil {
		return "", err
	}
	manifest := below.manifest.DeepCopy()
	manifest.Config.Size, manifest.Config.Digest.Hex = int64(len(text)), strings.TrimPrefix(configDigest, "sha256:")
	manifest.Layers = append(manifest.Layers, v1.Descriptor{MediaType: manifest.Layers[0].MediaType, Size: layer.Size, Digest: hash})
	if text, err = json.Marshal(manifest); err != nil {
		return "", err
	}
	return x.blobOf(text)
}

// layout makes the parts an OCI layout, in which each image has a name.
func (x *exporting) layout(ctx context.Context) error {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	name := func(digest, as string) error {
		part := x.parts[archive.BlobPart(digest)]
		text, err := os.ReadFile(part.path)
		if err != nil {
			return spoolError(x.file, err)
		}
		manifest, err := v1.ParseManifest(bytes.NewReader(text))
		if err != nil {
			return spoolError(x.file, err)
		}
		kind := manifest.MediaType
		if kind == "" {
			kind = types.OCIManifestSchema1
		}
		index.Manifests = append(index.Manifests, v1.Descriptor{
			MediaType: kind, Size: part.Size, Digest: v1.Hash{Algorithm: "sha256", Hex: part.SHA256},
			Annotations: map[string]string{"org.opencontainers.image.ref.name": as},
		})
		return nil
	}
	for _, image := range x.manifest.Images {
		if err := name(image.Manifest, "image-"+image.ID[:12]); err != nil {
			return err
		}
	}
	for _, state := range x.manifest.States {
		if state.Manifest == "" {
			continue
		}
		if err := name(state.Manifest, "state-"+strings.TrimPrefix(state.DiffID, "sha256:")[:12]); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return err
	}
	if _, err := x.text("index.json", append(text, '\n')); err != nil {
		return err
	}
	_, err = x.text("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`+"\n"))
	return err
}
