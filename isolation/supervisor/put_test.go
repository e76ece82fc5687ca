package supervisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation/protocol"
)

// feed asks a question with input; nil: none.
func (c *cell) feed(q protocol.Request, input io.Reader) (protocol.Answer, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), askWithin)
	defer cancel()
	return c.Feed(ctx, q, input, protocol.Sinks{})
}

// put puts something below base and returns what became of it.
func (c *cell) put(base, name string, what protocol.Put, content string) protocol.FailureKind {
	c.t.Helper()
	var input io.Reader
	if what.Type == protocol.Regular {
		input = strings.NewReader(content)
	}
	a, err := c.feed(protocol.Request{Op: protocol.OpPut, Path: &protocol.Path{Base: base, Name: name}, Put: &what}, input)
	if err != nil {
		c.t.Fatalf("put %q: %v\nstderr: %s", name, err, c.stderr)
	}
	return failureOf(a)
}

// remove removes something below base and returns what became of it.
func (c *cell) remove(base, name string) protocol.FailureKind {
	c.t.Helper()
	a, _ := c.ask(protocol.OpRemove, protocol.Path{Base: base, Name: name})
	return failureOf(a)
}

func failureOf(a protocol.Answer) protocol.FailureKind {
	if a.Failure == nil {
		return ""
	}
	return a.Failure.Kind
}

// ground makes a directory that the cell's user owns, as commands make one,
// with a secret outside of it.
func (c *cell) ground() (base string) {
	c.t.Helper()
	if got := c.sh("umask 0; mkdir base outside && echo secret > outside/file && chmod 644 outside/file", 0); got.Code != 0 {
		c.t.Fatalf("%+v", got)
	}
	return filepath.Join(c.dir, "base")
}

func TestPut(t *testing.T) {
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		base := c.ground()
		c.sh("ln -s dir base/link; ln -s ../outside base/out; ln -s "+base+"/dir base/absolute; ln -s nothing base/dangling; ln -s ../outside/file base/out-file", 0)
		file := func(mode uint32) protocol.Put { return protocol.Put{Type: protocol.Regular, Mode: mode} }
		dir := func(mode uint32) protocol.Put { return protocol.Put{Type: protocol.Directory, Mode: mode} }
		long := strings.Repeat("0123456789abcdef", 20_000)
		for _, test := range []struct {
			name    string
			what    protocol.Put
			content string
			want    protocol.FailureKind
		}{
			{"file", file(0o640), "content", ""},
			{"empty", file(0o444), "", ""},
			{"made/on/the/way", file(0o4755), "x", ""},
			{"dir", dir(0o3711), "", ""},
			{"dir", dir(0o750), "", ""},
			{"link/through", file(0o600), "inside", ""},
			{"file", file(0o600), long, ""},
			{"symlink", protocol.Put{Type: protocol.Symlink, Target: "/no/where\xff"}, "", ""},
			{"symlink", protocol.Put{Type: protocol.Symlink, Target: "file"}, "", ""},
			{"out-file", file(0o644), "new", ""}, // the link itself is replaced
			{"bytes-\xff\\x", file(0o644), "b", ""},
			{".", dir(0o755), "", ""},
			{filepath.Join(base, "by-its-path"), file(0o644), "p", ""},
			{"a/../clean", file(0o644), "c", ""},
			{"dir", file(0o644), "x", protocol.NotDir},
			{"dir", protocol.Put{Type: protocol.Symlink, Target: "x"}, "", protocol.NotDir},
			{"file", dir(0o755), "", protocol.NotDir},
			{"symlink", dir(0o755), "", protocol.NotDir},
			{".", file(0o644), "x", protocol.NotDir},
			{"file/below", file(0o644), "x", protocol.NotExist},
			{"dangling/below", file(0o644), "x", protocol.NotExist},
			{"out/file", file(0o644), "x", protocol.Escapes},
			{"out/new/file", file(0o644), "x", protocol.Escapes},
			{"absolute/file", file(0o644), "x", protocol.Escapes},
			{"../outside/file", file(0o644), "x", protocol.Escapes},
			{"/etc/passwd", file(0o644), "x", protocol.Escapes},
			{"nul\x00", file(0o644), "x", protocol.NotExist},
			{strings.Repeat("x", 300), file(0o644), "x", protocol.NotExist},
		} {
			if got := c.put(base, test.name, test.what, test.content); got != test.want {
				t.Errorf("%q (%s): got %q, want %q", test.name, test.what.Type, got, test.want)
			}
		}
		if got := c.put(base+"/missing", "x", file(0o644), "x"); got != protocol.NotExist {
			t.Errorf("a base that is not there: %q", got)
		}
		uid := c.sh("id -u", 0).stdout
		want := strings.ReplaceAll(`out-file 644 UID 3 new
file 600 UID 320000
empty 444 UID 0
made 755 UID
made/on/the 755 UID
made/on/the/way 4755 UID 1 x
dir 750 UID
dir/through 600 UID 6 inside
by-its-path 644 UID 1 p
clean 644 UID 1 c
link file
outside secret
left 0
`, "UID", strings.TrimSpace(uid))
		got := c.sh(`cd base; show() { for f; do if [ -d $f ]; then stat -c '%n %a %u' $f; elif [ $(stat -c %s $f) -gt 9 ]; then stat -c '%n %a %u %s' $f; else echo $(stat -c '%n %a %u %s' $f) $(cat $f); fi; done; }
			show out-file file empty made made/on/the made/on/the/way dir dir/through by-its-path clean
			echo link $(readlink symlink); echo outside $(cat ../outside/file); echo left $(find . -name '.podgrade*' | wc -l)`, 0)
		if got.stdout != want {
			t.Errorf("made was\n%s%swant\n%s", got.stdout, got.stderr, want)
		}
		if got := c.sh("rm base/file; cat base/bytes-*", 0); got.stdout != "b" {
			t.Errorf("a name of any bytes: %+v", got)
		}
	})
}

