// Command attack is what a hostile command in a cell tries, mostly on PID 1.
// Each try prints one line, "NAME: OUTCOME", where the outcome is "permitted",
// "refused (ERRNO)" or a count; package attacktest says which are allowed. It
// exits 0 whatever came of the tries, 2 when it was called wrongly; "frames"
// exits 9, so that a false success would show, and "killall" and "threads" end
// by what they do.
//
// It runs only where PODGRADE_ATTACK says yes, since it would do the same to a
// host.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// attacks are the subcommands.
var attacks = map[string]func(args []string){
	"signals":   signals,
	"trace":     trace,
	"proc":      proc,
	"limits":    limits,
	"scheduler": scheduler,
	"pidfd":     pidfd,
	"tool":      tool,
	"fds":       fds,
	"frames":    frames,
	"connect":   connect,
	"killall":   killAll,
	"bomb":      bomb,
	"threads":   threads,
	"hog":       hog,
	"linger":    linger,
	"hold":      hold,
	"spawn":     spawn,
	"watch":     watch,
	"sleep":     sleep,
	"fill":      fill,
	"listen":    listen,
	"swap":      swap,
	"calls":     calls,
}

func main() {
	if os.Getenv("PODGRADE_ATTACK") != "yes" {
		fmt.Fprintln(os.Stderr, "attack: this harms the machine that it runs on: set PODGRADE_ATTACK=yes in a cell")
		os.Exit(2)
	}
	if len(os.Args) < 2 || attacks[os.Args[1]] == nil {
		var names []string
		for name := range attacks {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintln(os.Stderr, "usage: attack", strings.Join(names, "|"))
		os.Exit(2)
	}
	runtime.LockOSThread() // ptrace and scheduler calls are per thread
	attacks[os.Args[1]](os.Args[2:])
}

// say prints the outcome of one try.
func say(name string, err error) {
	switch e := syscall.Errno(0); {
	case err == nil:
		fmt.Printf("%s: permitted\n", name)
	case errors.As(err, &e):
		fmt.Printf("%s: refused (%s)\n", name, errnoName(e))
	default:
		fmt.Printf("%s: refused (%v)\n", name, err)
	}
}

// errnoName is the symbolic name of the usual refusals.
func errnoName(e syscall.Errno) string {
	for name, value := range map[string]syscall.Errno{
		"EPERM": syscall.EPERM, "EACCES": syscall.EACCES, "ESRCH": syscall.ESRCH, "ENOENT": syscall.ENOENT,
		"EINVAL": syscall.EINVAL, "ENOSYS": syscall.ENOSYS, "EROFS": syscall.EROFS, "EBUSY": syscall.EBUSY,
		"EAGAIN": syscall.EAGAIN, "ENOMEM": syscall.ENOMEM, "EXDEV": syscall.EXDEV,
	} {
		if e == value {
			return name
		}
	}
	return fmt.Sprintf("errno %d", int(e))
}

// call is a raw system call whose result is only its error.
func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := syscall.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}
