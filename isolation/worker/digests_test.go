package worker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// TestADigestIsKeptOnlyWhileItsTreeStays: a planted entry shows when the cache was
// asked, and what makes it be left alone.
func TestADigestIsKeptOnlyWhileItsTreeStays(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "podgrade-test-") // which keeps its times
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("bytes")
	source, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(source)
	cache := filepath.Join(t.TempDir(), "cache", "digests")
	digest := func() tree.Report {
		t.Helper()
		v := &viewing{View: View{Digests: cache}, ctx: t.Context(), source: source}
		report, err := v.digest()
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	whole, err := tree.Digest(t.Context(), source, tree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := digest(); got.Digest != whole.Digest {
		t.Errorf("of a new tree: %+v", got)
	}
	if _, err := os.Stat(cache); !os.IsNotExist(err) {
		t.Error("the digest of a tree that was changed just now was kept")
	}
	time.Sleep(2100 * time.Millisecond)
	if got := digest(); got.Digest != whole.Digest {
		t.Errorf("of a tree that stayed: %+v", got)
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	entry := filepath.Join(cache, entries[0].Name())
	if info, err := os.Stat(entry); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	const planted = "00000000000000000000000000000000000000000000000000000000000000aa"
	plant := func() {
		if err := os.WriteFile(entry, []byte(`{"Entries": 7, "Digest": "`+planted+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plant()
	if got := digest(); got.Digest != planted || got.Entries != 7 {
		t.Errorf("the cache was not asked: %+v", got)
	}
	for _, test := range []struct {
		name  string
		spoil func()
	}{
		{"no JSON", func() { os.WriteFile(entry, []byte("{"), 0o600) }},
		{"no digest", func() { os.WriteFile(entry, []byte(`{"Digest": "aa"}`), 0o600) }},
		{"others may read it", func() { os.Chmod(entry, 0o644) }},
		{"a link", func() { os.Rename(entry, entry+".x"); os.Symlink(entry+".x", entry) }},
		{"others may enter", func() { os.Chmod(cache, 0o755) }},
		{"the cache is a link", func() { os.RemoveAll(cache + ".x"); os.Rename(cache, cache+".x"); os.Symlink(cache+".x", cache) }},
		{"there is no cache now", func() { os.RemoveAll(cache) }},
		{"the tree was changed", func() { write("other") }}, // the last: it is a new tree then
	} {
		os.RemoveAll(cache)
		os.MkdirAll(cache, 0o700)
		plant()
		if got := digest(); got.Digest != planted {
			t.Errorf("%s: the cache was not asked before", test.name)
		}
		test.spoil()
		now, err := tree.Digest(t.Context(), source, tree.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := digest(); got.Digest != now.Digest {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
}

func TestACacheOfDigestsIsBounded(t *testing.T) {
	cache := digests{t.TempDir()}
	os.Chmod(cache.dir, 0o700)
	for i := range mostDigests + 1 {
		if err := os.WriteFile(filepath.Join(cache.dir, string(rune('a'+i%26))+time.Duration(i).String()), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cache.put("key", tree.Report{})
	if entries, err := os.ReadDir(cache.dir); err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}
