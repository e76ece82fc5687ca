package isolation_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	switch {
	case err != nil && !strings.Contains(err.Error(), "/nonexistent/podman"):
		t.Fatalf("%s: %v", reference, err)
	case err == nil && (i.Pin.Reference != reference || i.Pin.ID == "" || len(i.Layers) == 0):
		t.Errorf("%s is found as %+v", reference, i)
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

// ownCache gives a test a cache that nothing is in.
func ownCache(t *testing.T) (dir string) {
	dir = t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	return filepath.Join(dir, "podgrade", "images")
}

// A podgrade asks Podman for an id that an earlier one asked for only when
// something became of that image, whatever became of others.
func TestAnImageIsLookedUpOnceForAllPodgrades(t *testing.T) {
	cache := ownCache(t)
	h := ownStore(t)
	i := importOn(t, h, testimages.Busybox())
	os.RemoveAll(cache) // who imports looks up, too
	id := i.Pin.ID
	if !asks(t, id) {
		t.Fatal("it is known before anybody asked")
	}
	first := look(t, id)
	if asks(t, id) {
		t.Error("it is asked for again")
	}
	if again := look(t, id); !again.Pin.Same(first.Pin) || len(again.Layers) != len(first.Layers) || !again.Created.Equal(first.Created) || again.Driver != first.Driver {
		t.Errorf("first %+v, then %+v", first, again)
	}
	other := importOn(t, h, testimages.Empty())
	if asks(t, id) {
		t.Error("another image makes podgrade ask")
	}
	podman(t, h, "tag", other.Pin.ID, i.Pin.Reference)
	if !asks(t, id) {
		t.Error("its name was moved, and nobody is asked")
	}
	if now := look(t, id); len(now.References) != 0 {
		t.Errorf("names %q lead to it", now.References)
	}
	podman(t, h, "rmi", id)
	if !asks(t, id) {
		t.Error("the image was removed, and nobody is asked")
	}
}

// A name may lead to another image, and be of another store, tomorrow.
func TestNamesAreAskedForEachTime(t *testing.T) {
	ownCache(t)
	i := importOn(t, ownStore(t), testimages.Busybox())
	look(t, i.Pin.ID)
	if asks(t, i.Pin.ID) {
		t.Fatal("nothing is kept")
	}
	for _, reference := range []string{i.Pin.Reference, "podgrade-test/busybox:1", i.Pin.ID[:20], "localhost/podgrade-test/busybox@" + i.Pin.Digest} {
		look(t, reference)
		if !asks(t, reference) {
			t.Errorf("%s is not asked for", reference)
		}
	}
}

// keptFile is the one file of a cache.
func keptFile(t *testing.T, cache string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("kept: %q, %v", files, err)
	}
	return files[0]
}

