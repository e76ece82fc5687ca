package isolation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// missing tells whether an error says in words that an image is not there.
func missing(err error, name string) bool {
	return errors.Is(err, isolation.ErrNoImage) && strings.Contains(err.Error(), name)
}

func TestAnImageThatIsNotThereIsSaidToBeMissing(t *testing.T) {
	h := host(t)
	i := as(t, "")
	for _, name := range []string{"localhost/nothing/of:this", "nothing-of-this", strings.Repeat("0", 64), "docker.io/library/nothing:1"} {
		if _, err := h.Image(ctx(t), name); !missing(err, name) {
			t.Errorf("looking up %s: %v", name, err)
		}
	}
	for _, pin := range []oci.Pin{
		{Reference: "localhost/x:1", ID: strings.Repeat("0", 64), Platform: i.Pin.Platform},
		{Reference: i.Pin.Reference, ID: strings.Repeat("a", 64), Digest: i.Pin.Digest, Platform: i.Pin.Platform},
		{Reference: i.Pin.Reference, Digest: "sha256:" + strings.Repeat("0", 64), Platform: i.Pin.Platform},
		{Reference: i.Pin.Reference, Digest: i.Pin.Digest, Platform: "plan9/mips"},
	} {
		if _, err := h.ImageByPin(ctx(t), pin); !errors.Is(err, isolation.ErrNoImage) {
			t.Errorf("looking up the pin %s: %v", pin, err)
		}
	}
}

// Nothing that a record says is taken for an option of Podman.
func TestAReferenceThatCannotBeANameIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "-", "--help", "-f"} {
		if _, err := host(t).Image(ctx(t), name); faultKind(err) != isolation.Refusal {
			t.Errorf("looking up %q: %v", name, err)
		}
	}
	for _, name := range []string{"a b", "A/B:c", "x\ny", "../x", "x@y", strings.Repeat("x", 1000)} {
		if found, err := host(t).Image(ctx(t), name); err == nil {
			t.Errorf("looking up %q found %+v", name, found)
		}
	}
}

// A pin is found by its id, and by its digest, whatever the tags say now.
func TestAPinIsFoundWhateverTheTagsSay(t *testing.T) {
	h := ownStore(t)
	first := importOn(t, h, testimages.Busybox())
	second := importOn(t, h, testimages.Empty().WithConfig(first.Pin.Reference, testimages.Config{}))
	if first.Pin.Same(second.Pin) || second.Pin.Reference != first.Pin.Reference {
		t.Fatalf("the pins are %s and %s", first.Pin, second.Pin)
	}
	byTag, err := h.Image(ctx(t), first.Pin.Reference)
	if err != nil || !byTag.Pin.Same(second.Pin) {
		t.Errorf("the tag leads to %s, %v", byTag.Pin, err)
	}
	for _, pin := range []oci.Pin{first.Pin, second.Pin, {Reference: second.Pin.Reference, Digest: second.Pin.Digest, Platform: second.Pin.Platform}} {
		found, err := h.ImageByPin(ctx(t), pin)
		if err != nil || !found.Pin.Same(pin) || found.Pin.Reference != pin.Reference {
			t.Errorf("the pin %s leads to %s, %v", pin, found.Pin, err)
		}
	}
	want(t, openOn(t, h, order(t, first)), "cat hello.txt", "hello\n")
}

// A held image outlives `podman image prune -a`; when it is let go nothing of
// the holder is left.
func TestAHeldImageIsNotPruned(t *testing.T) {
	h := ownStore(t)
	i := importOn(t, h, testimages.Busybox())
	release, err := h.Hold(ctx(t), i)
	if err != nil {
		t.Fatal(err)
	}
	c := openOn(t, h, order(t, i))
	podman(t, h, "image", "prune", "--all", "--force")
	want(t, c, "cat hello.txt", "hello\n")
	if err := c.CheckImage(ctx(t)); err != nil {
		t.Errorf("after a prune: %v", err)
	}
	if _, err := h.ImageByPin(ctx(t), i.Pin); err != nil {
		t.Errorf("the image is gone: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if left := podman(t, h, "ps", "--all", "--quiet"); left != "" {
		t.Errorf("containers are left: %s", left)
	}
	podman(t, h, "image", "prune", "--all", "--force")
	if err := c.CheckImage(ctx(t)); !missing(err, i.Pin.Reference) {
		t.Errorf("after a prune without a holder: %v", err)
	}
	if _, err := h.Hold(ctx(t), i); err == nil {
		t.Error("an image that is gone is held")
	}
	if _, err := h.Open(ctx(t), order(t, i)); !missing(err, i.Pin.Reference) {
		t.Errorf("a cell of an image that is gone: %v", err)
	}
}

func podman(t *testing.T, h *isolation.Host, args ...string) string {
	t.Helper()
	out, err := h.RunPodman(ctx(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// An image that is removed under a cell, whatever its size and its holder, is
// noticed by the check that comes before any verdict, from the first moment on.
func TestAnImageRemovedUnderACellIsNoticed(t *testing.T) {
	files := 3000 // which take Podman long enough to remove
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		files = 40_000
	}
	for _, test := range []struct {
		image testimages.Image
		held  bool
		args  []string
	}{
		{testimages.Busybox(), false, []string{"rmi", "--force"}},
		{testimages.Busybox(), true, []string{"system", "prune", "--all", "--force"}},
		{testimages.ManyFiles(files), true, []string{"rmi", "--force"}},
		{testimages.ManyFiles(files), true, []string{"system", "prune", "--all", "--force"}},
	} {
		t.Run(fmt.Sprintf("%s %s held %v", test.args[0], test.image.Reference, test.held), func(t *testing.T) {
			h := ownStore(t)
			i := importOn(t, h, test.image)
			if test.held {
				if _, err := h.Hold(ctx(t), i); err != nil {
					t.Fatal(err)
				}
			}
			c := openOn(t, h, order(t, i))
			if err := c.CheckImage(ctx(t)); err != nil {
				t.Fatalf("before anything: %v", err)
			}
			removed := make(chan error, 1)
			go func() {
				args := test.args
				if args[0] == "rmi" {
					args = append(args, i.Pin.ID)
				}
				_, err := h.RunPodman(context.Background(), args...)
				removed <- err
			}()
			watchRemoval(t, c, i)
			if err := <-removed; err != nil {
				t.Fatal(err)
			}
			if err := c.CheckImage(ctx(t)); !missing(err, i.Pin.Reference) || faultKind(err) != isolation.Infrastructure {
				t.Errorf("afterwards: %v", err)
			}
			isolation.EndBy(c)
			if err := c.CheckImage(ctx(t)); !missing(err, i.Pin.Reference) {
				t.Errorf("when a command had ended the cell: %v", err)
			}
			if _, err := c.Stat(ctx(t), oci.WorkspacePath, "hello.txt"); !missing(err, i.Pin.Reference) {
				t.Errorf("the cell is made again: %v", err)
			}
		})
	}
}

// watchRemoval waits until the check notices, and proves that no file of the
// image was missing while it did not yet.
func watchRemoval(t *testing.T, c isolation.Cell, i isolation.Image) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		_, err := c.Stat(ctx(t), "/", "/bin/busybox")
		if checked := c.CheckImage(ctx(t)); checked != nil {
			if !missing(checked, i.Pin.Reference) {
				t.Errorf("the check says %v", checked)
			}
			return
		}
		if err != nil {
			t.Fatalf("a file is gone and the check says nothing: %v", err)
		}
	}
	t.Error("nobody noticed")
}
