package isolation_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
)

// asks tells whether a podgrade that is started now asks Podman for an image, or
// knows it from one before.
func asks(t *testing.T, reference string) bool {
	t.Helper()
	h := start(t, options(t))
	defer h.Close()
	found := h.LosePodman()
	defer found()
	i, err := h.Image(ctx(t), reference)
	if err == nil && i.Pin.Reference != reference {
		t.Errorf("%s is found as %s", reference, i.Pin.Reference)
	}
	return err != nil
}

// look lets a podgrade look an image up, which others may then know.
func look(t *testing.T, reference string) isolation.Image {
	t.Helper()
	letTimesPass()
	h := start(t, options(t))
	defer h.Close()
	i, err := h.Image(ctx(t), reference)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// A podgrade asks Podman for an image that an earlier one asked for only when
// something became of it, whatever became of others.
func TestAnImageIsLookedUpOnceForAllPodgrades(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	h := ownStore(t)
	i := importOn(t, h, testimages.Busybox())
	os.RemoveAll(filepath.Join(cache, "podgrade")) // who imports looks up, too
	name := i.Pin.Reference
	for _, reference := range []string{i.Pin.ID, name} {
		if !asks(t, reference) {
			t.Fatalf("%s is known before anybody asked", reference)
		}
		look(t, reference)
		if asks(t, reference) {
			t.Errorf("%s is asked for again", reference)
		}
	}
	other := importOn(t, h, testimages.Empty())
	if asks(t, i.Pin.ID) || asks(t, name) {
		t.Error("another image makes podgrade ask")
	}
	podman(t, h, "tag", other.Pin.ID, name)
	if !asks(t, i.Pin.ID) || !asks(t, name) {
		t.Error("the name was moved, and nobody is asked")
	}
	if moved := look(t, name); !moved.Pin.Same(other.Pin) {
		t.Errorf("the name leads to %s", moved.Pin)
	}
	look(t, i.Pin.ID)
	podman(t, h, "rmi", i.Pin.ID)
	if !asks(t, i.Pin.ID) {
		t.Error("the image was removed, and nobody is asked")
	}
}

// What may lead to another image without a change of this one is never kept.
func TestOnlyFullNamesAndIDsAreKept(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	i := importOn(t, ownStore(t), testimages.Busybox())
	for _, reference := range []string{"podgrade-test/busybox:1", i.Pin.ID[:20], "localhost/podgrade-test/busybox@" + i.Pin.Digest} {
		look(t, reference)
		if !asks(t, reference) {
			t.Errorf("%s is not asked for", reference)
		}
	}
}

// What is kept is used as podgrade wrote it, of the store that it was asked of.
func TestAKeptLookupIsUsedOnlyAsItWasWritten(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	i := importOn(t, ownStore(t), testimages.Busybox())
	file := func() string {
		files, err := filepath.Glob(filepath.Join(cache, "podgrade", "images", "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("kept: %q, %v", files, err)
		}
		return files[0]
	}
	settings := os.Getenv("CONTAINERS_STORAGE_CONF")
	for what, change := range map[string]func(t *testing.T) error{
		"readable by others": func(*testing.T) error { return os.Chmod(file(), 0o644) },
		"cut":                func(*testing.T) error { return os.Truncate(file(), 100) },
		"of somebody's own making": func(t *testing.T) error {
			text := read(t, file())
			return os.WriteFile(file(), append([]byte(nil), append(text[:len(text)-1], []byte(`,"x":[]}`)...)...), 0o600)
		},
		"a link": func(*testing.T) error {
			there := file()
			return os.Rename(there, there+".there")
		},
		"old": func(*testing.T) error {
			weekAgo := time.Now().Add(-8 * 24 * time.Hour)
			return os.Chtimes(file(), weekAgo, weekAgo)
		},
		"of other settings": func(t *testing.T) error {
			text := read(t, settings)
			return os.WriteFile(settings, append(text, '\n'), 0o600)
		},
	} {
		t.Run(what, func(t *testing.T) {
			os.RemoveAll(filepath.Join(cache, "podgrade"))
			look(t, i.Pin.ID)
			if asks(t, i.Pin.ID) {
				t.Fatal("nothing is kept")
			}
			there := file()
			if err := change(t); err != nil {
				t.Fatal(err)
			}
			if what == "a link" {
				if err := os.Symlink(there+".there", there); err != nil {
					t.Fatal(err)
				}
			}
			if !asks(t, i.Pin.ID) {
				t.Error("it is used")
			}
		})
	}
}
