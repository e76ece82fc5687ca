package tree_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// insideVariable is set in the user namespace that the tests run in.
const insideVariable = "PODGRADE_TEST_INSIDE"

// TestMain runs the tests as the worker runs this package: as root of a user
// namespace, which may read and own what the caller may not. One id is mapped,
// which every user may do.
func TestMain(m *testing.M) {
	if os.Getenv(insideVariable) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=yes")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "tests in a user namespace:", err)
		os.Exit(1)
	}
}
