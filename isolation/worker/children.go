package worker

import (
	"sync"
	"syscall"
)

// children starts processes and reaps them, together with every orphan that
// the kernel hands to PID 1: a single wait for all, because two waiters would
// steal from each other.
type children struct {
	mu     sync.Mutex
	wake   *sync.Cond
	alive  int
	waiter map[int]chan syscall.WaitStatus
}

func newChildren() *children {
	c := &children{waiter: map[int]chan syscall.WaitStatus{}}
	c.wake = sync.NewCond(&c.mu)
	go c.reap()
	return c
}

// start runs argv[0] (a path) with the given descriptors as 0, 1, 2, in a
// session of its own. The channel yields its end.
func (c *children) start(argv, env []string, dir string, files [3]int) (int, <-chan syscall.WaitStatus, error) {
	return c.startIn(noGroup, argv, env, dir, files)
}

// noGroup stands for the control group that we are in.
const noGroup = -1

// startIn is start in the control group whose directory is given, and with more
// descriptors from 3 on.
func (c *children) startIn(group int, argv, env []string, dir string, files [3]int, more ...int) (int, <-chan syscall.WaitStatus, error) {
	attr := &syscall.ProcAttr{
		Dir: dir, Env: env,
		Files: []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, UseCgroupFD: group != noGroup, CgroupFD: group},
	}
	for _, fd := range more {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	ended := make(chan syscall.WaitStatus, 1)
	c.mu.Lock()
	defer c.mu.Unlock() // held over the fork: the reaper cannot see the pid before we do
	pid, err := syscall.ForkExec(argv[0], argv, attr)
	if err != nil {
		return 0, nil, err
	}
	c.waiter[pid] = ended
	c.alive++
	c.wake.Signal()
	return pid, ended, nil
}

func (c *children) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		c.mu.Lock()
		switch {
		case err == syscall.ECHILD:
			for c.alive == 0 {
				c.wake.Wait()
			}
		case pid > 0 && (status.Exited() || status.Signaled()):
			if ended, ours := c.waiter[pid]; ours {
				delete(c.waiter, pid)
				c.alive--
				ended <- status
			}
		}
		c.mu.Unlock()
	}
}

// exitCode is the shell's way to say how a process ended.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
