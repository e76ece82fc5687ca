package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks/record"
)

// events reads what --json printed: lines of JSON, and nothing else.
func events(t *testing.T, stdout string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(stdout) {
		var e eventLine
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if (e.Event == regrade.RowGraded) != (e.Score != nil) && e.Event != regrade.RowKept {
			t.Errorf("%s", line)
		}
		counts[string(e.Event)]++
	}
	return counts
}

// TestOneEventForEachGrade: row_graded comes exactly once for a grade, on every
// entry.
func TestOneEventForEachGrade(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.write("task.yaml", sceneTask(t, "cat >made", passing))
	step := func(code int, want map[string]int, args ...string) {
		t.Helper()
		stdout, _ := s.podgrade(code, append(args, "--json")...)
		if got := events(t, stdout); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", args[0], got, want)
		}
	}
	step(0, map[string]int{"row_started": 2, "row_executed": 2, "row_grading": 2, "row_graded": 2}, "run", "task.yaml", "--run-dir", "a", "--repeats", "2")
	step(0, map[string]int{"row_kept": 2}, "run", "task.yaml", "--run-dir", "a", "--repeats", "2", "--resume")
	step(0, map[string]int{"row_started": 1, "row_executed": 1}, "execute", "task.yaml", "--run-dir", "b")
	step(0, map[string]int{"row_grading": 1, "row_graded": 1}, "run", "task.yaml", "--run-dir", "b", "--resume")
	step(0, map[string]int{"row_graded": 1}, "evaluate", "b/"+sceneRow, trusting)
	step(0, map[string]int{"row_graded": 1}, "evaluate", "task.yaml", "b/"+sceneRow)
	step(0, map[string]int{"row_graded": 2}, "evaluate", "a/default/t/00", "a/default/t/01", trusting)
	if err := os.RemoveAll(filepath.Join(s.dir, "b", sceneRow, record.ArtifactsDir)); err != nil {
		t.Fatal(err)
	}
	step(2, map[string]int{"row_failed": 1}, "evaluate", "b/"+sceneRow, trusting)
}

// TestInterruptedRunsAreResumed: the signals of a keyboard and of a batch
// system end a run with 130, and every row can be resumed.
func TestInterruptedRunsAreResumed(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run("D-76: cells end with a run that is interrupted, "+signal.String(), func(t *testing.T) {
			s := newScene(t)
			s.write("task.yaml", sceneTask(t, "sleep 1; cat >made", passing))
			cmd := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), "run", "task.yaml", "--run-dir", "r", "--repeats", "6", "-j", "2", "--json")
			cmd.Dir = s.dir
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				if strings.Contains(lines.Text(), `"row_graded"`) {
					cmd.Process.Signal(signal)
					break
				}
			}
			io.Copy(io.Discard, out)
			if code := exitCode(cmd.Wait()); code != 130 {
				t.Errorf("exit code %d", code)
			}
			kept := 0
			for n := range 6 {
				row := filepath.Join(s.dir, "r/default/t", fmt.Sprintf("%02d", n), record.TaskFile)
				if text, err := os.ReadFile(row); err == nil {
					kept++
					if !strings.Contains(string(text), `"SUCCESS"`) && !strings.Contains(string(text), `"NOT_GRADED"`) {
						t.Errorf("row %d: %s", n, text)
					}
				}
			}
			if kept == 0 || kept == 6 {
				t.Errorf("%d rows have a record", kept)
			}
			s.podgrade(0, "run", "task.yaml", "--run-dir", "r", "--repeats", "6", "--resume")
		})
	}
}

// terminal makes a terminal of 100 columns.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100})
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// TestBarOnATerminal: a terminal sees how many rows run and wait, and what is
// done.
func TestBarOnATerminal(t *testing.T) {
	ours, theirs := terminal(t)
	var shown bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := ours.Read(buffer)
			shown.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	score := 1.0
	bar := newBars(theirs, 3)
	row := func(n int) regrade.Event {
		return regrade.Event{Row: record.Identity{VariantID: "default", TaskID: "t", Replicate: n}, Dir: fmt.Sprint(n)}
	}
	started, graded := row(0), row(0)
	started.Kind = regrade.RowStarted
	graded.Kind, graded.Last, graded.Status, graded.Score, graded.Verdict = regrade.RowGraded, true, record.Success, &score, &regrade.Verdict{}
	bar.Observe(started)
	fmt.Fprintf(bar, "warning: something\n")
	time.Sleep(400 * time.Millisecond) // it is drawn some times a second
	bar.Observe(graded)
	failed := row(1)
	failed.Kind, failed.Last, failed.Err = regrade.RowFailed, true, errors.New("lost \x1b[2J")
	bar.Observe(failed)
	time.Sleep(400 * time.Millisecond)
	bar.End()
	theirs.Close()
	ours.Close()
	<-read
	for _, want := range []string{"1 running, 2 queued", "2/3", "0 running, 1 queued, 1 succeeded", "default/t/00: + SUCCESS, score 1.000", "warning: something", `default/t/01: lost \x1b[2J`} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%q was not shown:\n%q", want, shown.String())
		}
	}
}

// TestOnceWriter: a page that comes again is written once.
func TestOnceWriter(t *testing.T) {
	var out bytes.Buffer
	once := &onceWriter{to: &out}
	for _, text := range []string{"a\n", "b\n", "a\n"} {
		if n, err := io.WriteString(once, text); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if out.String() != "a\nb\n" {
		t.Errorf("%q", out.String())
	}
}

// TestEventsAreSafeToPrint: no kind of event lets a byte of a task through to a
// terminal.
func TestEventsAreSafeToPrint(t *testing.T) {
	score := 0.5
	for _, kind := range []regrade.EventKind{regrade.RowStarted, regrade.RowExecuted, regrade.RowGrading, regrade.RowGraded, regrade.RowKept, regrade.RowFailed} {
		e := regrade.Event{Kind: kind, Row: record.Identity{VariantID: "v\x1b[2J", TaskID: "t\n"}, Dir: "d\x07", Status: record.Failure,
			Score: &score, Verdict: &regrade.Verdict{}, Message: "m\x1b[2J\n", Err: errors.New("e\x1b[2J")}
		text := eventText(e)
		if text == "" || slices.ContainsFunc([]byte(text), func(c byte) bool { return c < 0x20 || c == 0x7f }) || text != policy.Neutral(text) {
			t.Errorf("%s: %q", kind, text)
		}
		var out bytes.Buffer
		lines := &eventLines{out: &out, notices: io.Discard}
		lines.Observe(e)
		if strings.ContainsAny(strings.TrimSuffix(out.String(), "\n"), "\x1b\n\x07") || !json.Valid(out.Bytes()) {
			t.Errorf("%s: %q", kind, out.String())
		}
	}
}
