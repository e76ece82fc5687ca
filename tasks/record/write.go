package record

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Draft is a file of a row directory that is being written: nobody sees it
// under its name before Commit.
type Draft struct {
	root *os.Root
	file *os.File
	name string // final
	temp string
}

// Draft begins to write a file of the row.
func (r *Row) Draft(name string) (*Draft, error) { return newDraft(r.root, name) }

// Prepare is a draft with all of the bytes of its file: what is left to Commit
// needs no space.
func (r *Row) Prepare(name string, data []byte) (*Draft, error) { return prepare(r.root, name, data) }

// Replace replaces a file of the row by what write writes, all of it or not at
// all.
func (r *Row) Replace(name string, write func(io.Writer) error) error {
	draft, err := r.Draft(name)
	if err != nil {
		return err
	}
	if err := write(draft); err != nil {
		draft.Drop()
		return err
	}
	return draft.Publish()
}

// newDraft refuses early when the name is taken by something that is no
// regular file: replacing it could be somebody's trap. A file that is replaced
// keeps its mode: who may read a record is its owner's choice.
func newDraft(root *os.Root, name string) (*Draft, error) {
	replaced, err := replaceable(root, name)
	if err != nil {
		return nil, err
	}
	removeLeftovers(root, func(entry string) bool { return isDraftOf(entry, name) })
	var random [4]byte
	rand.Read(random[:])
	// A name of its own for each call: a fixed one plus O_EXCL would turn the
	// leftover of one crash into a failure for ever (spec/run-record.md 1.4).
	temp := fmt.Sprintf("%s.%d.%s.tmp", name, os.Getpid(), hex.EncodeToString(random[:]))
	file, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, modeFor(root))
	if err != nil {
		return nil, err
	}
	draft := &Draft{root: root, file: file, name: name, temp: temp}
	// It says that the writer lives. A file system without locks goes without.
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if replaced != nil {
		err = keepMode(file, replaced.Mode().Perm())
	}
	if err != nil {
		draft.Drop()
		return nil, err
	}
	return draft, nil
}

// keepMode changes a mode only where it differs: some file systems have one
// mode for all files, and refuse every change.
func keepMode(file *os.File, mode fs.FileMode) error {
	info, err := file.Stat()
	if err != nil || info.Mode().Perm() == mode {
		return err
	}
	return file.Chmod(mode)
}

// modeFor is the mode of a new file: nobody may read it who may not read the
// record beside it, of which it tells.
func modeFor(root *os.Root) fs.FileMode {
	const mode = fs.FileMode(0o644)
	if info, err := root.Lstat(TaskFile); err == nil && info.Mode().IsRegular() {
		return mode&info.Mode().Perm() | 0o600
	}
	return mode
}

// replaceable describes the file that a draft would replace; nil when there is
// none.
func replaceable(root *os.Root, name string) (fs.FileInfo, error) {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is a %s: %w", name, kindOf(info.Mode()), ErrNotPlain)
	}
	return info, nil
}

// Write adds bytes to the draft.
func (d *Draft) Write(p []byte) (int, error) { return d.file.Write(p) }

// Commit puts the draft under its name and returns when both are on the disk:
// a crash at any instant leaves the old file or the new one.
func (d *Draft) Commit() error {
	if err := d.Put(); err != nil {
		return err
	}
	return syncDir(d.root)
}

// Put is Commit for one of several files: the name is on the disk after Sync of
// the row. A crash before that leaves the old file or the new one, too.
func (d *Draft) Put() error {
	err := d.file.Sync()
	if err == nil {
		err = d.Publish()
	}
	if err != nil {
		d.Drop()
	}
	return err
}

// Publish puts the draft under its name without waiting for the disk. It is
// for logs, which a crash of the machine may take.
func (d *Draft) Publish() error {
	err := d.publish()
	if err != nil {
		d.Drop()
	}
	return err
}

func (d *Draft) publish() error {
	_, err := replaceable(d.root, d.name)
	if err == nil {
		err = d.root.Rename(d.temp, d.name)
	}
	// Closing gives the lock up, without which the draft is a leftover.
	return errors.Join(err, d.file.Close())
}

// Drop removes the draft. After Commit it does nothing.
func (d *Draft) Drop() {
	d.file.Close()
	d.root.Remove(d.temp)
}

// syncFile returns when the bytes of a file are on the disk.
func syncFile(root *os.Root, name string) error {
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	return fsync(file)
}

// fsync is the system's, which a test counts.
var fsync = (*os.File).Sync

func syncDir(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func writeDurably(root *os.Root, name string, data []byte) error {
	draft, err := prepare(root, name, data)
	if err != nil {
		return err
	}
	return draft.Commit()
}

func prepare(root *os.Root, name string, data []byte) (*Draft, error) {
	draft, err := newDraft(root, name)
	if err != nil {
		return nil, err
	}
	if _, err := draft.Write(data); err != nil {
		draft.Drop()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return draft, nil
}

var _ io.Writer = (*Draft)(nil)
