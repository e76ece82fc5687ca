package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
	"podgrade/isolation/tree"
)

// More stages. A running worker starts these as programs inside its
// namespaces.
const (
	StageTry    = "try"    // does what a cell needs, and reports; without arguments it does nothing
	StageRemove = "remove" // empties the directory that is its standard input
	StageJoin   = "join"   // enters control groups of version 1, and executes a program
	StageClose  = "close"  // makes addresses unreachable in a network
	// StageRelease takes the state in a directory out of what layers share
	// (states.Release): the store is locked by whoever starts it.
	StageRelease = "release"
)

// Trial is what StageTry prints: why something did not work, "" when it did.
type Trial struct {
	Overlay string `json:"overlay,omitempty"`
	Nested  string `json:"nested,omitempty"`
}

// try makes, in the empty directory that it is given, an overlay like that of
// a cell, and starts a process in namespaces like those of a cell.
func try(args []string) error {
	if len(args) == 0 {
		return nil
	}
	var t Trial
	if err := tryOverlay(args[0]); err != nil {
		t.Overlay = err.Error()
	}
	if err := tryNested(); err != nil {
		t.Nested = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

// tryOverlay also changes what the lower directory holds: without the option
// userxattr mounting works, and removing a directory does not.
func tryOverlay(dir string) (err error) {
	lower, upper, work, merged := filepath.Join(dir, "lower"), filepath.Join(dir, "upper"), filepath.Join(dir, "work"), filepath.Join(dir, "merged")
	for _, d := range []string{lower, upper, work, merged, filepath.Join(lower, "directory")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"file", "directory/file"} {
		if err := os.WriteFile(filepath.Join(lower, name), nil, 0o644); err != nil {
			return err
		}
	}
	if err := mountOverlay(merged, []string{lower}, upper, work); err != nil {
		return fmt.Errorf("mount an overlay in %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, unix.Unmount(merged, unix.MNT_DETACH)) }()
	if err := os.Rename(filepath.Join(merged, "file"), filepath.Join(merged, "renamed")); err != nil {
		return fmt.Errorf("rename in an overlay: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(merged, "directory")); err != nil {
		return fmt.Errorf("remove a directory in an overlay: %w", err)
	}
	// A new directory of this name must hide the old one: that is an attribute.
	if err := os.Mkdir(filepath.Join(merged, "directory"), 0o755); err != nil {
		return fmt.Errorf("make a directory again in an overlay: %w", err)
	}
	return nil
}

func tryNested() error {
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	child, err := os.StartProcess("/proc/self/exe", []string{"podgrade-worker", StageTry}, &os.ProcAttr{
		Files: []*os.File{nil, nil, os.Stderr},
		Sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP | syscall.CLONE_NEWPID |
				syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
			UidMappings: ids, GidMappings: ids,
		},
	})
	if err != nil {
		return fmt.Errorf("make the namespaces of a cell: %w", err)
	}
	state, err := child.Wait()
	if err == nil && !state.Success() {
		err = fmt.Errorf("a process in the namespaces of a cell: %s", state)
	}
	return err
}

// remove empties the directory behind standard input. The host opened it, so
// that no name can lead elsewhere meanwhile.
func remove() error { return tree.Empty(int(os.Stdin.Fd())) }

func release(args []string) error {
	if len(args) != 1 {
		return errors.New("this stage takes the directory of a state")
	}
	return states.Release(args[0])
}
