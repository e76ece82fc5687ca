package tree_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// upperDirectory has what the upper directory of an overlay can have.
func upperDirectory(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir+"/etc/new", "new", 0o640)
	must(t, unix.Mknod(dir+"/etc/gone", unix.S_IFCHR, 0))
	write(t, dir+"/etc/gone-too", "", 0o600)
	must(t, unix.Setxattr(dir+"/etc/gone-too", "user.overlay.whiteout", []byte("y"), 0))
	write(t, dir+"/replaced/only", "only", 0o600)
	must(t, unix.Setxattr(dir+"/replaced", "user.overlay.opaque", []byte("y"), 0))
	write(t, dir+"/merged/x", "x", 0o600)
	must(t, unix.Setxattr(dir+"/merged", "user.overlay.opaque", []byte("x"), 0))
	must(t, unix.Setxattr(dir+"/merged", "user.overlay.impure", []byte("y"), 0))
	must(t, os.Link(dir+"/etc/new", dir+"/merged/hard"))
	must(t, os.Symlink("/etc/new", dir+"/link"))
	write(t, dir+"/\xff\n", "odd", 0o755|os.ModeSetuid)
	write(t, dir+"/.wh.literal", "", 0)
	must(t, unix.Setxattr(dir+"/etc/new", "user.a=b", []byte("\x00\xff"), 0))
	must(t, unix.Setxattr(dir+"/etc/new", "user.overlay.overlay.opaque", []byte("y"), 0))
	return dir
}

func layerOf(t testing.TB, dir string) (tree.Layer, []byte) {
	t.Helper()
	var out bytes.Buffer
	layer, err := tree.WriteLayer(t.Context(), &out, openDir(t, dir), tree.LayerOptions{})
	must(t, err)
	return layer, out.Bytes()
}

// The archive of a layer says all that the upper directory says, as OCI layers
// say it, and is the same whenever it is written.
func TestALayersArchive(t *testing.T) {
	dir := upperDirectory(t)
	layer, archive := layerOf(t, dir)
	if _, again := layerOf(t, dir); !bytes.Equal(again, archive) {
		t.Error("written again it is another")
	}
	var names []string
	headers := map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		names = append(names, h.Name)
		headers[h.Name] = h
	}
	want := []string{".wh.literal", "etc/", "etc/.wh.gone", "etc/.wh.gone-too", "etc/new", "link", "merged/", "merged/hard", "merged/x",
		"replaced/", "replaced/.wh..wh..opq", "replaced/only", "\xff\n"}
	if !slices.Equal(names, want) {
		t.Errorf("entries %q, want %q", names, want)
	}
	if h := headers["merged/hard"]; h.Typeflag != tar.TypeLink || h.Linkname != "etc/new" {
		t.Errorf("%+v", h)
	}
	if h := headers["\xff\n"]; h.Mode != 0o4755 {
		t.Errorf("%+v", h)
	}
	if h := headers[".wh.literal"]; h.PAXRecords["PODGRADE.literal"] == "" {
		t.Error("a file of this name cannot be told from a whiteout")
	}
	if h := headers["etc/new"]; h.PAXRecords["SCHILY.xattr.user.overlay.opaque"] != "y" || h.PAXRecords["PODGRADE.xattr.757365722e613d62"] != "00ff" {
		t.Errorf("%q", h.PAXRecords)
	}
	if h := headers["merged/"]; len(h.PAXRecords) > 1 { // but for its time
		t.Errorf("%q", h.PAXRecords)
	}
	if !slices.Equal(layer.Deleted, []string{"/etc/gone", "/etc/gone-too"}) || !slices.Contains(layer.Changed, "/replaced/only") || layer.Bytes != 4+3+1+3 {
		t.Errorf("%+v", layer)
	}
}