func TestPutTimes(t *testing.T) {
	c := open(t, sealed)
	base := c.ground()
	when := time.Unix(1e9, 123456789).UTC()
	for name, what := range map[string]protocol.Put{
		"file": {Type: protocol.Regular, Mode: 0o644}, "dir": {Type: protocol.Directory, Mode: 0o755}, "link": {Type: protocol.Symlink, Target: "../outside/file"},
	} {
		what.ModTime = when
		if got := c.put(base, name, what, "x"); got != "" {
			t.Errorf("%s: %s", name, got)
		}
		info, err := os.Lstat(filepath.Join(base, name))
		if err != nil || !info.ModTime().Equal(when) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if info, err := os.Stat(filepath.Join(c.dir, "outside/file")); err != nil || info.ModTime().Equal(when) {
		t.Errorf("the target of a link: %v, %v", info, err)
	}
}

// brokenReader breaks after some bytes.
type brokenReader struct{ left int }

func (r *brokenReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, errors.New("the source broke")
	}
	n := min(len(p), r.left)
	r.left -= n
	return n, nil
}

// A content that breaks off, a file in the way, and a caller that went away
// leave what was there, and nothing beside it.
func TestPutThatComesToNothing(t *testing.T) {
	c := open(t, sealed)
	base := c.ground()
	if got := c.put(base, "file", protocol.Put{Type: protocol.Regular, Mode: 0o644}, "old"); got != "" {
		t.Fatal(got)
	}
	q := protocol.Request{Op: protocol.OpPut, Path: &protocol.Path{Base: base, Name: "file"}, Put: &protocol.Put{Type: protocol.Regular, Mode: 0o644}}
	if _, err := c.feed(q, &brokenReader{left: 1 << 20}); !errors.Is(err, protocol.ErrSource) || errors.Is(err, protocol.ErrClosed) {
		t.Errorf("a source that breaks: %v", err)
	}
	// The answer comes before the content ends: what is left of it is not read.
	q.Path.Name = "../x"
	endless := &brokenReader{left: 1 << 40}
	if a, err := c.feed(q, endless); err != nil || failureOf(a) != protocol.Escapes {
		t.Errorf("an endless content: %+v, %v", a, err)
	}
	q.Path.Name = "file"
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Feed(ctx, q, &brokenReader{left: 1 << 40}, protocol.Sinks{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller that went away: %v", err)
	}
	waitFor(t, func() bool { return c.sh("ls -A base; cat base/file", 0).stdout == "file\nold" })
	c.alive()
}

// A full disk is told apart from everything that the row could be blamed for.
func TestPutOnAFullDisk(t *testing.T) {
	k := kind{name: "small", dev: "small"}
	c := open(t, k)
	base := "/dev/full-disk"
	if got := c.run(protocol.Run{Argv: []string{"mkdir", base}}); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := c.put(base, "file", protocol.Put{Type: protocol.Regular, Mode: 0o644}, strings.Repeat("x", 4<<20)); got != protocol.NoSpace {
		t.Errorf("got %q", got)
	}
	if got := c.run(protocol.Run{Argv: []string{"ls", "-A", base}}); got.stdout != "" {
		t.Errorf("left: %q", got.stdout)
	}
	c.alive()
}

// Links that change while things are put lead nothing out of the base.
func TestPutWhileLinksAreSwapped(t *testing.T) {
	c := open(t, sealed)
	base := c.ground()
	c.sh("mkdir base/real base/real/sub outside/sub", 0)
	done := make(chan result, 1)
	go func() {
		got, _ := c.try(protocol.Run{Argv: []string{built.attack, "swap", base, "real", "../outside", "3"}, Timeout: 20 * time.Second})
		done <- got
	}()
	tried, put := 0, 0
	for running := true; running; tried++ {
		switch got := c.put(base, "swapped/sub/file", protocol.Put{Type: protocol.Regular, Mode: 0o644}, "ours"); got {
		case "":
			put++
		case protocol.Escapes, protocol.NotExist, protocol.Broken, protocol.NotDir:
		default:
			t.Errorf("got %q", got)
		}
		c.remove(base, "swapped/sub/file")
		select {
		case got := <-done:
			running = false
			if !strings.Contains(got.stdout, "swap: permitted") {
				t.Errorf("it did not swap: %+v", got)
			}
		default:
		}
	}
	if put == 0 || put == tried {
		t.Errorf("%d of %d were put: there was no race", put, tried)
	}
	if got := c.sh("find outside | sort", 0); got.stdout != "outside\noutside/file\noutside/sub\n" {
		t.Errorf("outside is now\n%s", got.stdout)
	}
}

func TestRemove(t *testing.T) {
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		base := c.ground()
		got := c.sh(`cd base; mkdir -p tree/a/b tree/closed/in keep; ln -s ../../outside tree/out; ln -s ../outside/file tree/out-file; ln -s .. tree/a/up
			mkfifo tree/fifo; echo x > tree/a/b/x; echo x > tree/closed/in/x; chmod 0 tree/closed/in tree/closed tree/a/b; ln -s ../outside out; ln -s tree link; echo y > keep/y
			deep=tree/$(printf 'd/%.0s' $(seq 300)); mkdir -p $deep; for i in 1 2 3; do mkdir $deep/$i; echo x > $deep/$i/f; done`, 20*time.Second)
		if got.Code != 0 {
			t.Fatalf("%+v", got)
		}
		for _, test := range []struct {
			name string
			want protocol.FailureKind
		}{
			{"missing", ""}, {"missing/below", ""}, {"out/file", protocol.Escapes}, {"../outside", protocol.Escapes}, {"/etc", protocol.Escapes},
			{"link/fifo", ""}, {"out", ""}, {"link", ""}, {"tree", ""}, {"tree", ""},
		} {
			if got := c.remove(base, test.name); got != test.want {
				t.Errorf("%q: got %q, want %q", test.name, got, test.want)
			}
		}
		if got := c.sh("find base outside | sort", 0); got.stdout != "base\nbase/keep\nbase/keep/y\noutside\noutside/file\n" {
			t.Errorf("left is\n%s", got.stdout)
		}
		if got := c.remove(base, "."); got != "" {
			t.Errorf("what the base holds: %q", got)
		}
		if got := c.sh("find base outside | sort", 0); got.stdout != "base\noutside\noutside/file\n" {
			t.Errorf("left is\n%s", got.stdout)
		}
	})
}

