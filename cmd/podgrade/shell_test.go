package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation"
)

// seat is somebody at a terminal who has started the program there.
type seat struct {
	t     *testing.T
	cmd   *exec.Cmd
	keys  *os.File
	mu    sync.Mutex
	shown bytes.Buffer
}

// sitDown starts the program at a terminal that it controls.
func sitDown(t *testing.T, dir string, args ...string) (s *seat, theirs *os.File) {
	t.Helper()
	ours, theirs := terminal(t)
	t.Cleanup(func() { theirs.Close() })
	s = &seat{t: t, cmd: exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), args...), keys: ours}
	s.cmd.Dir, s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = dir, theirs, theirs, theirs
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := ours.Read(buffer)
			s.mu.Lock()
			s.shown.Write(buffer[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s, theirs
}

func (s *seat) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// types types a line, and waits until the terminal shows what it must. The size
// is asked again: when the shell learns of a new one is for the kernel to say.
func (s *seat) types(line, shows string) {
	s.t.Helper()
	from := len(s.text())
	for try := range 1200 {
		if try == 0 || try%20 == 0 && strings.Contains(line, "stty size") {
			s.keys.WriteString(line)
		}
		if strings.Contains(s.text()[from:], shows) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.cmd.Process.Kill()
	s.t.Fatalf("%q never shows %q:\n%s", line, shows, s.text())
}

// TestShellAtATerminal: in every place that a row can be graded in, a shell at a
// terminal knows its size, is told of another one, lives through an interrupt, and
// leaves the operator's terminal as it was.
func TestShellAtATerminal(t *testing.T) {
	s := executed(t, "cat >made", passing)
	before := s.modes(row)
	for name, options := range map[string][]string{
		isolation.EngineBundle: {"--engine", "bundle"},
		isolation.EnginePodman: {"--engine", "podman"},
		isolation.EngineHost:   {"--allow-host-grading"},
	} {
		t.Run(name, func(t *testing.T) {
			at, theirs := sitDown(t, s.dir, append([]string{"shell", row, trusting}, options...)...)
			mode := modeOf(t, theirs)
			at.types("", "a shell where default/t/00 would be graded")
			at.types("echo size: $(stty size); cat made\n", "size: 30 100")
			if err := unix.IoctlSetWinsize(int(at.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 41, Col: 123}); err != nil {
				t.Fatal(err)
			}
			at.types("echo size: $(stty size)\n", "size: 41 123")
			at.types("echo begun=$((40+2)); sleep 1000\n", "begun=42")
			time.Sleep(500 * time.Millisecond) // a shell that is about to start a program may lose an interrupt
			at.types("\x03", "^C")
			at.types("echo after=$((40+3)); echo changed >>made\n", "after=43")
			at.keys.WriteString("exit 3\n")
			if code := exitCode(at.cmd.Wait()); code != 1 {
				t.Errorf("exit code %d:\n%s", code, at.text())
			}
			if after := modeOf(t, theirs); after != mode {
				t.Errorf("the terminal was %+v and is %+v", mode, after)
			}
			if after := s.modes(row); after != before {
				t.Errorf("the row was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

func modeOf(t *testing.T, terminal *os.File) unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *mode
}
