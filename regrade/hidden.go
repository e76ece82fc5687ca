package regrade

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"podgrade/policy"
	"podgrade/regrade/archive"
	"podgrade/tasks/record"
)

// hidden are the directories that a tree of this host is taken without, wherever
// they lie in it and whatever leads to them: the run, which holds the records and
// workspaces of all rows, and above all the answers in them; the user's signing
// key; podgrade's own data. The runs that lie in a tree, and the archives of runs,
// are left out of it too: they hold the answers of agents, and come and go.
type hidden []string

// hiddenFrom are the directories that are hidden from whatever belongs to a run:
// cells, archives, images and digests. "" and nil hide nothing.
func hiddenFrom(run string, keys *policy.Keys, scratch string) hidden {
	var h hidden
	for _, dir := range []string{run, keyDirOf(keys), scratch} {
		if dir != "" {
			h = append(h, dir)
		}
	}
	return h
}

// keyDirOf is the directory of the signing key; "": there is none.
func keyDirOf(keys *policy.Keys) string {
	if keys == nil {
		return ""
	}
	return keys.Dir
}

// hides tells whether an entry of a tree is left out.
func (h hidden) hides(root *os.Root, name string, kind fs.FileMode) bool {
	switch {
	case kind.IsDir():
		return h.names(root, name) || record.HoldsRun(root, name)
	case kind&fs.ModeSymlink != 0 && path.Base(name) == record.Latest:
		return h.leadsToRun(root, name)
	case kind.IsRegular():
		return isArchive(root, name)
	}
	return false
}

// isArchive tells whether a file is one that an export has written.
func isArchive(root *os.Root, name string) bool {
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return archive.Starts(file)
}

// names tells whether a directory is one of those that are named.
func (h hidden) names(root *os.Root, name string) bool {
	if len(h) == 0 {
		return false
	}
	info, err := root.Stat(name)
	if err != nil {
		return false
	}
	for _, dir := range h {
		if other, err := os.Stat(dir); err == nil && os.SameFile(info, other) {
			return true
		}
	}
	return false
}

// leadsToRun tells whether a link is the one beside runs that names the newest,
// which may be gone.
func (h hidden) leadsToRun(root *os.Root, name string) bool {
	target, err := root.Readlink(name)
	if err != nil || target != path.Base(target) {
		return false
	}
	beside := path.Join(path.Dir(name), target)
	if _, err := root.Lstat(beside); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	return h.names(root, beside) || record.HoldsRun(root, beside)
}

// in lists what is left out of a tree, relative to it. What cannot be listed is
// for whoever reads the tree to say.
func (h hidden) in(dir string) []string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	var list []string
	_, _ = entriesOf(root, mostTreeEntries, nil, func(root *os.Root, name string, kind fs.FileMode) bool {
		hides := h.hides(root, name, kind)
		if hides {
			list = append(list, name)
		}
		return hides
	})
	slices.Sort(list)
	return list
}
