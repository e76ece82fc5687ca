package record

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
)

// walker looks for the records of a run.
type walker struct {
	found   func(dir *os.Root, name string) // the name is relative to the run
	trouble func(name string, why error)
	entries int
}

// walkRecords calls found for each task.json of the run, in the order of their
// names, and trouble for what could not be looked at. No link is followed.
// Workspaces are the agents', so that nothing in them is a record; a run below
// this one has its own rows.
func walkRecords(root *os.Root, found func(dir *os.Root, name string), trouble func(name string, why error)) error {
	entries, err := listed(root)
	if err != nil {
		return err
	}
	w := &walker{found: found, trouble: trouble}
	return w.below(root, ".", entries, 0)
}

func listed(dir *os.Root) ([]fs.DirEntry, error) {
	opened, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	entries, err := opened.ReadDir(mostEntries + 1)
	if err == io.EOF {
		err = nil // there is nothing, or no more
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}

func (w *walker) below(dir *os.Root, name string, entries []fs.DirEntry, depth int) error {
	w.entries += len(entries)
	if w.entries > mostEntries {
		return ErrTooMany
	}
	for _, entry := range entries {
		var err error
		switch at := path.Join(name, entry.Name()); {
		case entry.Name() == TaskFile:
			w.found(dir, at)
		case entry.IsDir() && !ofAgents(entry.Name()) && depth < deepest:
			err = w.enter(dir, entry.Name(), at, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) enter(dir *os.Root, base, name string, depth int) error {
	next, err := enter(dir, base, existing)
	if err != nil {
		w.trouble(name, err)
		return nil
	}
	defer next.Close()
	entries, err := listed(next)
	if err != nil {
		w.trouble(name, err)
		return nil
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == RunFile }) {
		if _, _, err := readRun(next); err == nil {
			return nil
		}
	}
	return w.below(next, name, entries, depth)
}
