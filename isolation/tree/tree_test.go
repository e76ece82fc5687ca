package tree_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o600))
	must(t, os.Chmod(path, mode))
}

func openDir(t testing.TB, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// copyOf copies a tree into a fresh directory.
func copyOf(t testing.TB, src string, o tree.Options) (string, tree.Report, error) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "copy")
	must(t, os.Mkdir(dst, 0o700))
	report, err := tree.Copy(t.Context(), openDir(t, src), openDir(t, dst), o)
	return dst, report, err
}

func digest(t testing.TB, dir string, o tree.Options) tree.Report {
	t.Helper()
	report, err := tree.Digest(t.Context(), openDir(t, dir), o)
	must(t, err)
	return report
}

// describe lists a tree with all that a copy keeps.
func describe(t testing.TB, root string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		must(t, unix.Lstat(path, &st))
		name := strings.TrimPrefix(path, root)
		fmt.Fprintf(&b, "%q %o %d:%d links %d", name, st.Mode, st.Uid, st.Gid, st.Nlink)
		fmt.Fprintf(&b, " mtime %v", st.Mtim)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			content, err := os.ReadFile(path)
			must(t, err)
			fmt.Fprintf(&b, " %d %.20q %q", len(content), content, attributes(t, path))
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			must(t, err)
			fmt.Fprintf(&b, " -> %q", target)
		case unix.S_IFDIR:
			fmt.Fprintf(&b, " %q", attributes(t, path))
		}
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}

func attributes(t testing.TB, path string) string {
	t.Helper()
	list := make([]byte, 4096)
	n, err := unix.Listxattr(path, list)
	must(t, err)
	var all []string
	for name := range strings.SplitSeq(strings.Trim(string(list[:n]), "\x00"), "\x00") {
		value := make([]byte, 4096)
		if size, err := unix.Getxattr(path, name, value); err == nil && strings.HasPrefix(name, "user.") {
			all = append(all, name+"="+string(value[:size]))
		}
	}
	return strings.Join(all, " ")
}

// sample has every kind of entry.
func sample(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "sample")
	write(t, dir+"/plain", "plain\n", 0o600)
	write(t, dir+"/empty", "", 0o444)
	write(t, dir+"/setuid", "x", 0o755|os.ModeSetuid)
	write(t, dir+"/sub/file", strings.Repeat("0123456789abcdef", 40_000), 0o640)
	write(t, dir+"/a b:c,d\ne\\", "odd", 0o600)
	write(t, dir+"/\xff\xfe", "odd", 0o600)
	write(t, dir+"/-dash", "odd", 0o600)
	must(t, os.Mkdir(dir+"/sticky", 0o700))
	must(t, os.Chmod(dir+"/sticky", 0o777|os.ModeSticky))
	must(t, os.Link(dir+"/sub/file", dir+"/z-hard"))
	must(t, os.Link(dir+"/sub/file", dir+"/sub/hard"))
	for name, target := range map[string]string{"link": "plain", "out": "/etc/passwd", "sub/up": "../../..", "loop": "loop", "long": strings.Repeat("x/", 2000)} {
		must(t, os.Symlink(target, dir+"/"+name))
	}
	must(t, unix.Mkfifo(dir+"/fifo", 0o620))
	must(t, unix.Mknod(dir+"/socket", unix.S_IFSOCK|0o600, 0))
	must(t, unix.Mknod(dir+"/whiteout", unix.S_IFCHR|0o600, 0))
	must(t, unix.Setxattr(dir+"/plain", "user.colour", []byte("blue\x00"), 0))
	must(t, unix.Setxattr(dir+"/sub", "user.big", bytes.Repeat([]byte("b"), 1500), 0))
	sparse(t, dir+"/holes", 8<<20, 1<<20, 5<<20+77)
	must(t, os.MkdirAll(dir+"/locked/in", 0o700))
	write(t, dir+"/locked/in/file", "locked", 0)
	must(t, os.Chmod(dir+"/locked", 0))
	t.Cleanup(func() { os.Chmod(dir+"/locked", 0o700) })
	past := time.Unix(1_000_000_000, 123_456_789)
	for _, name := range []string{"plain", "sub/file", "sub", "fifo", ""} {
		must(t, os.Chtimes(filepath.Join(dir, name), past.Add(-time.Hour), past))
	}
	must(t, os.Chmod(dir, 0o750))
	return dir
}

