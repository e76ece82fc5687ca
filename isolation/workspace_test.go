package isolation_test

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"podgrade/isolation"
)

// evidence is a workspace that has every kind of entry a tree can have, with
// times long ago: a copy that reads it carelessly changes them.
type evidence struct {
	t     *testing.T
	dir   string
	names []string
	// inside is the file of a directory that nobody may enter, by a descriptor.
	inside int
}

const oddName = "a b:c,d\ne\"f'g*h\\i"

func newEvidence(t *testing.T) *evidence {
	e := newPlainEvidence(t)
	e.must(os.Link(e.path("hard"), e.path("link-hard")))
	e.names = append(e.names, "link-hard")
	e.longAgo()
	return e
}

// newPlainEvidence has all but hard links, which no overlay shows.
func newPlainEvidence(t *testing.T) *evidence {
	e := &evidence{t: t, dir: t.TempDir()}
	e.file("hello.txt", 0o600, "hello\n")
	for _, name := range []string{oddName, "-dash", "\xff\xfe", "ä", "…"} {
		e.file(name, 0o600, "odd\n")
	}
	e.directory("deep", 0o700)
	deep := "deep" + strings.Repeat("/dddddddddddddddddddddddddddddddddddddddd", 60)
	e.must(os.MkdirAll(e.path(deep), 0o700))
	for below := deep; below != "deep"; below = filepath.Dir(below) {
		e.names = append(e.names, below)
	}
	e.file(deep+"/bottom", 0o600, "bottom\n")
	e.file("setuid", 0o755|os.ModeSetuid, "#!/bin/sh\n")
	e.directory("setgid", 0o750|os.ModeSetgid)
	e.directory("sticky", 0o777|os.ModeSticky)
	e.file("hard", 0o640, "two names\n")
	for name, target := range map[string]string{"link": "hello.txt", "link-out": "/etc/passwd", "link-up": "../../..", "link-nowhere": "nowhere", "link-self": "link-self"} {
		e.must(os.Symlink(target, e.path(name)))
		e.names = append(e.names, name)
	}
	e.must(syscall.Mkfifo(e.path("fifo"), 0o600))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: e.path("socket"), Net: "unix"})
	e.must(err)
	l.SetUnlinkOnClose(false)
	e.must(l.Close())
	e.file("sparse", 0o600, "")
	e.must(os.Truncate(e.path("sparse"), 64<<20))
	e.must(unix.Setxattr(e.path("hello.txt"), "user.colour", []byte("blue"), 0))
	e.names = append(e.names, "fifo", "socket", ".")
	e.directory("locked", 0o700)
	e.file("locked/inside", 0o600, "inside\n")
	e.inside, err = unix.Open(e.path("locked/inside"), unix.O_PATH|unix.O_CLOEXEC, 0)
	e.must(err)
	t.Cleanup(func() { unix.Close(e.inside) })
	e.must(os.Chmod(e.path("locked"), 0))
	t.Cleanup(func() { os.Chmod(e.path("locked"), 0o700) })
	e.must(os.Chmod(e.dir, 0o700))
	e.longAgo()
	return e
}

func (e *evidence) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *evidence) path(name string) string { return e.dir + "/" + name }

func (e *evidence) file(name string, mode os.FileMode, content string) {
	e.t.Helper()
	e.must(os.WriteFile(e.path(name), []byte(content), 0o600))
	e.must(os.Chmod(e.path(name), mode))
	if !strings.HasPrefix(name, "locked/") {
		e.names = append(e.names, name)
	}
}

func (e *evidence) directory(name string, mode os.FileMode) {
	e.t.Helper()
	e.must(os.Mkdir(e.path(name), 0o700))
	e.must(os.Chmod(e.path(name), mode))
	e.names = append(e.names, name)
}

// longAgo gives every entry times that any access would change.
func (e *evidence) longAgo() {
	e.t.Helper()
	accessed, modified := unix.NsecToTimespec(1e18), unix.NsecToTimespec(1e18+123456789)
	slices.SortFunc(e.names, func(a, b string) int { return len(b) - len(a) }) // what is in a directory before it
	for _, name := range e.names {
		e.must(unix.UtimesNanoAt(unix.AT_FDCWD, e.path(name), []unix.Timespec{accessed, modified}, unix.AT_SYMLINK_NOFOLLOW))
	}
}

