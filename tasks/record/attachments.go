package record

import (
	"errors"
	"io/fs"
	"os"
)

// Attachments are the files of one directory of the row. They are written beside
// those that are there, and take their place as a whole.
type Attachments struct {
	row    *Row
	dir    string
	root   *os.Root // nil: nothing was added yet
	drafts map[string]*Draft
}

// Attach begins to write a directory of the row; nothing is made before the
// first file.
func (r *Row) Attach(dir string) *Attachments {
	return &Attachments{row: r, dir: dir, drafts: map[string]*Draft{}}
}

// Add begins a file. One of the same name that was added before is dropped.
func (a *Attachments) Add(name string) (*Draft, error) {
	if a.root == nil {
		root, err := enter(a.row.root, a.dir, making)
		if err != nil {
			return nil, err
		}
		a.root = root
	}
	a.Forget(name)
	draft, err := newDraft(a.root, name)
	if err != nil {
		return nil, err
	}
	if err := keepMode(draft.file, modeFor(a.row.root)); err != nil {
		draft.Drop()
		return nil, err
	}
	a.drafts[name] = draft
	return draft, nil
}

// Forget drops a file that was added.
func (a *Attachments) Forget(name string) {
	if draft := a.drafts[name]; draft != nil {
		draft.Drop()
		delete(a.drafts, name)
	}
}

// Publish puts the files under their names, and removes what an earlier grade
// left there: it would be of another verdict.
func (a *Attachments) Publish() error {
	if a.root == nil {
		root, err := enter(a.row.root, a.dir, existing)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		a.root = root
	}
	defer a.root.Close()
	var errs []error
	for _, draft := range a.drafts {
		errs = append(errs, draft.Publish())
	}
	errs = append(errs, a.removeOthers())
	return errors.Join(errs...)
}

// removeOthers removes files that are none of these. What is being written by
// another grade stays.
func (a *Attachments) removeOthers() error {
	dir, err := a.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(mostScanned)
	for _, name := range names {
		info, failed := a.root.Lstat(name)
		if failed != nil || !info.Mode().IsRegular() || a.drafts[name] != nil || isDraft(name) {
			continue
		}
		err = errors.Join(err, a.root.Remove(name))
	}
	if len(a.drafts) == 0 {
		a.row.root.Remove(a.dir) // where it is empty now
		return nil
	}
	return err
}

// Drop removes what was added.
func (a *Attachments) Drop() {
	for _, draft := range a.drafts {
		draft.Drop()
	}
	if a.root != nil {
		a.root.Close()
		a.row.root.Remove(a.dir) // where it is empty now
	}
}
