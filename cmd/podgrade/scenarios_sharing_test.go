package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/tasks/record"
)

// TestRowsShareTheirLayers: rows that leave the same at the same times share a
// layer, rows that leave nothing keep none, and nothing of the image is copied.
func TestRowsShareTheirLayers(t *testing.T) {
	t.Parallel()
	const rows = 3
	for name, c := range map[string]struct {
		agent  string
		layers int
	}{
		"an unchanged cell":  {"touch made; touch /tmp/x; rm /tmp/x", 0},
		"the same bytes":     {"mkdir -p /opt/x && head -c 1000000 /dev/zero | tr '\\\\0' x >/opt/x/f && touch -d @1000000000 /opt/x/f /opt/x /opt", 1},
		"bytes of their own": {"mkdir -p /opt/x && head -c 30000 /dev/urandom >/opt/x/f", rows},
	} {
		t.Run(name, func(t *testing.T) {
			s, scratch := newScene(t), t.TempDir()
			s.write("task.yaml", sceneTask(t, c.agent, "success_criteria:\n  - {type: file_exists, path: ., description: there is a workspace}\n"))
			t.Cleanup(func() { s.removesStates(scratch) })
			s.podgrade(0, "run", "task.yaml", "--run-dir", "r", "--repeats", fmt.Sprint(rows), "--scratch", scratch)
			states := s.states(scratch)
			var bytes int64
			for _, state := range states {
				bytes += state.Bytes
			}
			kib := diskOf(t, scratch)
			t.Logf("%d rows: %d layers of %d bytes, %d KiB of disk", rows, len(states), bytes, kib)
			if most := bytes/1024 + 64*int64(len(states)+1); len(states) != c.layers || kib > most {
				t.Errorf("%d layers, want %d; %d KiB, at most %d", len(states), c.layers, kib, most)
			}
		})
	}
}

// diskOf is the room that a directory takes on its disk, in KiB.
func diskOf(t *testing.T, dir string) (kib int64) {
	t.Helper()
	disk, err := exec.Command("du", "-sk", dir).Output()
	if err == nil {
		_, err = fmt.Sscan(string(disk), &kib)
	}
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

// A row that installs a program at its own time, and looks whether the grade
// sees the same, to the nanosecond and the last byte.
const (
	installing = "mkdir -p /opt/tool/bin && cp /bin/busybox /opt/tool/bin/program && ln /opt/tool/bin/program /opt/tool/busybox && chmod 4711 /opt/tool/busybox && (" + looking + ") >seen"
	looking    = "cd /opt/tool && stat -c '%n %y %a %u:%g' . bin; stat -c '%n %y %a %u:%g %h %s' bin/program busybox; sha256sum bin/program busybox"
	sameSight  = `success_criteria:
  - {type: run_command, command: "(` + looking + `) | diff seen - && grep -c program seen", expected_stdout: "2", description: what was installed}
  - {type: run_command, command: "/opt/tool/busybox echo works", expected_stdout: works, description: it works}
`
)

// TestRowsShareBytes: rows of one task that leave the same bytes at their own
// times take the room of one, with layers of their own; each is graded on its
// own times, also when the row that came first is gone.
func TestRowsShareBytes(t *testing.T) {
	t.Parallel()
	repeats := 3
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		repeats = 99
	}
	rows := repeats + 1 // the last one of another run
	s, scratch := newScene(t), t.TempDir()
	s.write("tasks/t.yaml", sceneTask(t, installing, strings.ReplaceAll(sameSight, "seen -", "seen - >&2")))
	t.Cleanup(func() { s.removesStates(scratch) })
	s.podgrade(0, "run", "tasks/t.yaml", "--run-dir", "r", "--repeats", fmt.Sprint(repeats), "--scratch", scratch)
	s.podgrade(0, "run", "tasks/t.yaml", "--run-dir", "another", "--scratch", scratch)
	states := s.states(scratch)
	var bytes, shared int64
	for _, state := range states {
		bytes, shared = bytes+state.Bytes, shared+state.SharedBytes
	}
	layers := len(states) // two rows at once may do the same in the same tick of the clock
	if layers < rows*3/4 {
		t.Fatalf("%d layers of %d rows: they were to have times of their own", layers, rows)
	}
	one := bytes / int64(layers)
	kib := diskOf(t, scratch)
	const noted = 48 // KiB a layer, of directories, lists and notes
	t.Logf("%d rows: %d layers of %d bytes, %d of them shared, take %d KiB of disk; one layer has %d KiB", rows, layers, bytes, shared, kib, one/1024)
	if most := one/1024 + noted*int64(rows); kib > most || shared != one*int64(layers-1) {
		t.Errorf("%d KiB, at most %d; %d bytes are shared of %d", kib, most, shared, bytes)
	}
	if out, _ := s.podgrade(0, "state", "ls", "--scratch", scratch); strings.Count(out, fmt.Sprintf("%d bytes (%d of them shared)", one, one)) != layers-1 || !strings.Contains(out, fmt.Sprintf("together %d bytes\n", one)) {
		t.Errorf("state ls says\n%s", out)
	}

	first := states[slices.IndexFunc(states, func(s isolation.State) bool { return s.SharedBytes == 0 })]
	s.podgrade(0, "state", "rm", "--yes", "--scratch", scratch, first.DiffID)
	if out, _ := s.podgrade(0, "state", "ls", "--scratch", scratch); !strings.Contains(out, fmt.Sprintf("together %d bytes, %d of them of removed layers\n", one, one)) {
		t.Errorf("state ls says\n%s", out)
	}
	if now := diskOf(t, scratch); now > kib {
		t.Errorf("with a layer less there are %d KiB, and were %d", now, kib)
	}
	graded := map[string]bool{}
	for i := range repeats {
		row := fmt.Sprintf("r/default/t/%02d", i)
		if r := s.is(row, "SUCCESS", 1); len(r.stamps()) > 0 || r.Info[record.StateDiffID] == first.DiffID {
			if len(r.stamps()) > 0 {
				t.Errorf("%s: stamps %v", row, r.stamps())
			}
			_, said := s.podgrade(2, "evaluate", row, trusting, "--scratch", scratch)
			if !strings.Contains(said, first.DiffID) {
				t.Errorf("the first row is graded without its layer: %s", said)
			}
			continue
		}
		engine := []string{isolation.EngineBundle, isolation.EnginePodman}[len(graded)%2]
		if len(graded) == 4 {
			break
		}
		s.podgrade(0, "evaluate", row, trusting, "--engine", engine, "--scratch", scratch)
		if r := s.is(row, "SUCCESS", 1); len(r.stamps()) > 0 {
			t.Errorf("%s by %s: stamps %v", row, engine, r.stamps())
		}
		graded[row] = true
		if len(graded) == 1 { // it is whole in its archive
			s.podgrade(0, "export", row, "-o", "row.tar", "--allow-recorded-paths", "--scratch", scratch)
			elsewhere := t.TempDir()
			s.podgrade(0, "import", "row.tar", "-o", "imported", "--scratch", elsewhere)
			s.podgrade(0, "evaluate", "imported", trusting, "--scratch", elsewhere)
			s.removesStates(elsewhere)
		}
	}
	s.removesStates(scratch)
	if kib := diskOf(t, scratch); kib > noted {
		t.Errorf("without layers there are %d KiB", kib)
	}
}
