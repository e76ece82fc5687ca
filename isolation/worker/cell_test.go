package worker

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// The cell's first process may greet before the runtime has written down which
// one it is; that must not end the grade.
func TestTheFirstProcessIsWaitedFor(t *testing.T) {
	runtime := make(chan syscall.WaitStatus, 1)
	c := &cell{dir: t.TempDir(), runtime: runtime}
	write := func(text string) {
		if err := os.WriteFile(c.pidFile(), []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		write("") // made, and not filled yet
		time.Sleep(20 * time.Millisecond)
		write("4711")
	}()
	if pid, err := c.awaitInitPID(); pid != 4711 || err != nil {
		t.Errorf("%d, %v", pid, err)
	}
	c.dir = t.TempDir()
	runtime <- 0
	began := time.Now()
	if _, err := c.awaitInitPID(); err == nil || time.Since(began) > pidPatience/2 {
		t.Errorf("a runtime that ended was waited for: %v", err)
	}
	if len(runtime) == 0 {
		t.Error("its end was taken from who waits for it")
	}
}
