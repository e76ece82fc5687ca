package worker

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The cell's first process may greet before the runtime has written down which
// one it is; that must not end the grade.
func TestTheFirstProcessIsWaitedFor(t *testing.T) {
	runtime := make(chan syscall.WaitStatus, 1)
	c := &cell{bundle: t.TempDir(), runtime: runtime}
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
	c.bundle = t.TempDir()
	runtime <- 0
	began := time.Now()
	if _, err := c.awaitInitPID(); err == nil || time.Since(began) > pidPatience/2 {
		t.Errorf("a runtime that ended was waited for: %v", err)
	}
	if len(runtime) == 0 {
		t.Error("its end was taken from who waits for it")
	}
}

// A cell whose supervisor greets before the runtime has written its number down
// gets its network all the same.
func TestANetworkWaitsForTheRuntimesFile(t *testing.T) {
	c := &cell{bundle: t.TempDir(), runtime: make(chan syscall.WaitStatus, 1)}
	go func() {
		time.Sleep(20 * time.Millisecond)
		if err := os.WriteFile(c.pidFile(), []byte("1073741824"), 0o600); err != nil {
			t.Error(err)
		}
	}()
	err := (&server{children: &children{}}).network(c, []Forwarder{{Path: "/nonexistent/pasta"}}, &Reply{})
	if err == nil || !strings.HasPrefix(err.Error(), "/nonexistent/pasta: ") {
		t.Errorf("the forwarder was not tried: %v", err)
	}
}

// The number that the runtime wrote down may be another process's by now: only
// a child of the runtime's, or of our own, is ended.
func TestOnlyAChildOfTheRuntimeIsEnded(t *testing.T) {
	start := func() *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-c", "/bin/sleep 600 & echo $!; wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return cmd
	}
	runtime := start()
	out, err := runtime.StdoutPipe()
	if err == nil {
		err = runtime.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		syscall.Kill(-runtime.Process.Pid, syscall.SIGKILL)
		runtime.Wait()
	}()
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	c := &cell{name: "x", bundle: t.TempDir(), pid: 1 << 21} // another runtime
	if err := os.WriteFile(c.pidFile(), fmt.Append(nil, pid), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kill()
	time.Sleep(50 * time.Millisecond)
	if parentOf(pid) != runtime.Process.Pid {
		t.Fatal("somebody else's process was ended")
	}
	c.pid = runtime.Process.Pid
	c.kill()
	if err := runtime.Wait(); err != nil { // the shell waited for its child
		t.Logf("the runtime: %v", err)
	}
	if parentOf(pid) != 0 {
		t.Error("the runtime's child was not ended")
	}
}
