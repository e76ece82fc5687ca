package regrade

import (
	"context"
	"errors"
	"fmt"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/tasks/record"
)

// image finds the image to grade in: the pinned one by its identity, whatever
// names say now. Unpinned is not empty when it was found by its name: that name
// for a record without a pin, and record.Drift where the pinned image is gone
// and the operator accepts another one.
func (g *grading) image(ctx context.Context, engines GradeEngines) (image isolation.Image, unpinned string, err error) {
	pin := g.accepted.Pin()
	if !pin.Known() {
		return g.imageByName(ctx, engines)
	}
	image, err = engines.ImageByPin(ctx, pin)
	if errors.Is(err, isolation.ErrNoImage) {
		return g.drifted(ctx, engines, pin)
	}
	if err == nil {
		err = samePlatform(pin, image.Pin)
	}
	return image, "", err
}

// imageByName is for records that hold no pin.
func (g *grading) imageByName(ctx context.Context, engines GradeEngines) (isolation.Image, string, error) {
	name := g.accepted.Image()
	image, err := engines.Image(ctx, name)
	if errors.Is(err, isolation.ErrNoImage) {
		err = &Error{Kind: Refused, Tried: "find the image", On: name, Why: isolation.ErrNoImage,
			Do: "make it with podgrade images, or pull or load it with podman, under this name"}
	}
	if err == nil {
		err = runsHere(image.Pin)
	}
	return image, name, err
}

// drifted is for a pinned image that is gone: the one that has its name now,
// where the operator accepts that, and else a refusal that names both.
func (g *grading) drifted(ctx context.Context, engines GradeEngines, pin oci.Pin) (isolation.Image, string, error) {
	image, err := engines.Image(ctx, pin.Reference)
	if !g.accepted.Drift() || err != nil {
		return isolation.Image{}, "", g.missingPin(pin, image, err)
	}
	if err := samePlatform(pin, image.Pin); err != nil {
		return isolation.Image{}, "", err
	}
	g.warn(fmt.Sprintf("the pinned image %s is gone: graded in %s, which has its name now", pin, image.Pin))
	if record.GradeState(g.record.Environment) != "" {
		g.warn("what the agent had changed outside of the workspace lies over the pinned image, and is left out")
	}
	return image, record.Drift, nil
}

// missingPin says what the record pinned and what its reference names now.
func (g *grading) missingPin(pin oci.Pin, named isolation.Image, looking error) error {
	now := "the name leads to " + named.Pin.String() + " now"
	do := fetchPinned(pin) + ", execute the row again, or grade in what has its name now with --allow-image-drift"
	switch {
	case errors.Is(looking, isolation.ErrNoImage):
		now = "no image has this name now"
		do = fetchPinned(pin) + ", or execute the row again"
		if isolation.MadeHere(pin.Reference) {
			do += ", or build an image of this name (podgrade images build) and grade with --allow-image-drift"
		}
		if file := g.accepted.BuiltFrom(); file != "" {
			do = "load it from where it was built, execute the row again, or build " + file + " under this name (podgrade images build) and grade with --allow-image-drift"
		}
	case looking != nil:
		now = "what has this name now could not be found out: " + looking.Error()
	case !oci.SamePlatform(pin.Platform, named.Pin.Platform):
		now += ", which is of another platform"
		do = elsewhere(pin)
	}
	return &Error{Kind: Refused, Tried: "find the pinned image", On: pin.String(), Why: fmt.Errorf("%w: %s", isolation.ErrNoImage, now), Do: do}
}

// fetchPinned says where a pinned image may come from: one that was made on a host is
// in no registry.
func fetchPinned(pin oci.Pin) string {
	if isolation.MadeHere(pin.Reference) {
		return "take the row here with its image from where it was executed (podgrade export there, podgrade import here)"
	}
	return "load the pinned image (podman load, or podman pull NAME@DIGEST)"
}

// samePlatform refuses an image of another platform than the one that was
// pinned, and one that does not run on this host.
func samePlatform(pin, found oci.Pin) error {
	if !oci.SamePlatform(pin.Platform, found.Platform) {
		return &Error{Kind: Refused, Tried: "use the pinned image", On: pin.String(),
			Why: fmt.Errorf("what this host has is of another platform: %s", found), Do: elsewhere(pin)}
	}
	return runsHere(found)
}

// runsHere refuses an image whose programs this host does not run: an emulation
// would be another machine than the one that the verdict speaks of.
func runsHere(image oci.Pin) error {
	if oci.SamePlatform(image.Platform, oci.HostPlatform()) {
		return nil
	}
	return &Error{Kind: Refused, Tried: "open a cell of", On: image.String(),
		Why: fmt.Errorf("this host runs programs of %s", oci.HostPlatform()), Do: elsewhere(image)}
}

func elsewhere(image oci.Pin) string {
	if oci.SamePlatform(image.Platform, oci.HostPlatform()) {
		return fetchPinned(image) + ", or execute the row again"
	}
	return "grade it on a host of " + image.Platform + ", or execute the row again with an image of " + oci.HostPlatform()
}

// changedContext says that the directory which the row's image was built from is
// another one now; "": it is not, or nobody can know. The image is the recorded
// one all the same. Of a record, only what lies in the task directory may be
// read.
func (g *grading) changedContext() string {
	was, dir := g.record.Environment.Text(record.BuildContext), g.accepted.BuildContext()
	if was == "" || dir == "" {
		return ""
	}
	now, err := treeDigest(dir, nil, g.hidden())
	if err != nil || now == was {
		return ""
	}
	return fmt.Sprintf("%s or what lies beside it has changed since the row's image was built (its digest is %s and was %s): graded in the image of then", g.accepted.BuiltFrom(), now, was)
}
