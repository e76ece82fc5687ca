package supervisor_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation/protocol"
)

// tree makes what the tests of paths look at: a base and things outside of it.
func tree(t *testing.T, c *cell) (base string) {
	t.Helper()
	base = filepath.Join(c.dir, "base")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(base, "dir/deep"), 0o755))
	must(os.MkdirAll(filepath.Join(c.dir, "base-not/dir"), 0o755))
	must(os.WriteFile(filepath.Join(base, "file"), []byte("content"), 0o640))
	must(os.Chtimes(filepath.Join(base, "file"), time.Time{}, time.Unix(1e9, 123456789)))
	must(os.Chmod(filepath.Join(base, "file"), 0o641|os.ModeSetuid))
	must(os.WriteFile(filepath.Join(base, "dir/bytes-\xff\\x"), []byte{0, 1, 0xff}, 0o644))
	must(os.WriteFile(filepath.Join(base, "empty"), nil, 0o644))
	must(os.WriteFile(filepath.Join(c.dir, "outside"), []byte("secret"), 0o644))
	must(syscall.Mkfifo(filepath.Join(base, "fifo"), 0o644))
	must(os.MkdirAll(filepath.Join(base, "closed/in"), 0o700))
	must(os.WriteFile(filepath.Join(base, "unreadable"), []byte("x"), 0o644))
	for name, to := range map[string]string{
		"link": "file", "link-dir": "dir", "absolute": filepath.Join(base, "file"), "dangling": "nothing", "loop": "loop",
		"out": "../outside", "out-dir": "..", "sibling": "../base-not/dir", "through": "../base/file", "dangling-out": "../nothing",
		"magic": "/proc/self/root/etc/passwd", "null": "/dev/null",
	} {
		must(os.Symlink(to, filepath.Join(base, name)))
	}
	must(os.Symlink("base", filepath.Join(c.dir, "base-link")))
	must(os.Chmod(filepath.Join(base, "closed"), 0))
	must(os.Chmod(filepath.Join(base, "unreadable"), 0))
	t.Cleanup(func() { os.Chmod(filepath.Join(base, "closed"), 0o755) })
	return base
}

func TestResolve(t *testing.T) {
	forEach(t, []kind{sealed, sealedUser, dockerRoot, onHost}, func(t *testing.T, c *cell) {
		base := tree(t, c)
		in := func(name string) string { return filepath.Join(base, name) }
		const sealedOnly = "!" // root on the host may look everywhere
		for _, test := range []struct {
			name string
			want string // a path below base, or a failure's kind
		}{
			{"file", "file"},
			{"./dir/../file", "file"},
			{"", ""}, {".", ""}, {"dir", "dir"}, {"dir/", "dir"}, {"dir/deep/..", "dir"},
			{"link", "file"}, {"link-dir", "dir"}, {"link-dir/deep", "dir/deep"}, {"absolute", "file"}, {"through", "file"},
			{base, ""}, {in("file"), "file"}, {in("dir/bytes-\xff\\x"), "dir/bytes-\xff\\x"},
			{"fifo", "fifo"},
			{filepath.Join(c.dir, "base-link/file"), "file"},
			{"../base/file", "file"},
			{"missing", "not_exist"}, {"file/", "not_exist"}, {"file/x", "not_exist"}, {"dangling", "not_exist"},
			{"loop", "not_exist"}, {"dangling-out", "not_exist"}, {"a\x00b", "not_exist"}, {strings.Repeat("x", 300), "not_exist"},
			{strings.Repeat("x/", 3000), "not_exist"}, {"magic", "not_exist"}, {"/no/such", "not_exist"},
			{"..", "escapes"}, {"/", "escapes"}, {"/etc/passwd", "escapes"}, {"../outside", "escapes"}, {"out", "escapes"},
			{"out-dir", "escapes"}, {"out-dir/outside", "escapes"}, {"sibling", "escapes"}, {"../base-not", "escapes"},
			{"null", "escapes"}, {"/dev/null", "escapes"},
			{"closed/in", sealedOnly + "denied"}, {"closed/missing", sealedOnly + "denied"}, {"closed", "closed"},
		} {
			want, only := strings.CutPrefix(test.want, sealedOnly)
			if only && c.kind.host && os.Getuid() == 0 {
				continue
			}
			for _, b := range []string{base, filepath.Join(c.dir, "base-link")} {
				a, _ := c.ask(protocol.OpStat, protocol.Path{Base: b, Name: test.name})
				var got string
				if a.Failure != nil {
					got = string(a.Failure.Kind)
				} else if rest, ok := strings.CutPrefix(a.File.Path, base); ok {
					got = strings.TrimPrefix(rest, "/")
				}
				if got != want {
					t.Errorf("%q below %q: got %q (%+v), want %q", test.name, b, got, a.Failure, want)
				}
			}
		}
		for b, want := range map[string]protocol.FailureKind{in("missing"): protocol.NotExist, in("file"): protocol.NotExist, "base": protocol.Broken} {
			if a, _ := c.ask(protocol.OpStat, protocol.Path{Base: b, Name: "x"}); a.Failure == nil || a.Failure.Kind != want {
				t.Errorf("base %q: got %+v, want %s", b, a.Failure, want)
			}
		}
		if a, _ := c.ask(protocol.OpStat, protocol.Path{Base: "/", Name: "etc/passwd"}); a.Failure != nil || a.File.Path != "/etc/passwd" {
			t.Errorf("the base /: %+v", a)
		}
	})
}

