package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

func TestLives(t *testing.T) {
	own, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if own.PID != os.Getpid() || !own.Lives(own.Boot) {
		t.Errorf("%+v does not live, and it is this process", own)
	}
	for name, other := range map[string]Identity{
		"another start time": {own.PID, own.Start + "1", own.Boot},
		"another boot":       {own.PID, own.Start, "other"},
		"no such process":    {1 << 30, own.Start, own.Boot},
	} {
		if other.Lives(own.Boot) {
			t.Errorf("%s: %+v lives", name, other)
		}
	}
}

// TestANameWithParentheses: the name of a process stands before its start time.
func TestANameWithParentheses(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(t.TempDir(), ") R 1 2")
	if err := os.Symlink(sleep, odd); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(odd, "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	own, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	start, err := startTime(strconv.Itoa(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	child := Identity{PID: cmd.Process.Pid, Start: start, Boot: own.Boot}
	if !child.Lives(own.Boot) || len(start) < len(own.Start) {
		t.Errorf("%+v, this process %+v", child, own)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "1:2:3", "0:1:b", "-1:1:b", "+1:1:b", "1::b", "1:2:", "1:2:3:4", "99999999999999999999:1:b", "1:x:b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(id.String()); err != nil || again != id || id.PID < 1 {
			t.Errorf("%q gives %+v, and that %+v (%v)", text, id, again, err)
		}
	})
}
