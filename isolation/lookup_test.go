package isolation_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// letTimesPass waits until the store's list of images is older than the grain of
// file times, so that what is looked up is remembered.
func letTimesPass() { time.Sleep(50 * time.Millisecond) }

// Rows of one run ask Podman once for their image, by id and by name.
func TestAnImageIsLookedUpOnceForAllRows(t *testing.T) {
	h := ownStore(t)
	i := importOn(t, h, testimages.Busybox())
	letTimesPass()
	name := i.Pin.Reference
	for _, reference := range []string{i.Pin.ID, name} {
		if _, err := h.Image(ctx(t), reference); err != nil {
			t.Fatal(err)
		}
	}
	found := h.LosePodman()
	byName, err := h.Image(ctx(t), name)
	if err != nil || !byName.Pin.Same(i.Pin) || !slices.Equal(byName.Layers, i.Layers) || byName.Pin.Reference != name {
		t.Errorf("by name: %+v, %v", byName, err)
	}
	byName.Layers[0] = "/elsewhere" // is the caller's own
	byPin, err := h.ImageByPin(ctx(t), oci.Pin{Reference: "localhost/another:name", ID: i.Pin.ID, Digest: i.Pin.Digest, Platform: i.Pin.Platform})
	if err != nil || !byPin.Pin.Same(i.Pin) || byPin.Pin.Reference != "localhost/another:name" {
		t.Errorf("by pin: %+v, %v", byPin, err)
	}
	if again, err := h.Image(ctx(t), name); err != nil || again.Pin.Reference != name || !slices.Equal(again.Layers, i.Layers) {
		t.Errorf("by name again: %+v, %v", again, err)
	}
	if _, err := h.Image(ctx(t), "localhost/never:asked"); err == nil {
		t.Error("an image is found that nobody asked Podman for")
	}
	found()
}

// Rows that start together ask together, and Podman is asked by one of them.
func TestAnImageIsLookedUpByOneRowAtATime(t *testing.T) {
	h := ownStore(t)
	i := importOn(t, h, testimages.Busybox())
	letTimesPass()
	commands, done := h.CountPodman(t.TempDir())
	defer done()
	var rows sync.WaitGroup
	for range 4 {
		rows.Go(func() {
			if found, err := h.Image(ctx(t), i.Pin.ID[:24]); err != nil || !found.Pin.Same(i.Pin) {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
	rows.Wait()
	if n := commands(); n != 1 {
		t.Errorf("Podman was asked %d times", n)
	}
}

// What is remembered is forgotten when Podman changes its images.
func TestALookUpSeesWhatChangedSince(t *testing.T) {
	h := ownStore(t)
	first := importOn(t, h, testimages.Busybox())
	second := importOn(t, h, testimages.Empty())
	look := func(reference string) oci.Pin {
		t.Helper()
		letTimesPass()
		i, err := h.Image(ctx(t), reference)
		if err != nil {
			t.Fatal(err)
		}
		return i.Pin
	}
	const name = "localhost/podgrade-moves:1"
	podman(t, h, "tag", first.Pin.ID, name)
	if got := look(name); !got.Same(first.Pin) {
		t.Fatalf("the name leads to %s", got)
	}
	podman(t, h, "tag", second.Pin.ID, name)
	if got := look(name); !got.Same(second.Pin) {
		t.Errorf("the name was moved, and leads to %s", got)
	}
	podman(t, h, "untag", second.Pin.ID, name)
	if _, err := h.Image(ctx(t), name); !errors.Is(err, isolation.ErrNoImage) {
		t.Errorf("the name was taken away: %v", err)
	}
	if got := look(first.Pin.ID); !got.Same(first.Pin) {
		t.Fatalf("the id leads to %s", got)
	}
	podman(t, h, "rmi", "--force", first.Pin.ID)
	if _, err := h.ImageByPin(ctx(t), first.Pin); !errors.Is(err, isolation.ErrNoImage) {
		t.Errorf("the image was removed: %v", err)
	}
}

// Podman sees what another Podman has written in part, and a moment later it whole.
func TestAnImageThatPodmanCannotReadIsLookedUpAgain(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	h := ownStore(t)
	i := importOn(t, h, testimages.Busybox())
	for failures, message := range map[int]string{
		1: "Error: layer not known",
		2: "Error: error locating item named \"manifest\" for image with ID \"0\": file does not exist",
	} {
		done := h.FailPodman(t.TempDir(), failures, message)
		if found, err := h.Image(ctx(t), i.Pin.ID[:24+failures]); err != nil || !found.Pin.Same(i.Pin) {
			t.Errorf("after %d failures: %+v, %v", failures, found, err)
		}
		done()
	}
	done := h.FailPodman(t.TempDir(), 1, "Error: inspecting object: "+i.Pin.ID+": image not known")
	if found, err := h.Image(ctx(t), i.Pin.ID); err != nil || !found.Pin.Same(i.Pin) {
		t.Errorf("an id that Podman did not know for a moment: %+v, %v", found, err)
	}
	done()
	done = h.FailPodman(t.TempDir(), 3, "Error: layer not known")
	defer done()
	if _, err := h.Image(ctx(t), i.Pin.ID[:30]); err == nil || !strings.Contains(err.Error(), "layer not known") {
		t.Errorf("an image that cannot be read at all: %v", err)
	}
}