func TestStat(t *testing.T) {
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		base := tree(t, c)
		a, _ := c.ask(protocol.OpStat, protocol.Path{Base: base, Name: "dir/../link"})
		uid := uint32(c.kind.uid)
		if c.kind.host {
			uid = uint32(os.Getuid())
		}
		owner := uint32(65534) // the tree was made by the tests' own user
		if c.kind.host || os.Getuid() != 0 {
			owner = uid
		}
		group := owner
		if c.kind.host {
			group = uint32(os.Getgid())
		}
		want := protocol.File{Name: "link", Path: filepath.Join(base, "file"), Type: protocol.Regular, Mode: 0o4641, Size: 7,
			UID: owner, GID: group, ModTime: time.Unix(1e9, 123456789).UTC()}
		if a.File == nil || *a.File != want {
			t.Errorf("got %+v, want %+v", a.File, want)
		}
		for name, want := range map[string]protocol.FileType{"fifo": protocol.Fifo, "dir": protocol.Directory, "link-dir": protocol.Directory} {
			if a, _ := c.ask(protocol.OpStat, protocol.Path{Base: base, Name: name}); a.File == nil || a.File.Type != want || a.File.Link {
				t.Errorf("%s: got %+v", name, a)
			}
		}
		if a, _ := c.ask(protocol.OpStat, protocol.Path{Base: "/dev", Name: "null"}); a.File == nil || a.File.Type != protocol.CharDev {
			t.Errorf("/dev/null: got %+v", a)
		}
		far := filepath.Join(c.dir, "base/dir/far")
		if err := os.WriteFile(far, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		// As far as the file system goes: at least it must not break the answer.
		_ = syscall.UtimesNano(far, []syscall.Timespec{{Sec: 1 << 60}, {Sec: 1 << 60}})
		if a, _ := c.ask(protocol.OpStat, protocol.Path{Base: base, Name: "dir/far"}); a.File == nil {
			t.Errorf("a file from the far future: %+v", a)
		}
	})
}