// What crosses to the host stays small, whatever an agent makes.
func TestALayersPathsAreCapped(t *testing.T) {
	dir := t.TempDir()
	for i := range 700 {
		must(t, os.Mkdir(filepath.Join(dir, strings.Repeat("n", 200)+string(rune('a'+i%26))+strings.Repeat("m", i/26)), 0o700))
	}
	layer, _ := layerOf(t, dir)
	size := 0
	for _, path := range layer.Changed {
		size += len(path)
	}
	if layer.Entries != 700 || layer.More+len(layer.Changed) != 700 || layer.More == 0 || size > 64<<10 {
		t.Errorf("%d entries, %d paths of %d bytes, %d more", layer.Entries, len(layer.Changed), size, layer.More)
	}
}

// Applied to a root file system, a layer takes away and puts as an overlay
// shows it.
func TestApplyDoesWhatAnOverlayShows(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"etc/gone/deep/file", "etc/gone-too", "etc/kept", "replaced/old/file", "merged/old", "merged/x/was/a/directory"} {
		write(t, filepath.Join(root, name), "old", 0o600)
	}
	must(t, os.Symlink("/nowhere", root+"/link"))
	must(t, tree.Apply(t.Context(), openDir(t, upperDirectory(t)), openDir(t, root), nil))
	var found []string
	must(t, filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		found = append(found, strings.TrimPrefix(path, root))
		return err
	}))
	want := []string{"", "/.wh.literal", "/etc", "/etc/kept", "/etc/new", "/link", "/merged", "/merged/hard", "/merged/old", "/merged/x", "/replaced", "/replaced/only", "/\xff\n"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	a, err1 := os.Stat(root + "/etc/new")
	b, err2 := os.Stat(root + "/merged/hard")
	if err1 != nil || err2 != nil || !os.SameFile(a, b) {
		t.Errorf("a hard link is none any more: %v, %v", err1, err2)
	}
	value := make([]byte, 10)
	if n, err := unix.Getxattr(root+"/etc/new", "user.overlay.opaque", value); err != nil || string(value[:n]) != "y" {
		t.Errorf("%q, %v", value[:max(n, 0)], err)
	}
	if _, err := unix.Getxattr(root+"/replaced", "user.overlay.opaque", value); !errors.Is(err, unix.ENODATA) {
		t.Errorf("an attribute of the overlay's own: %v", err)
	}
}

// Prune takes away what was there before, what only looks changed and sockets,
// and nothing else; what stays keeps its times.
func TestPruneTakesAwayWhatIsNoChange(t *testing.T) {
	lower, upper := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(lower+"/tmp/touched", 0o755))
	must(t, os.MkdirAll(lower+"/other", 0o755))
	must(t, os.MkdirAll(upper+"/made/inner", 0o755))
	write(t, upper+"/made/file", "", 0o644)
	write(t, upper+"/made/changed", "", 0o644)
	marks, err := tree.Mark(t.Context(), openDir(t, upper))
	must(t, err)
	write(t, upper+"/made/changed", "more", 0o644)
	must(t, os.MkdirAll(upper+"/tmp/touched", 0o755))
	must(t, os.MkdirAll(upper+"/new", 0o755))
	must(t, os.Mkdir(upper+"/other", 0o700))
	must(t, unix.Mknod(upper+"/socket", unix.S_IFSOCK|0o600, 0))
	at := unix.NsecToTimespec(1e18)
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, upper+"/made", []unix.Timespec{at, at}, 0))
	_, err = tree.Prune(t.Context(), openDir(t, upper), openDir(t, lower), marks, nil)
	must(t, err)
	layer, _ := layerOf(t, upper)
	if want := []string{"/made/changed", "/new/", "/other/"}; !slices.Equal(layer.Changed, want) {
		t.Errorf("left %q, want %q", layer.Changed, want)
	}
	if info, err := os.Stat(upper + "/made"); err != nil || info.ModTime().UnixNano() != 1e18 {
		t.Errorf("%v, %v", info.ModTime(), err)
	}
}
