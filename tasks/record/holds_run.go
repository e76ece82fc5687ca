package record

import (
	"os"
	"path"
)

// HoldsRun tells whether a directory below root is that of a run: it holds the
// summary of one, or what a run was configured with. What lies in it is the work
// and the answers of agents, and no part of a task.
func HoldsRun(root *os.Root, dir string) bool {
	isFile := func(name string) bool {
		info, err := root.Lstat(path.Join(dir, name))
		return err == nil && info.Mode().IsRegular()
	}
	configured, summed := isFile(FingerprintFile), isFile(RunFile)
	if !configured && !summed {
		return false
	}
	// A file of the name that another program wrote makes no run.
	below, err := root.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer below.Close()
	if configured {
		if text, err := readPlain(below, FingerprintFile, maxFingerprint); err == nil {
			if _, err := ParseObject(text); err == nil {
				return true
			}
		}
	}
	_, _, err = readRun(below)
	return err == nil
}
