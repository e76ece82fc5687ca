package tree_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// elsewhere has the bytes of hollow files in another directory.
type elsewhere struct {
	dir   string
	paths []string
}

func (e elsewhere) Has(path string) bool {
	for _, p := range e.paths {
		if p == path {
			return true
		}
	}
	return false
}

func (e elsewhere) Below(dir string) bool {
	for _, p := range e.paths {
		if strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}

func (e elsewhere) Open(path string) (*os.File, error) {
	return os.Open(filepath.Join(e.dir, strings.ReplaceAll(path, "/", "_")))
}

// hollowed is a layer with one of every kind of file that can be hollow, each
// large, before that happens.
func hollowed(t *testing.T) (dir string, e elsewhere) {
	t.Helper()
	dir = t.TempDir()
	text := func(n int) string { return strings.Repeat(fmt.Sprintf("line %d\n", n), 2000) }
	write(t, dir+"/etc/suid", text(1), 0o755|os.ModeSetuid)
	write(t, dir+"/etc/closed/mode0", text(2), 0)
	write(t, dir+"/opaque/able", text(3), 0o755)
	write(t, dir+"/opaque/small", "small", 0o644)
	write(t, dir+"/own", text(4), 0o644)
	must(t, os.Link(dir+"/own", dir+"/opaque/other name \xff"))
	write(t, dir+"/sparse", "", 0o600)
	must(t, unix.Truncate(dir+"/sparse", 1<<20))
	sparse, err := os.OpenFile(dir+"/sparse", os.O_WRONLY, 0)
	must(t, err)
	_, err = sparse.WriteAt([]byte(text(5)), 1<<19)
	must(t, errors.Join(err, sparse.Close()))
	must(t, unix.Mknod(dir+"/opaque/gone", unix.S_IFCHR, 0))
	must(t, unix.Setxattr(dir+"/opaque", "user.overlay.opaque", []byte("y"), 0))
	must(t, unix.Setxattr(dir+"/opaque", "user.mine", []byte("of the directory"), 0))
	must(t, unix.Setxattr(dir+"/own", "user.overlay.overlay.origin", []byte("the cell's own"), 0))
	capability := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	must(t, unix.Setxattr(dir+"/opaque/able", "security.capability", capability, 0))
	for i, path := range []string{"etc/suid", "etc/closed/mode0", "opaque/able", "own", "sparse", "opaque", "etc/closed", "etc", "."} {
		at := unix.Timespec{Sec: 1_000_000_000 + int64(i), Nsec: 123_456_789}
		must(t, unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(dir, path), []unix.Timespec{at, at}, 0))
	}
	e = elsewhere{dir: t.TempDir(), paths: []string{"etc/suid", "etc/closed/mode0", "opaque/able", "own", "opaque/other name \xff", "sparse"}}
	for _, path := range e.paths {
		content, err := os.ReadFile(filepath.Join(dir, path))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(e.dir, strings.ReplaceAll(path, "/", "_")), content, 0o600))
	}
	return dir, e
}

// seen is all that a cell sees of a path.
func seen(t *testing.T, dir, path string, content bool) string {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(filepath.Join(dir, path), &st))
	said := fmt.Sprintf("%s %o %d:%d %d %v", path, st.Mode, st.Uid, st.Gid, st.Size, st.Mtim)
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		said += fmt.Sprint(" ", st.Nlink)
	}
	for _, name := range []string{"security.capability", "user.overlay.overlay.origin", "user.mine"} {
		value := make([]byte, 100)
		n, err := unix.Lgetxattr(filepath.Join(dir, path), name, value)
		if err == nil {
			said += fmt.Sprintf(" %s=%q", name, value[:n])
		}
	}
	if content {
		text, err := os.ReadFile(filepath.Join(dir, path))
		must(t, err)
		said += fmt.Sprintf(" %x", text)
	}
	return said
}