// What is kept is used as podgrade wrote it, of the store that it was asked of.
func TestAKeptLookupIsUsedOnlyAsItWasWritten(t *testing.T) {
	cache := ownCache(t)
	i := importOn(t, ownStore(t), testimages.Busybox())
	store := filepath.Dir(filepath.Dir(i.Layers[0]))
	os.RemoveAll(cache)
	look(t, i.Pin.ID)
	file := keptFile(t, cache)
	whole := string(read(t, file))
	tell := func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }
	forged := func(change func(k *isolation.KeptLookup)) func(string) error {
		return func(file string) error {
			var k isolation.KeptLookup
			if err := json.Unmarshal(read(t, file), &k); err != nil {
				return err
			}
			change(&k)
			text, err := json.Marshal(k)
			if err != nil {
				return err
			}
			return tell(file, string(text))
		}
	}
	for what, change := range map[string]func(file string) error{
		"readable by others": func(file string) error { return os.Chmod(file, 0o644) },
		"cut":                func(file string) error { return os.Truncate(file, 100) },
		"large":              func(file string) error { return tell(file, string(read(t, file))+strings.Repeat(" ", 1<<20)) },
		"a link":             func(file string) error { return os.Rename(file, file+".there") },
		"old": func(file string) error {
			weekAgo := time.Now().Add(-8 * 24 * time.Hour)
			return os.Chtimes(file, weekAgo, weekAgo)
		},
		"of another image":  forged(func(k *isolation.KeptLookup) { k.Image.Pin.ID = strings.Repeat("0", 64) }),
		"of another digest": forged(func(k *isolation.KeptLookup) { k.Image.Pin.Digest = "sha256:0" }),
		"of another layer":  forged(func(k *isolation.KeptLookup) { k.Image.Layers[0] = filepath.Join(store, "l", "diff") }),
		"of a layer that is not there": forged(func(k *isolation.KeptLookup) {
			k.Image.Layers = append(k.Image.Layers, filepath.Join(store, "nope", "diff"))
		}),
		"of another store":                forged(func(k *isolation.KeptLookup) { k.Image.Layers = append(k.Image.Layers, "/tmp/overlay/x/diff") }),
		"of no layer":                     forged(func(k *isolation.KeptLookup) { k.Image.Layers = nil }),
		"of another driver":               forged(func(k *isolation.KeptLookup) { k.Image.Driver = "vfs" }),
		"of another list":                 forged(func(k *isolation.KeptLookup) { k.List = filepath.Join(cache, "images.json") }),
		"of another entry":                forged(func(k *isolation.KeptLookup) { k.Entry = strings.Repeat("0", 64) }),
		"of layers that a program mounts": func(string) error { return tell(filepath.Join(store, ".has-mount-program"), "true") },
		"as it was":                       func(string) error { return nil },
	} {
		t.Run(what, func(t *testing.T) {
			os.RemoveAll(cache)
			os.Remove(filepath.Join(store, ".has-mount-program"))
			if err := errors.Join(os.Mkdir(cache, 0o700), tell(file, whole)); err != nil {
				t.Fatal(err)
			}
			if err := change(file); err != nil {
				t.Fatal(err)
			}
			if what == "a link" {
				if err := os.Symlink(file+".there", file); err != nil {
					t.Fatal(err)
				}
			}
			if asks(t, i.Pin.ID) == (what == "as it was") {
				t.Error("it is used, or not, against what is kept")
			}
		})
	}
	// A list that is no file is none, and nobody waits for who writes to it.
	list := filepath.Join(filepath.Dir(store), "overlay-images", "images.json")
	if err := errors.Join(tell(file, whole), os.Rename(list, list+".there"), unix.Mkfifo(list, 0o600)); err != nil {
		t.Fatal(err)
	}
	if !asks(t, i.Pin.ID) {
		t.Error("it is used without a list")
	}
	if err := os.Rename(list+".there", list); err != nil {
		t.Fatal(err)
	}
	// The last, since the file has another version from then on.
	os.Remove(filepath.Join(store, ".has-mount-program"))
	settings := os.Getenv("CONTAINERS_STORAGE_CONF")
	if err := errors.Join(tell(file, whole), tell(settings, string(read(t, settings))+"\n")); err != nil {
		t.Fatal(err)
	}
	if !asks(t, i.Pin.ID) {
		t.Error("it is used with other settings of Podman")
	}
}

// What is old goes when something new is kept.
func TestOldLookupsAreRemoved(t *testing.T) {
	cache := ownCache(t)
	h := ownStore(t)
	i := importOn(t, h, testimages.Busybox())
	os.RemoveAll(cache)
	look(t, i.Pin.ID)
	old, weekAgo := keptFile(t, cache), time.Now().Add(-8*24*time.Hour)
	if err := os.Chtimes(old, weekAgo, weekAgo); err != nil {
		t.Fatal(err)
	}
	other := importOn(t, h, testimages.Empty())
	look(t, other.Pin.ID)
	if file := keptFile(t, cache); file == old {
		t.Error("the old one is still there")
	}
}