// What may not be removed is said to be denied; what somebody fills again and
// again comes to an end.
func TestRemoveThatCannotBe(t *testing.T) {
	c := open(t, sealed)
	if got := c.remove("/etc", "passwd"); got != protocol.Denied {
		t.Errorf("a file of somebody else: %q", got)
	}
	base := c.ground()
	c.sh("mkdir base/full; (while :; do touch base/full/$$; done) >/dev/null 2>&1 &", 0)
	if got := c.remove(base, "full"); got != "" && got != protocol.NotDir {
		t.Errorf("a directory that is filled again: %q", got)
	}
	c.alive()
}

func TestStdin(t *testing.T) {
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		run := func(stdin io.Reader, timeout time.Duration, argv ...string) (result, protocol.FailureKind) {
			ctx, cancel := context.WithTimeout(t.Context(), askWithin)
			defer cancel()
			var out bytes.Buffer
			a, err := c.Feed(ctx, protocol.Request{Op: protocol.OpRun, Run: &protocol.Run{
				Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Timeout: timeout, Landlock: true,
			}}, stdin, protocol.Sinks{Stdout: &out, Stderr: &out})
			if err != nil {
				t.Fatalf("%q: %v\nstderr: %s", argv, err, c.stderr)
			}
			if a.Exit == nil {
				return result{}, failureOf(a)
			}
			return result{Exit: *a.Exit, stdout: out.String()}, ""
		}
		all := bytes.Repeat([]byte("all bytes \x00\xff\n"), protocol.MaxStdin/13)
		if got, _ := run(bytes.NewReader(all), 20*time.Second, "cat"); got.stdout != string(all) || got.Code != 0 {
			t.Errorf("%d bytes: %d came back, %+v", len(all), len(got.stdout), got.Exit)
		}
		if got, _ := run(strings.NewReader(""), 20*time.Second, "sh", "-c", "cat; readlink /proc/self/fd/0 | cut -c1-5"); got.stdout != "pipe:\n" {
			t.Errorf("empty: %+v", got)
		}
		if got, _ := run(nil, 20*time.Second, "sh", "-c", "cat; readlink /proc/self/fd/0"); got.stdout != "/dev/null\n" {
			t.Errorf("none: %+v", got)
		}
		// One that does not read it, one that leaves it to another, one that
		// waits for it and is ended.
		if got, _ := run(bytes.NewReader(all), 20*time.Second, "sh", "-c", "exec <&-; echo done"); got.stdout != "done\n" || got.Duration > 10*time.Second {
			t.Errorf("not read: %+v", got)
		}
		if got, _ := run(bytes.NewReader(all), 20*time.Second, "sh", "-c", "(sleep 30; cat) >/dev/null 2>&1 & echo done"); got.stdout != "done\n" || got.Duration > 10*time.Second {
			t.Errorf("left to another: %+v", got)
		}
		if got, _ := run(bytes.NewReader(all), 300*time.Millisecond, "sleep", "30"); !got.TimedOut || got.Stuck {
			t.Errorf("not read until the time-out: %+v", got)
		}
		if _, failure := run(bytes.NewReader(make([]byte, protocol.MaxStdin+1)), 0, "cat"); failure != protocol.Broken {
			t.Errorf("too much: %q", failure)
		}
		if _, failure := run(strings.NewReader("x"), 0, "/no/such/program"); failure != protocol.NoProgram {
			t.Errorf("no program: %q", failure)
		}
		c.alive()
	})
}