// sparse makes a file of a size with one byte at each place.
func sparse(t testing.TB, path string, size int64, places ...int64) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(size))
	for _, at := range places {
		_, err := f.WriteAt([]byte("x"), at)
		must(t, err)
	}
}

func TestCopyIsTheTree(t *testing.T) {
	src := sample(t)
	before := describe(t, src)
	dst, report, err := copyOf(t, src, tree.Options{})
	must(t, err)
	for _, name := range []string{"holes", "sub/file"} {
		var from, to unix.Stat_t
		must(t, unix.Lstat(filepath.Join(src, name), &from))
		must(t, unix.Lstat(filepath.Join(dst, name), &to))
		if to.Blocks > from.Blocks+8 || from.Atim != to.Atim {
			t.Errorf("%s: %d blocks and atime %v, of %d and %v", name, to.Blocks, to.Atim, from.Blocks, from.Atim)
		}
	}
	if got := describe(t, dst); got != before {
		t.Errorf("the copy is\n%s\nof\n%s", got, before)
	}
	if got := describe(t, src); got != before {
		t.Errorf("the tree was changed to\n%s\nfrom\n%s", got, before)
	}
	if report.Entries != 23 {
		t.Errorf("%d entries", report.Entries)
	}
	if hazards := strings.Join(report.Hazards, "; "); hazards != `hard link: "sub/file"; device: "whiteout"` {
		t.Errorf("hazards: %s", hazards)
	}
}

// The digest is that of the copy, and of the tree without one.
func TestDigestOfCopyIsDigestOfTree(t *testing.T) {
	src := sample(t)
	dst, copied, err := copyOf(t, src, tree.Options{})
	must(t, err)
	if walked := digest(t, src, tree.Options{}); walked.Digest != copied.Digest || walked.Times != copied.Times || walked.Entries != copied.Entries || walked.Bytes != copied.Bytes {
		t.Errorf("without a copy %+v, with one %+v", walked, copied)
	}
	if again := digest(t, dst, tree.Options{}); again.Digest != copied.Digest || again.Times != copied.Times {
		t.Error("the copy has another digest")
	}
}

// Whatever is changed in a tree changes its digest, but for times.
func TestDigestChangesWithTheTree(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"a byte":          func(d string) error { return os.WriteFile(d+"/plain", []byte("Plain\n"), 0o600) },
		"a zero more":     func(d string) error { return os.Truncate(d+"/plain", 7) },
		"a byte in holes": func(d string) error { sparse(t, d+"/holes", 8<<20, 1<<20+4096, 5<<20+77); return nil },
		"a mode":          func(d string) error { return os.Chmod(d+"/plain", 0o601) },
		"the root's mode": func(d string) error { return os.Chmod(d, 0o751) },
		"a name":          func(d string) error { return os.Rename(d+"/plain", d+"/plaim") },
		"a target":        func(d string) error { return errors.Join(os.Remove(d+"/link"), os.Symlink("empty", d+"/link")) },
		"an attribute":    func(d string) error { return unix.Setxattr(d+"/plain", "user.colour", []byte("blue"), 0) },
		"a kind": func(d string) error {
			return errors.Join(os.Remove(d+"/fifo"), unix.Mknod(d+"/fifo", unix.S_IFSOCK|0o620, 0))
		},
		"a hard link": func(d string) error {
			return errors.Join(os.Remove(d+"/z-hard"), os.WriteFile(d+"/z-hard", []byte(strings.Repeat("0123456789abcdef", 40_000)), 0o640))
		},
		"an empty directory": func(d string) error { return os.Mkdir(d+"/new", 0o700) },
	} {
		dir := sample(t)
		before := digest(t, dir, tree.Options{}).Digest
		must(t, os.Chtimes(dir+"/plain", time.Now(), time.Now()))
		if digest(t, dir, tree.Options{}).Digest != before {
			t.Error("times count")
		}
		must(t, change(dir))
		if digest(t, dir, tree.Options{}).Digest == before {
			t.Errorf("%s changed, and the digest did not", name)
		}
	}
}

