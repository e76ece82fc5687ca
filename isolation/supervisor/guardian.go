package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// argSupervise makes podgrade-init the supervisor that a guardian guards.
const argSupervise = "--supervise"

// guard starts the supervisor of a place on the host, and outlives it. Commands
// there run with the supervisor's own user and can end it; what they left
// running would then be nobody's. It comes to the guardian, which ends it.
//
// The guardian keeps the channel open, so that the host sees its end only when
// all is over.
func guard() int {
	keepSmall()
	runtime.LockOSThread() // a parent's death is that of the thread that forked
	pid, err := startGuarded()
	if err != nil {
		return complain(ExitSetup, "start the supervisor: %v", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-signals
		_ = syscall.Kill(pid, syscall.SIGTERM) // it ends all and goes
		time.Sleep(endPatience + time.Second)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}()
	status := reapUntil(pid)
	left := newDescendants()
	for deadline := time.Now().Add(endPatience); left.end() && time.Now().Before(deadline); {
		reapEnded()
		time.Sleep(time.Millisecond)
	}
	code, _ := exitCode(status)
	return code
}

// startGuarded starts the supervisor, which is told when the guardian dies.
func startGuarded() (int, error) {
	if err := prctl(syscall.PR_SET_DUMPABLE, 0); err != nil {
		return 0, fmt.Errorf("make the process untraceable: %w", err)
	}
	if err := prctl(prSetChildSubreaper, 1); err != nil {
		return 0, fmt.Errorf("become the parent of orphans: %w", err)
	}
	if err := closeOnExecFrom(3); err != nil {
		return 0, err
	}
	return syscall.ForkExec("/proc/self/exe", []string{Name, argSupervise}, &syscall.ProcAttr{
		Env: []string{}, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM},
	})
}

// reapUntil reaps whatever ends until that process has.
func reapUntil(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		if got == pid || err != nil && !errors.Is(err, syscall.EINTR) {
			return status
		}
	}
}

// reapEnded reaps what has ended by now.
func reapEnded() {
	for {
		if got, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || got <= 0 {
			return
		}
	}
}