func TestRead(t *testing.T) {
	forEach(t, []kind{sealed, sealedUser, onHost}, func(t *testing.T, c *cell) {
		base := tree(t, c)
		big := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
		if err := os.WriteFile(filepath.Join(base, "big"), big, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(base, "file"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			name    string
			limit   int64
			content string
			failure protocol.FailureKind
		}{
			{"file", 7, "content", ""},
			{"file", 1 << 60, "content", ""},
			{"link", 100, "content", ""},
			{"empty", 0, "", ""},
			{"dir/bytes-\xff\\x", 3, "\x00\x01\xff", ""},
			{"big", int64(len(big)), string(big), ""},
			{"big", int64(len(big)) - 1, "", protocol.TooLarge},
			{"file", 6, "", protocol.TooLarge},
			{"file", 0, "", protocol.TooLarge},
			{"dir", 100, "", protocol.NotRegular},
			{"fifo", 100, "", protocol.NotRegular},
			{"out", 100, "", protocol.Escapes},
			{"missing", 100, "", protocol.NotExist},
			{"unreadable", 100, "", protocol.Denied},
		} {
			if test.failure == protocol.Denied && c.kind.host && os.Getuid() == 0 {
				continue
			}
			a, content := c.ask(protocol.OpRead, protocol.Path{Base: base, Name: test.name, Limit: test.limit})
			switch {
			case test.failure != "":
				if a.Failure == nil || a.Failure.Kind != test.failure || content != "" {
					t.Errorf("%q up to %d: got %+v, %d bytes, want %s", test.name, test.limit, a.Failure, len(content), test.failure)
				}
			case a.Failure != nil || content != test.content || a.File.Size != int64(len(content)):
				t.Errorf("%q up to %d: got %+v, %d bytes", test.name, test.limit, a, len(content))
			}
		}
		if a, _ := c.ask(protocol.OpRead, protocol.Path{Base: "/dev", Name: "zero", Limit: 10}); a.Failure == nil || a.Failure.Kind != protocol.NotRegular {
			t.Errorf("a device: %+v", a)
		}
		// A file whose size is said to be 0, and which has an end all the same.
		a, content := c.ask(protocol.OpRead, protocol.Path{Base: "/proc/sys/kernel", Name: "ostype", Limit: 100})
		if a.Failure != nil || content != "Linux\n" || a.File.Size != 6 {
			t.Errorf("a file without a size: %+v, %q", a, content)
		}
		if a, _ := c.ask(protocol.OpRead, protocol.Path{Base: "/proc/sys/kernel", Name: "ostype", Limit: 5}); a.Failure == nil || a.Failure.Kind != protocol.TooLarge {
			t.Errorf("a file without a size, above the limit: %+v", a)
		}
	})
}

// A file that grows while it is read is sent up to the limit, then refused;
// one that shrinks ends where it ends.
func TestReadWhileItChanges(t *testing.T) {
	c := open(t, sealed)
	path := filepath.Join(c.dir, "log")
	read := func(size, limit int64, change func(f *os.File)) (protocol.Answer, int64) {
		if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var got int64
		ctx, cancel := context.WithTimeout(t.Context(), askWithin)
		defer cancel()
		a, err := c.Do(ctx, protocol.Request{Op: protocol.OpRead, Path: &protocol.Path{Base: c.dir, Name: "log", Limit: limit}},
			protocol.Sinks{Content: writer(func(p []byte) (int, error) {
				if got == 0 {
					change(f)
				}
				got += int64(len(p))
				return len(p), nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		return a, got
	}
	const size = 8 << 20
	grow := func(f *os.File) { f.Write(make([]byte, 1<<20)) }
	if a, got := read(size, size+1000, grow); a.Failure == nil || a.Failure.Kind != protocol.TooLarge || got > size+1000 {
		t.Errorf("beyond the limit: %+v, %d bytes", a, got)
	}
	if a, got := read(size, 2*size, grow); a.Failure != nil || got != size+1<<20 || a.File.Size != got {
		t.Errorf("below the limit: %+v, %d bytes", a, got)
	}
	if a, got := read(size, size, func(f *os.File) { f.Truncate(0) }); a.Failure != nil || got >= size || a.File.Size != got {
		t.Errorf("shrunk: %+v, %d bytes", a, got)
	}
}

func TestList(t *testing.T) {
	forEach(t, []kind{sealed, sealedUser, onHost}, func(t *testing.T, c *cell) {
		base := tree(t, c)
		a, _ := c.ask(protocol.OpList, protocol.Path{Base: base, Name: ".", Limit: 100})
		if a.Failure != nil || a.File.Path != base || a.File.Type != protocol.Directory {
			t.Fatalf("got %+v", a)
		}
		var names []string
		for _, f := range a.Files {
			names = append(names, f.Name)
			if f.Path != filepath.Join(base, f.Name) || f.Link != (f.Type == protocol.Symlink) {
				t.Errorf("got %+v", f)
			}
		}
		want := []string{"absolute", "closed", "dangling", "dangling-out", "dir", "empty", "fifo", "file", "link", "link-dir", "loop",
			"magic", "null", "out", "out-dir", "sibling", "through", "unreadable"}
		if !slices.Equal(names, want) {
			t.Errorf("got %q", names)
		}
		for name, want := range map[string]protocol.FileType{"link": protocol.Symlink, "out": protocol.Symlink, "file": protocol.Regular, "fifo": protocol.Fifo} {
			if f := a.Files[slices.Index(names, name)]; f.Type != want {
				t.Errorf("%s: got %+v", name, f)
			}
		}
		if a, _ := c.ask(protocol.OpList, protocol.Path{Base: base, Name: "link-dir", Limit: 100}); a.Failure != nil || len(a.Files) != 2 || a.Files[0].Name != "bytes-\xff\\x" {
			t.Errorf("a directory behind a link: %+v", a)
		}
		for name, want := range map[string]protocol.FailureKind{"file": protocol.NotDir, "fifo": protocol.NotDir, "missing": protocol.NotExist, "out-dir": protocol.Escapes, "closed": protocol.Denied} {
			if want == protocol.Denied && c.kind.host && os.Getuid() == 0 {
				continue
			}
			if a, _ := c.ask(protocol.OpList, protocol.Path{Base: base, Name: name, Limit: 100}); a.Failure == nil || a.Failure.Kind != want {
				t.Errorf("%s: got %+v, want %s", name, a, want)
			}
		}
		for limit, ok := range map[int64]bool{18: true, 17: false, 0: false} {
			if a, _ := c.ask(protocol.OpList, protocol.Path{Base: base, Limit: limit}); (a.Failure == nil) != ok || !ok && a.Failure.Kind != protocol.TooLarge {
				t.Errorf("up to %d entries: got %+v", limit, a.Failure)
			}
		}
	})
}

// A directory whose list is larger than any frame, with names that are no
// UTF-8 and as long as they can be.
func TestListManyEntries(t *testing.T) {
	c := open(t, sealed)
	const n = 100_000
	memory, err := os.MkdirTemp("/dev/shm", "supervisor") // a disk would take seconds
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(memory) })
	if err := os.Chmod(memory, 0o777); err != nil {
		t.Fatal(err)
	}
	got := c.run(protocol.Run{Argv: []string{built.attack, "fill", filepath.Join(memory, "many"), fmt.Sprint(n)}, Timeout: 60 * time.Second})
	if got.Code != 0 || got.stdout != "fill: permitted\n" {
		t.Fatalf("fill the directory: %+v", got)
	}
	a, _ := c.ask(protocol.OpList, protocol.Path{Base: memory, Name: "many", Limit: n})
	if a.Failure != nil || len(a.Files) != n {
		t.Fatalf("got %+v, %d entries", a.Failure, len(a.Files))
	}
	for i, f := range a.Files {
		if want := fmt.Sprintf("\xff%06d", i); f.Name != want || f.Path != filepath.Join(memory, "many", want) {
			t.Fatalf("entry %d is %q at %q", i, f.Name, f.Path)
		}
	}
	if a, _ := c.ask(protocol.OpList, protocol.Path{Base: memory, Name: "many", Limit: n - 1}); a.Failure == nil || a.Failure.Kind != protocol.TooLarge {
		t.Errorf("one above the limit: %+v", a.Failure)
	}
	long := strings.Repeat("\xff", 255)
	for i := range 600 {
		if err := os.WriteFile(filepath.Join(c.dir, fmt.Sprintf("%03d%s", i, long[3:])), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if a, _ := c.ask(protocol.OpList, protocol.Path{Base: c.dir, Limit: 1000}); a.Failure != nil || len(a.Files) != 600 || a.Files[599].Name != "599"+long[3:] {
		t.Errorf("long names: %+v, %d entries", a.Failure, len(a.Files))
	}
}