// snapshot describes every entry to the last bit. That the time of change is
// in it proves that nothing was chmod'ed, chown'ed or written meanwhile.
func (e *evidence) snapshot() map[string]string {
	e.t.Helper()
	all := map[string]string{}
	var inside unix.Stat_t
	e.must(unix.Fstat(e.inside, &inside))
	all["locked/inside"] = fmt.Sprintf("%+v", inside)
	for _, name := range e.names {
		var st unix.Stat_t
		e.must(unix.Lstat(e.path(name), &st))
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			st.Atim = unix.Timespec{} // the kernel keeps it from nobody who reads a link
		}
		all[name] = fmt.Sprintf("%o %d:%d size %d links %d atime %v mtime %v ctime %v %x", st.Mode, st.Uid, st.Gid, st.Size, st.Nlink, st.Atim, st.Mtim, st.Ctim, e.content(name, &st))
	}
	return all
}

func (e *evidence) content(name string, st *unix.Stat_t) []byte {
	e.t.Helper()
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > 1<<20 {
		return nil
	}
	fd, err := unix.Open(e.path(name), unix.O_RDONLY|unix.O_NOATIME, 0)
	e.must(err)
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	content := make([]byte, st.Size)
	_, err = f.ReadAt(content, 0)
	e.must(err)
	sum := sha256.Sum256(content)
	return sum[:]
}

