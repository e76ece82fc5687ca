package worker

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// join enters the control groups whose files are the descriptors from 3 on, and
// executes the program that the arguments after their number name. Nothing but
// the process itself knows its number before it runs.
func join(args []string) error {
	if len(args) < 2 {
		return errors.New("no program is named")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 || n > maxFiles {
		return fmt.Errorf("%q is no number of control groups", args[0])
	}
	for fd := 3; fd < 3+n; fd++ {
		_, err := syscall.Write(fd, []byte("0")) // who writes
		if err = errors.Join(err, syscall.Close(fd)); err != nil {
			return fmt.Errorf("enter a control group: %w", err)
		}
	}
	return fmt.Errorf("start %s: %w", args[1], syscall.Exec(args[1], args[1:], os.Environ()))
}