// killAll ends everything and returns what was alive.
func (c *cell) killAll() *protocol.KillCount {
	c.t.Helper()
	a, err := c.feed(protocol.Request{Op: protocol.OpKillAll}, nil)
	if err != nil || a.Kill == nil {
		c.t.Fatalf("end all: %+v, %v\nstderr: %s", a, err, c.stderr)
	}
	return a.Kill
}

func TestKillAllSaysWhatWasAlive(t *testing.T) {
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		if got := c.killAll(); got.Stuck || len(got.Ended) != 0 {
			t.Errorf("nothing was alive: %+v", got)
		}
		m := mark()
		got := c.run(protocol.Run{Argv: []string{built.attack, "listen", m, "60"}, Timeout: 20 * time.Second})
		if got.Code != 0 {
			t.Fatalf("%+v", got)
		}
		kill := c.killAll()
		gone(t, m)
		var tcp, udp uint16
		if _, err := fmt.Sscanf(got.stdout, "listen: tcp %d udp %d", &tcp, &udp); err != nil {
			t.Fatalf("%v: %q", err, got.stdout)
		}
		if kill.Stuck || len(kill.Ended) != 1 {
			t.Fatalf("got %+v", kill)
		}
		p := kill.Ended[0]
		if p.PID <= 1 || p.Name != "exe" || !strings.HasSuffix(p.Command, " listen "+m+" 60 child") {
			t.Errorf("got %+v", p)
		}
		want := []protocol.Port{{Protocol: "tcp", Port: tcp}, {Protocol: "udp", Port: udp}}
		if tcp > udp {
			want[0], want[1] = want[1], want[0]
		}
		if fmt.Sprint(p.Ports) != fmt.Sprint(want) {
			t.Errorf("its ports: %v, want %v", p.Ports, want)
		}
		if got := c.killAll(); got.Stuck || len(got.Ended) != 0 {
			t.Errorf("afterwards: %+v", got)
		}
		c.alive()
	})
}