// The workspace of the caller is the image user's own in the cell, to read and
// to write, and afterwards the tree on the host is as it was, whoever the
// image's user is and whatever private view the cell has.
func TestEvidenceIsReadAndWrittenAndNeverChanged(t *testing.T) {
	t.Parallel()
	copied, overlaid := newEvidence(t), newPlainEvidence(t)
	for _, test := range []struct {
		user, id, view string
		e              *evidence
	}{
		{"", "0", isolation.ViewAuto, copied}, {"1000", "1000", isolation.ViewCopy, copied}, {"65532:65532", "65532", isolation.ViewAuto, copied}, {"grader", "1000", isolation.ViewAuto, copied},
		{"", "0", isolation.ViewOverlay, overlaid}, {"1000", "1000", isolation.ViewOverlay, overlaid}, {"65532:65532", "65532", isolation.ViewOverlay, overlaid},
	} {
		t.Run(test.view+" for user "+test.user, func(t *testing.T) {
			before := test.e.snapshot()
			o := order(t, as(t, test.user))
			o.Workspace, o.View = test.e.dir, test.view
			c := openOn(t, host(t), o)
			t.Run("read", func(t *testing.T) { readEvidence(t, c, test.id) })
			if test.e == copied {
				want(t, c, "stat -c %h hard; test hard -ef link-hard; test $(stat -c %b sparse) -lt 100", "2\n")
			}
			t.Run("write", func(t *testing.T) { writeEvidence(t, c) })
			if test.e == copied {
				want(t, c, "cat link-hard", "two names\nmore\n")
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			test.e.compare(before)
			checkEvidenceView(t, c.Made().View, test.e == overlaid, len(test.e.names))
		})
	}
}

// compare tells what was changed since a snapshot.
func (e *evidence) compare(before map[string]string) {
	e.t.Helper()
	after := e.snapshot()
	for name := range before {
		if before[name] != after[name] {
			e.t.Errorf("%q was changed:\n%s\n%s", name, before[name], after[name])
		}
	}
}

func checkEvidenceView(t *testing.T, made isolation.View, overlaid bool, entries int) {
	t.Helper()
	kind, hazards := isolation.ViewCopy, 1
	if overlaid {
		kind, hazards = isolation.ViewOverlay, 0
	}
	if made.Kind != kind || made.Entries < entries || len(made.Digest) != 64 || made.Bytes < 64<<20 || len(made.Hazards) != hazards {
		t.Errorf("the view is said to be %+v", made)
	}
}

func readEvidence(t *testing.T, c isolation.Cell, id string) {
	want(t, c, "id -u; pwd; cat hello.txt", id+"\n/work/workspace\nhello\n")
	want(t, c, "stat -c '%a %u %g' . hello.txt setuid setgid sticky fifo socket locked", strings.ReplaceAll(
		"700 ID\n600 ID\n4755 ID\n2750 ID\n1777 ID\n600 ID\n755 ID\n0 ID\n", "ID", id+" "+id))
	want(t, c, "TZ=UTC stat -c '%y' hello.txt . deep link fifo", strings.Repeat("2001-09-09 01:46:40.123456789 +0000\n", 5))
	want(t, c, `cat "$(printf 'a b:c,d\ne"f'"'"'g*h\\i')" ./-dash "$(printf '\377\376')" ä …`, strings.Repeat("odd\n", 5))
	want(t, c, "cd deep; for i in $(seq 60); do cd d*; done; cat bottom", "bottom\n")
	want(t, c, "for l in link link-out link-up link-nowhere link-self; do readlink $l; done", "hello.txt\n/etc/passwd\n../../..\nnowhere\nlink-self\n")
	want(t, c, "test -p fifo && test -S socket", "")
	want(t, c, "stat -c %s sparse", "67108864\n")
	want(t, c, "chmod 700 locked && cat locked/inside", "inside\n")
}

func writeEvidence(t *testing.T, c isolation.Cell) {
	want(t, c, "echo more >> hello.txt; echo more >> hard; cat link hard", "hello\nmore\ntwo names\nmore\n")
	want(t, c, "rm -rf deep fifo; mv setgid moved; echo new > new; chmod 640 new; ln -s new link-new; stat -c %a new", "640\n")
	want(t, c, "touch -d 2020-01-01 . ./-dash; echo x > sparse", "")
	if got := sh(t, c, "umask"); got.out != "0022\n" {
		t.Errorf("umask %q", got.out)
	}
}

// What a task brings along is given read-only, without its history, without
// links that lead out, and without the run directory that lies in it.
func TestWhatATaskBringsIsReadOnlyAndFiltered(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"task.yaml": "x\n", "sub/data": "data\n", ".git/config": "secret\n", "runs/row/task.json": "{}\n", "sub/.git/HEAD": "secret\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out": "/etc/passwd", "up": "../x", "in": "sub/data", "sub/back": "../task.yaml", "sub/up": "../../x"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, as(t, "1000"), func(o *isolation.Order) {
		o.TaskDir, o.Reference, o.Hidden = dir, filepath.Join(dir, "sub"), []string{filepath.Join(dir, "runs"), filepath.Join(dir, "gone")}
	})
	want(t, c, "cd /work/task_dir && find . | sort; cat in sub/back", ".\n./in\n./sub\n./sub/back\n./sub/data\n./task.yaml\ndata\nx\n")
	want(t, c, "cd /work/references && find . | sort; cat data", ".\n./data\ndata\n")
	for _, line := range []string{"echo x > /work/task_dir/x", "echo x >> /work/task_dir/task.yaml", "rm /work/references/data", "chmod 777 /work/task_dir"} {
		if got := sh(t, c, line); got.Code == 0 || !strings.Contains(got.out, "Read-only") {
			t.Errorf("%s: %+v, want a refusal", line, got)
		}
	}
}

// A caller who makes private files only still gets cells whose user can work.
func TestCellsDoNotDependOnTheCallersUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	h := start(t, options(t))
	defer h.Close()
	for _, user := range []string{"", "65532:65532"} {
		c := openOn(t, h, order(t, as(t, user)))
		want(t, c, "cat hello.txt; hostname; test -s /etc/hosts && grep -c nameserver /etc/resolv.conf && touch /work/workspace/x", "hello\ncell\n1\n")
		if home := c.Made().Home; sh(t, c, "touch "+home+"/x").Code != 0 {
			t.Errorf("HOME %s of user %q cannot be written", home, user)
		}
	}
}