// Zeros count the same whether they are written or a hole.
func TestDigestDoesNotSeeHoles(t *testing.T) {
	dirs := [2]string{t.TempDir(), t.TempDir()}
	sparse(t, dirs[0]+"/f", 1<<20+5, 300_000)
	full := make([]byte, 1<<20+5)
	full[300_000] = 'x'
	must(t, os.WriteFile(dirs[1]+"/f", full, 0o600))
	must(t, os.Chmod(dirs[0]+"/f", 0o600))
	if digest(t, dirs[0], tree.Options{}).Digest != digest(t, dirs[1], tree.Options{}).Digest {
		t.Error("a hole counts")
	}
}

// A file that says it has terabytes is no more work than what it holds.
func TestHugeSparseFileTakesNoTime(t *testing.T) {
	dir := t.TempDir()
	sparse(t, dir+"/huge", 4<<40, 0, 1<<40, 4<<40-1)
	began := time.Now()
	dst, report, err := copyOf(t, dir, tree.Options{})
	must(t, err)
	if took := time.Since(began); took > 10*time.Second || report.Bytes != 4<<40 {
		t.Errorf("it took %v for %d bytes", took, report.Bytes)
	}
	if info, err := os.Stat(dst + "/huge"); err != nil || info.Size() != 4<<40 {
		t.Errorf("the copy: %v, %v", info, err)
	}
}

func TestFilterDropsHistoryAndLinksThatLeadOut(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/task.yaml", "x", 0o600)
	write(t, dir+"/.git/config", "x", 0o600)
	write(t, dir+"/sub/.git", "gitdir: x", 0o600)
	write(t, dir+"/run/task.json", "x", 0o600)
	for name, target := range map[string]string{"abs": "/x", "up": "..", "sub/up": "../..", "sub/in": "../task.yaml", "sub/round": "../../" + filepath.Base(dir)} {
		must(t, os.Symlink(target, dir+"/"+name))
	}
	var st unix.Stat_t
	must(t, unix.Stat(dir+"/run", &st))
	o := tree.Options{Filter: true, Skip: []tree.FileID{{Dev: st.Dev, Ino: st.Ino}}}
	dst, report, err := copyOf(t, dir, o)
	must(t, err)
	found, err := filepath.Glob(dst + "/*/*")
	must(t, err)
	top, err := os.ReadDir(dst)
	must(t, err)
	if len(found) != 1 || found[0] != dst+"/sub/in" || len(top) != 2 || report.Entries != 3 {
		t.Errorf("the copy has %q and %v, %d entries", found, top, report.Entries)
	}
}

func TestLeadsOut(t *testing.T) {
	for _, test := range []struct {
		dir, target string
		want        bool
	}{
		{".", "a", false}, {".", "a/../b", false}, {".", "", false}, {".", ".", false}, {"a", "..", false}, {"a/b", "../../c", false},
		{"a", "../a/../b", false}, {"a", "b/../../c", false}, {"..a", "../..b", false}, {".", "..a", false}, {".", "...", false},
		{".", "..", true}, {".", "../", true}, {".", "/", true}, {".", "/etc/passwd", true}, {"a", "../..", true}, {"a", "../../a", true},
		{"a/b", "../../../c", true}, {"a", "b/../../../c", true}, {".", "a/../../b", true}, {".", "//x", true},
	} {
		if got := tree.LeadsOut(test.dir, test.target); got != test.want {
			t.Errorf("a link to %q in %q: %v", test.target, test.dir, got)
		}
	}
}

// Owners: the caller's files are given away, others keep theirs. Here only one
// id is mapped, so giving to it is all that can be seen.
func TestGiveToSomeoneUnmappedFails(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f", "x", 0o600)
	if _, _, err := copyOf(t, dir, tree.Options{Give: tree.Owner{UID: 1000, GID: 1000}}); !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), `set the owner of f`) {
		t.Errorf("got %v, want EINVAL about f", err)
	}
}
