package regrade

import (
	"context"
	"errors"
	"slices"

	"podgrade/isolation"
	"podgrade/policy"
)

// plannedImage finds the image that the execute phase of a row starts from: the
// one that its task names, or the default one. It is fetched only where that
// was accepted.
func plannedImage(ctx context.Context, engines Engines, accepted policy.Accepted) (isolation.Image, error) {
	name := accepted.Image()
	if name == "" {
		return isolation.Image{}, &Error{Kind: Refused, Tried: "choose the image of the agent's cell", Why: errNoDefaultImage, Do: getDefaultImage}
	}
	if accepted.Pulls() {
		return engines.EnsureImage(ctx, name, isolation.PullMissing)
	}
	image, err := engines.EnsureImage(ctx, name, isolation.PullNever)
	if errors.Is(err, isolation.ErrNoImage) {
		err = &Error{Kind: Refused, Tried: "find the image", On: name, Why: isolation.ErrNoImage,
			Do: isolation.GetImage(name) + fetchIt(name)}
	}
	return image, err
}

// fetchIt is the other way to an image, where some registry may have it.
func fetchIt(name string) string {
	if isolation.MadeHere(name) {
		return ""
	}
	return "; or let it be fetched: --pull " + string(isolation.PullMissing)
}

// errNoDefaultImage is why a row that names no image is not executed.
var errNoDefaultImage = errors.New("the task names no image, and no default image is set")

// getDefaultImage is how to get one.
const getDefaultImage = "make one with podgrade images import or build, or choose one of podgrade images ls, and name it: --default-image REFERENCE, " +
	"PODGRADE_DEFAULT_IMAGE, or default_image in podgrade's configuration file"

// checkImage asks the policy file about an image that was found: what it is
// called here, and not what a record calls it, decides.
func checkImage(accepted policy.Accepted, image isolation.Image) error {
	return accepted.CheckImage(image.Pin, slices.Concat(image.References, image.Digests))
}