// A hollow file keeps all but its bytes and the room that they take, and what
// reads the layer finds them again.
func TestAHollowFileKeepsAllButItsBytes(t *testing.T) {
	dir, e := hollowed(t)
	layer := openDir(t, dir)
	var whole bytes.Buffer
	before, err := tree.WriteLayer(t.Context(), &whole, layer, tree.LayerOptions{SumFrom: 4096})
	must(t, err)
	if len(before.Sums) != 5 || len(before.Sums[3].Paths) != 2 {
		t.Fatalf("to be shared: %+v", before.Sums)
	}
	was := map[string][2]string{}
	for _, path := range e.paths {
		was[path] = [2]string{seen(t, dir, path, false), seen(t, dir, path, true)}
	}
	for _, sum := range before.Sums {
		same, err := e.Open(sum.Paths[0])
		must(t, err)
		done, err := tree.Hollow(t.Context(), layer, sum.Paths[0], same)
		must(t, errors.Join(err, same.Close()))
		if !done {
			t.Errorf("%s holds its bytes still", sum.Paths[0])
		}
	}
	for _, path := range e.paths {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(dir, path), &st))
		if now := seen(t, dir, path, false); now != was[path][0] || st.Blocks > 8 { // attributes may have a block of their own
			t.Errorf("it was %s, and is %s with %d blocks", was[path][0], now, st.Blocks)
		}
	}
	var again bytes.Buffer
	if _, err := tree.WriteLayer(t.Context(), &again, layer, tree.LayerOptions{Hollow: e}); err != nil || !bytes.Equal(whole.Bytes(), again.Bytes()) {
		t.Errorf("the archive is another: %v", err)
	}
	filled := t.TempDir()
	must(t, tree.Fill(t.Context(), layer, openDir(t, filled), e))
	applied := t.TempDir()
	must(t, tree.Apply(t.Context(), layer, openDir(t, applied), e))
	for _, path := range e.paths {
		if now := seen(t, filled, path, true); now != was[path][1] {
			t.Errorf("filled: %.200s, was %.200s", now, was[path][1])
		}
		// A store that Podman mounted has a cell's own attributes under their names.
		want := strings.Replace(was[path][1], ` user.overlay.overlay.origin="the cell's own"`, "", 1)
		if now := seen(t, applied, path, true); now != want {
			t.Errorf("applied: %.200s, was %.200s", now, want)
		}
	}
	for _, path := range []string{".", "etc", "etc/closed", "opaque"} {
		if now, want := seen(t, filled, path, false), seen(t, dir, path, false); now != want {
			t.Errorf("filled: %s, in the layer %s", now, want)
		}
	}
	for _, gone := range []string{"opaque/small", "opaque/gone"} {
		if _, err := os.Lstat(filepath.Join(filled, gone)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is filled too: %v", gone, err)
		}
	}
	// An opaque directory would hide what the layer has below it.
	if _, err := unix.Lgetxattr(filled+"/opaque", "user.overlay.opaque", make([]byte, 9)); err != unix.ENODATA {
		t.Errorf("what is filled hides the layer: %v", err)
	}
}

// Bytes are given up for their equals only.
func TestAFileOfOtherBytesIsNotHollow(t *testing.T) {
	dir, e := hollowed(t)
	for _, other := range []string{"", "x", strings.Repeat("line 4\n", 1999) + "line 5\n", strings.Repeat("line 4\n", 2000) + "x"} {
		must(t, os.WriteFile(filepath.Join(e.dir, "own"), []byte(other), 0o600))
		same, err := e.Open("own")
		must(t, err)
		was := seen(t, dir, "own", true)
		done, err := tree.Hollow(t.Context(), openDir(t, dir), "own", same)
		if done || err != nil || seen(t, dir, "own", true) != was {
			t.Errorf("%d other bytes: %v, %v", len(other), done, err)
		}
		must(t, same.Close())
	}
	if _, err := tree.Hollow(t.Context(), openDir(t, dir), "none", nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Bytes that cannot be had are an error, and never zeros.
func TestAHollowFileWithoutItsBytesIsAnError(t *testing.T) {
	dir, e := hollowed(t)
	must(t, os.Remove(filepath.Join(e.dir, "sparse")))
	layer := openDir(t, dir)
	_, packing := tree.WriteLayer(t.Context(), io.Discard, layer, tree.LayerOptions{Hollow: e})
	for how, err := range map[string]error{
		"packed":  packing,
		"filled":  tree.Fill(t.Context(), layer, openDir(t, t.TempDir()), e),
		"applied": tree.Apply(t.Context(), layer, openDir(t, t.TempDir()), e),
	} {
		if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "sparse") {
			t.Errorf("%s: %v", how, err)
		}
	}
}
