package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"podgrade/oci"
)

// Listed is an image as a list shows it.
type Listed struct {
	Pin        oci.Pin   `json:"pin"`
	References []string  `json:"references"` // none: no name leads to it
	Bytes      int64     `json:"bytes"`
	Made       time.Time `json:"made"`
}

// Images lists what Podman's store holds, the newest first. Images without a
// name are listed when all is set: for each of them Podman looks for its
// descendants among all others, which takes minutes where there are hundreds.
func (h *Host) Images(ctx context.Context, all bool) ([]Listed, error) {
	lines, err := h.imageIDs(ctx, all)
	if err != nil {
		if fault := halfMadeFault("list the images", "", err); fault != nil {
			return nil, fault
		}
		return nil, &Fault{Tried: "list the images", Why: err, Do: "see what `podman image ls` says"}
	}
	ids := []string{}
	for id := range strings.FieldsSeq(lines) { // one for each name
		if id = strings.TrimPrefix(id, "sha256:"); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return []Listed{}, nil
	}
	out, said, code, err := h.runPodman(ctx, append([]string{"image", "inspect", "--format", "json", "--"}, ids...)...)
	if err == nil && code != 0 && !errors.Is(imageFault("", podmanFailed(said, code)), ErrNoImage) { // one may have been removed meanwhile
		err = imageFault("", podmanFailed(said, code))
	}
	if err != nil {
		return nil, err
	}
	return listed(out)
}

// mostListings bounds how often a list is asked for while somebody removes
// images.
const mostListings = 5

// imageIDs asks Podman for every id, one a line. Podman gives up the whole list
// when an image is removed while it looks at the parents of another one.
func (h *Host) imageIDs(ctx context.Context, all bool) (string, error) {
	args := []string{"image", "ls", "--quiet", "--no-trunc"}
	if !all {
		args = append(args, "--filter", "dangling=false")
	}
	for n := 1; ; n++ {
		lines, said, code, err := h.runPodman(ctx, args...)
		switch {
		case err != nil || code == 0:
			return string(lines), err
		case n == mostListings || !errors.Is(imageFault("", podmanFailed(said, code)), ErrNoImage):
			return "", podmanFailed(said, code)
		}
	}
}

// listed reads what podman image inspect says.
func listed(text []byte) ([]Listed, error) {
	var found []struct {
		inspected
		Size    int64
		Created time.Time
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, &Fault{Tried: "list the images", Why: fmt.Errorf("read podman's answer: %w", err)}
	}
	list := []Listed{}
	for _, one := range found {
		image, err := one.image("")
		if err != nil {
			return nil, err
		}
		if len(one.RepoTags) > 0 {
			image.Pin.Reference = one.RepoTags[0]
		}
		list = append(list, Listed{Pin: image.Pin, References: append([]string{}, one.RepoTags...), Bytes: one.Size, Made: one.Created.UTC()})
	}
	return list, nil
}
