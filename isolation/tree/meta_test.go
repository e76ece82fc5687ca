package tree_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

func metadataOf(t testing.TB, src string) (string, tree.Report, error) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "layer")
	must(t, os.Mkdir(dst, 0o700))
	report, err := tree.Metadata(t.Context(), openDir(t, src), openDir(t, dst), tree.Options{})
	return dst, report, err
}

// A layer of metadata has all that a copy has but the bytes, and says where
// those are.
func TestMetadataIsTheTreeWithoutItsBytes(t *testing.T) {
	src := t.TempDir()
	write(t, src+"/sub/a b:c,d\n", strings.Repeat("x", 10_000), 0o640)
	write(t, src+"/setuid", "", 0o755|os.ModeSetuid)
	must(t, os.Symlink("sub", src+"/link"))
	must(t, unix.Mkfifo(src+"/fifo", 0o620))
	must(t, unix.Setxattr(src+"/sub", "user.colour", []byte("blue"), 0))
	before := describe(t, src)
	dst, report, err := metadataOf(t, src)
	must(t, err)
	if report.Entries != 5 || report.Digest != "" {
		t.Errorf("report %+v", report)
	}
	const file = "/sub/a b:c,d\n"
	var st unix.Stat_t
	must(t, unix.Lstat(dst+file, &st))
	if st.Size != 10_000 || st.Blocks > 8 {
		t.Errorf("%d bytes in %d blocks", st.Size, st.Blocks)
	}
	if got := attributes(t, dst+file); !strings.Contains(got, "user.overlay.metacopy=") || !strings.Contains(got, "user.overlay.redirect="+file) {
		t.Errorf("attributes %q", got)
	}
	for _, name := range []string{"", "/sub", "/setuid", file, "/link", "/fifo"} {
		var from, to unix.Stat_t
		must(t, unix.Lstat(src+name, &from))
		must(t, unix.Lstat(dst+name, &to))
		if from.Mode != to.Mode || from.Size != to.Size && from.Mode&unix.S_IFMT != unix.S_IFDIR || from.Mtim != to.Mtim || from.Uid != to.Uid {
			t.Errorf("%q: %+v, of %+v", name, to, from)
		}
	}
	if got := attributes(t, dst+"/sub"); got != "user.colour=blue" {
		t.Errorf("the directory has %q", got)
	}
	if describe(t, src) != before {
		t.Error("the tree was changed")
	}
}

// What an agent set on a file is never taken for what the layer sets.
func TestMetadataOfATreeWithHazardsFails(t *testing.T) {
	for name, plant := range map[string]func(dir string){
		"attribute": func(dir string) { must(t, unix.Setxattr(dir+"/f", "user.overlay.redirect", []byte("/etc"), 0)) },
		"hard link": func(dir string) { must(t, os.Link(dir+"/f", dir+"/g")) },
		"device":    func(dir string) { must(t, unix.Mknod(dir+"/d", unix.S_IFCHR|0o600, 0)) },
	} {
		dir := t.TempDir()
		write(t, dir+"/f", "x", 0o600)
		plant(dir)
		if _, _, err := metadataOf(t, dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A place that the kernel cannot look up is an error, not a file that cannot
// be read later.
func TestMetadataOfAPathTooLongFails(t *testing.T) {
	dir := t.TempDir()
	deepTree(t, dir, 501)
	if _, _, err := metadataOf(t, dir); err == nil || !strings.Contains(err.Error(), "too long") && !strings.Contains(err.Error(), "no space") {
		t.Errorf("got %v", err)
	}
	empty(t, dir)
}

func TestLikeGivesTheRootsAttributes(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	must(t, os.Chmod(src, 0o750|os.ModeSetgid))
	must(t, unix.Setxattr(src, "user.colour", []byte("blue"), 0))
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, src, []unix.Timespec{{Sec: 1}, {Sec: 2}}, 0))
	must(t, tree.Like(openDir(t, src), openDir(t, dst), tree.Options{}))
	if from, to := describe(t, src), describe(t, dst); from != to {
		t.Errorf("%s, want %s", to, from)
	}
}