// A process that cannot be looked into is told by its number, its port by
// nobody's; a port on its way through a socket likewise.
func TestKillAllSeesWhatHides(t *testing.T) {
	forEach(t, everyCell, func(t *testing.T, c *cell) {
		for _, how := range []string{"hide", "pass"} {
			m := mark()
			got := c.run(protocol.Run{Argv: []string{built.attack, "listen", m, "60", how}, Timeout: 20 * time.Second})
			var tcp, udp uint16
			if _, err := fmt.Sscanf(got.stdout, "listen: tcp %d udp %d", &tcp, &udp); err != nil {
				t.Fatalf("%v: %+v", err, got)
			}
			kill := c.killAll()
			gone(t, m)
			if kill.Stuck || len(kill.Ended) != 2 || kill.Ended[0].PID <= 1 {
				t.Fatalf("%s: got %+v", how, kill)
			}
			if hidden := kill.Ended[0].Name == ""; hidden != (how == "hide") || len(kill.Ended[0].Ports) != 0 {
				t.Errorf("%s: got %+v", how, kill.Ended[0])
			}
			if last := kill.Ended[1]; last.PID != 0 || last.Name != "" || len(last.Ports) != 2 {
				t.Errorf("%s: nobody's ports: %+v", how, last)
			}
		}
		c.alive()
	})
}

// ownTasks counts the threads of this user on the host, the other tests' too: a
// limit of processes counts them wherever it is not in a user namespace of its own.
func ownTasks(t *testing.T) (n int) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		var info syscall.Stat_t
		if syscall.Stat(task, &info) == nil && int(info.Uid) == os.Getuid() {
			n++
		}
	}
	return n
}

// A fork bomb is ended, and its list does not grow beyond its bounds. There is one bomb
// at a time: several take all that the machine has to end them with.
func TestKillAllDuringAForkBomb(t *testing.T) {
	var one sync.Mutex
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		one.Lock()
		defer one.Unlock()
		const limitNproc = 6
		most := uint64(ownTasks(t) + 100)
		bomb := make(chan result, 1)
		go func() {
			got, _ := c.try(protocol.Run{Argv: []string{built.attack, "bomb", "60"}, Limits: []protocol.Limit{{Resource: limitNproc, Value: most}}, Timeout: time.Minute})
			bomb <- got
		}()
		// On a busy host the command may start only after all was ended.
		for ended := false; !ended; {
			time.Sleep(300 * time.Millisecond)
			kill := c.killAll()
			if kill.Stuck || len(kill.Ended) > protocol.MaxProcesses+1 {
				t.Errorf("stuck %v, %d processes", kill.Stuck, len(kill.Ended))
			}
			select {
			case got := <-bomb:
				ended = true
				// The runtime of Go ends with 2 where it may start no thread.
				if got.Signal != int(syscall.SIGKILL) && got.Code != 2 || got.TimedOut {
					t.Errorf("the command ended as %+v", got.Exit)
				}
			case <-time.After(time.Second):
			}
		}
		c.alive()
	})
}
