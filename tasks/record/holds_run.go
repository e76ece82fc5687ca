package record

import (
	"os"
	"path"
)

// HoldsRun tells whether a directory below root is that of a run: it holds the
// summary of one, or what a run was configured with. What lies in it is the work
// and the answers of agents, and no part of a task.
func HoldsRun(root *os.Root, dir string) bool {
	if info, err := root.Lstat(path.Join(dir, FingerprintFile)); err == nil && info.Mode().IsRegular() {
		return true
	}
	if info, err := root.Lstat(path.Join(dir, RunFile)); err != nil || !info.Mode().IsRegular() {
		return false
	}
	// A run.json of another program makes no run.
	below, err := root.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer below.Close()
	_, _, err = readRun(below)
	return err == nil
}
