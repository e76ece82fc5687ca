package isolation_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
)

// kept are the compiled filters in the user's cache.
func kept(t *testing.T, cache string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cache, "podgrade", "filters", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A filter is compiled once for all podgrades. A file that is not as podgrade
// wrote it, or is old, is not used, and one that makes another cell than was
// asked for does so once.
func TestACompiledFilterOutlivesPodgrade(t *testing.T) {
	i := as(t, "")
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	opens := func() error {
		h := start(t, options(t))
		defer h.Close()
		c, err := h.Open(ctx(t), order(t, i))
		if err != nil {
			return err
		}
		alive(t, c)
		return c.Close()
	}
	if err := opens(); err != nil {
		t.Fatal(err)
	}
	files := kept(t, cache)
	if len(files) != 1 {
		t.Fatalf("kept: %q", files)
	}
	file := files[0]
	whole := read(t, file)
	replace := func(filter []byte) {
		sum := sha256.Sum256(filter)
		if err := os.WriteFile(file, append(sum[:], filter...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// BPF_RET | BPF_K with SECCOMP_RET_ALLOW: that this one is used shows that
	// the files are, and that a cell with it is not let out.
	replace([]byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f})
	if err := opens(); err == nil || !strings.Contains(err.Error(), "asked for its refusal, the cell has it open") {
		t.Fatalf("with a filter that refuses nothing: %v", err)
	}
	if files := kept(t, cache); len(files) != 0 {
		t.Errorf("it is still there: %q", files)
	}
	for name, spoil := range map[string]func() error{
		"torn":        func() error { return os.WriteFile(file, whole[:len(whole)-8], 0o600) },
		"of everyone": func() error { return os.Chmod(file, 0o666) },
		"old":         func() error { long := time.Now().Add(-30 * 24 * time.Hour); return os.Chtimes(file, long, long) },
		"a link":      func() error { return os.Rename(file, file+"-else") },
	} {
		t.Run(name, func(t *testing.T) {
			replace([]byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f})
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			if name == "a link" {
				if err := os.Symlink(file+"-else", file); err != nil {
					t.Fatal(err)
				}
			}
			if err := opens(); err != nil {
				t.Error(err)
			}
			if now := read(t, file); string(now) != string(whole) {
				t.Error("it was not compiled again")
			}
		})
	}
}

// Without a cache there is none, and a cell all the same.
func TestACellNeedsNoCacheOfFilters(t *testing.T) {
	i := as(t, "")
	t.Setenv("XDG_CACHE_HOME", "/proc/nowhere")
	h := start(t, options(t))
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	alive(t, openOn(t, h, order(t, i)))
}

// What the runtime reads and writes for each cell costs a disk more than the cell's
// own start, and is of no use after it.
func TestTheRuntimesFilesAreInMemory(t *testing.T) {
	i := as(t, "")
	h := start(t, options(t))
	defer h.Close()
	c, err := h.Open(ctx(t), order(t, i))
	if err != nil {
		t.Fatal(err)
	}
	alive(t, c)
	if files := isolation.RuntimeFiles(h); len(files) > 0 {
		t.Errorf("on the disk: %q", files)
	}
}
