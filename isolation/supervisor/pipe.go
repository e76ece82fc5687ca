package supervisor

import (
	"os"
	"syscall"
)

// pipe makes a pipe whose ends both block and close on exec. A blocking write
// end is what a command must get.
func pipe() (read, write int, err error) {
	var ends [2]int
	err = syscall.Pipe2(ends[:], syscall.O_CLOEXEC)
	return ends[0], ends[1], err
}

// pollable makes a file of our end of a pipe: what waits for it can be given a
// deadline, ends when it is closed, and needs no thread.
func pollable(fd int) *os.File {
	_ = syscall.SetNonblock(fd, true) // it is a pipe of ours: it cannot fail
	return os.NewFile(uintptr(fd), "pipe")
}

// closeAll closes descriptors.
func closeAll(lists ...[]int) {
	for _, list := range lists {
		for _, fd := range list {
			_ = syscall.Close(fd)
		}
	}
}
