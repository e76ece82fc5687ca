package regrade

import (
	"context"
	"errors"
	"fmt"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
)

// resolveImage finds the image to grade in: the pinned one by its identity,
// whatever names say now; for a record without a pin the one that its
// reference names, and then unpinned is that reference.
func resolveImage(ctx context.Context, engines Engines, pin oci.Pin, accepted policy.Accepted) (image isolation.Image, unpinned string, err error) {
	if pin.Known() {
		image, err = engines.ImageByPin(ctx, pin)
		if errors.Is(err, isolation.ErrNoImage) {
			err = missingPin(ctx, engines, pin)
		}
		return image, "", err
	}
	image, err = engines.Image(ctx, accepted.Image())
	if errors.Is(err, isolation.ErrNoImage) {
		err = &Error{Kind: Refused, Tried: "find the image", On: accepted.Image(), Why: isolation.ErrNoImage,
			Do: "make it with podgrade images, or pull or load it with podman, under this name"}
	}
	return image, accepted.Image(), err
}

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
			Do: "make it with podgrade images, or let it be fetched: --pull " + string(isolation.PullMissing)}
	}
	return image, err
}

// errNoDefaultImage is why a row that names no image is not executed.
var errNoDefaultImage = errors.New("the task names no image, and no default image is set")

// getDefaultImage is how to get one.
const getDefaultImage = "make one with podgrade images import or build, or choose one of podgrade images ls, and name it: --default-image REFERENCE, " +
	"PODGRADE_DEFAULT_IMAGE, or default_image in podgrade's configuration file"

// missingPin says what the record pinned and what its reference names now.
func missingPin(ctx context.Context, engines Engines, pin oci.Pin) error {
	now := "no image has this name now"
	if image, err := engines.Image(ctx, pin.Reference); err == nil {
		now = "the name leads to " + image.Pin.String() + " now"
	} else if !errors.Is(err, isolation.ErrNoImage) {
		now = "what has this name now could not be found out: " + err.Error()
	}
	return &Error{Kind: Refused, Tried: "find the pinned image", On: pin.String(),
		Why: fmt.Errorf("%w: %s", isolation.ErrNoImage, now),
		Do:  "load the pinned image (podman load, or podman pull NAME@DIGEST), or execute the row again"}
}
