package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ErrHalfMade is wrapped when Podman cannot say what its store holds, because of an
// image that a killed Podman left without a manifest. It is in the way of every list,
// and of every image that has a layer in common with it.
var ErrHalfMade = errors.New("an image in Podman's store is half made, as a killed Podman leaves it")

// halfMadeWords are Podman's of it; in them is the image's id.
var halfMadeWords = regexp.MustCompile(`locating item named "manifest" for image with ID "([0-9a-f]{64})"`)

// halfMadeFault is the fault that such an image is, or nil.
func halfMadeFault(tried, on string, why error) error {
	found := halfMadeWords.FindStringSubmatch(why.Error())
	if found == nil {
		return nil
	}
	return &Fault{Tried: tried, On: on, Why: fmt.Errorf("%w: %s", ErrHalfMade, found[1]),
		Do: "where nobody makes it now, podgrade gc removes it when it is a minute old, or at once: podman rmi " + found[1]}
}

// manifestItem is what every image of Podman's has, those that list others too.
const manifestItem = "manifest"

// halfMadeAge is how old a half-made image must be to be nobody's work any more:
// Podman adds the manifest as soon as the image is in the list.
const halfMadeAge = time.Minute

// halfMadeImages are those of Podman's store, but for what may be in the making.
func (h *Host) halfMadeImages(ctx context.Context) ([]Leftover, error) {
	const tried = "look for half-made images"
	out, said, code, err := h.runPodman(ctx, "info", "--format", "json")
	if err == nil && code != 0 {
		err = podmanFailed(said, code)
	}
	var info podmanInfo
	if err == nil {
		err = json.Unmarshal(out, &info)
	}
	if err != nil {
		return nil, &Fault{Tried: tried, Why: err, Do: "see what `podgrade doctor` says"}
	}
	images := filepath.Join(info.Store.Root, info.Store.Driver+"-images")
	list, ok := readImageList(filepath.Join(images, "images.json"))
	if !ok {
		return nil, nil // there never was an image
	}
	text, err := list.read()
	var entries []struct {
		ID    string   `json:"id"`
		Items []string `json:"big-data-names"`
	}
	if err == nil {
		err = json.Unmarshal(text, &entries)
	}
	if err != nil {
		return nil, &Fault{Tried: tried, On: "in " + list.path, Why: err, Do: "run podgrade gc again"}
	}
	var left []Leftover
	for _, e := range entries {
		if slices.Contains(e.Items, manifestItem) || !imageID.MatchString(e.ID) {
			continue
		}
		if begun, err := os.Lstat(filepath.Join(images, e.ID)); err == nil && time.Since(begun.ModTime()) > halfMadeAge {
			left = append(left, Leftover{Kind: LeftoverImage, Name: e.ID, Made: begun.ModTime().UTC()})
		}
	}
	return left, nil
}

// removeHalfMade removes such an image, unless it has become a whole one, which has
// the same id, or somebody makes it now.
func (h *Host) removeHalfMade(ctx context.Context, id string) error {
	now, err := h.halfMadeImages(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(now, func(l Leftover) bool { return l.Name == id }) {
		return errors.New("it is not half made any more, or is being made now")
	}
	_, err = h.podmanSays(ctx, "image", "inspect", "--", id)
	if err == nil || !strings.Contains(halfMadeWords.FindString(err.Error()), id) {
		return errors.Join(errors.New("podman does not say that it is half made, so it stays"), err)
	}
	_, err = h.podmanSays(ctx, "rmi", "--", id)
	return err
}
