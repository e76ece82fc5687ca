package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrNoName: a directory was named by nothing.
var ErrNoName = errors.New("its name is empty")

// ErrNoRecord: the directory holds no task.json.
var ErrNoRecord = errors.New("the directory holds no " + TaskFile)

// ErrNotPlain: a file that would be read or replaced is a link, a pipe, a
// device or a directory.
var ErrNotPlain = errors.New("not a regular file")

// ErrUnreadable: there is a record, and its text is none.
var ErrUnreadable = errors.New("the text is not that of a record")

// unreadable is why the text of a record cannot be read.
type unreadable struct{ error }

// Is makes it an ErrUnreadable.
func (unreadable) Is(target error) bool { return target == ErrUnreadable }

// Unwrap returns the reason.
func (u unreadable) Unwrap() error { return u.error }

// Row is an open row directory. Nothing outside of it can be reached through
// it, whatever links it holds.
type Row struct {
	Dir  string // absolute, every link resolved
	root *os.Root
}

// OpenRow opens a row directory. It does not read the record.
func OpenRow(dir string) (*Row, error) {
	if dir == "" {
		return nil, ErrNoName
	}
	resolved, err := filepath.Abs(dir)
	if err == nil {
		resolved, err = filepath.EvalSymlinks(resolved)
	}
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(resolved)
	if err != nil {
		return nil, err
	}
	return &Row{Dir: resolved, root: root}, nil
}

// Close closes the directory.
func (r *Row) Close() error { return r.root.Close() }

// Replicate is the row's index, from the name of its directory: a name that
// is no whole number is 0 (spec/run-record.md 1.1).
func (r *Row) Replicate() int {
	name := filepath.Base(r.Dir)
	for _, c := range name {
		if c < '0' || c > '9' {
			return 0
		}
	}
	n, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return n
}

// Read reads the record, and returns its bytes too: a grade that fails leaves
// exactly these. ErrNoRecord when there is none.
func (r *Row) Read() (*Record, []byte, error) {
	data, err := readPlain(r.root, TaskFile, MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, ErrNoRecord
	}
	if err != nil {
		return nil, nil, err
	}
	record, err := Parse(data)
	if err != nil {
		return nil, nil, unreadable{err}
	}
	return record, data, nil
}

// Envelope reads the file of a signature; nil when there is none.
func (r *Row) Envelope(name string) ([]byte, error) {
	data, err := readPlain(r.root, name, MaxEnvelope)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Remove removes a file of the row that podgrade has written. It does nothing
// where there is none.
func (r *Row) Remove(name string) error { return r.clearFile(name) }

// Run is the name of the run that the row lies in, as the row of this identity;
// "" when it lies elsewhere.
func (r *Row) Run(id Identity) string {
	run, below := strings.CutSuffix(r.Dir, "/"+id.String())
	if !below || run == "" {
		return ""
	}
	return filepath.Base(run)
}

// Has tells whether the directory holds something of that name.
func (r *Row) Has(name string) (bool, error) {
	_, err := r.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Write replaces a file of the row by one with the given bytes, all of it or
// not at all, and returns when it is on the disk.
func (r *Row) Write(name string, data []byte) error { return writeDurably(r.root, name, data) }

// KeepExecuted keeps the bytes of the record as they were before the first
// grade. It does nothing when they were kept before (spec/regrade.md 1.14).
//
// A record is only ever replaced, so a second name keeps its bytes: nothing has
// to be written again, and there is no disk that is too full for it. Whoever
// calls holds the Lock.
func (r *Row) KeepExecuted(before []byte) error {
	info, err := r.root.Lstat(ExecuteFile)
	switch {
	case err == nil && info.Mode().IsRegular():
		return nil
	case err == nil:
		return fmt.Errorf("%s: %w", ExecuteFile, ErrNotPlain)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := r.root.Link(TaskFile, ExecuteFile); err != nil {
		return r.Write(ExecuteFile, before) // no such names here, or a record of another user
	}
	kept, err := readPlain(r.root, ExecuteFile, MaxRecord)
	if err == nil && bytes.Equal(kept, before) {
		// Who wrote the record need not have waited for the disk, and it was replaced then.
		return errors.Join(syncFile(r.root, ExecuteFile), syncDir(r.root))
	}
	if err := r.root.Remove(ExecuteFile); err != nil {
		return err
	}
	return r.Write(ExecuteFile, before)
}

// Sync returns when the names of the row's files are on the disk, see Draft.Put.
func (r *Row) Sync() error { return syncDir(r.root) }

// Unchanged tells whether the record on the disk still is the bytes that were
// read: a grade that took long must not undo what another one wrote. Who
// writes then holds the Lock.
func (r *Row) Unchanged(before []byte) bool {
	now, err := readPlain(r.root, TaskFile, MaxRecord)
	return err == nil && bytes.Equal(now, before)
}

// readPlain reads a regular file below root that is named itself and not
// through a link, at most limit bytes.
func readPlain(root *os.Root, name string, limit int64) ([]byte, error) {
	named, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a %s: %w", name, kindOf(named.Mode()), ErrNotPlain)
	}
	// A pipe that takes the file's place between the two calls must not hold
	// the program: hence O_NONBLOCK, and the second look.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	opened, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !opened.Mode().IsRegular() || !os.SameFile(named, opened) {
		return nil, fmt.Errorf("%s changed while it was opened: %w", name, ErrNotPlain)
	}
	if opened.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", name, opened.Size(), limit)
	}
	data := bytes.NewBuffer(make([]byte, 0, opened.Size()+bytes.MinRead))
	if _, err := data.ReadFrom(io.LimitReader(file, limit+1)); err != nil {
		return nil, err
	}
	if int64(data.Len()) > limit {
		return nil, fmt.Errorf("%s is larger than the limit of %d bytes", name, limit)
	}
	return data.Bytes(), nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file" // as other systems have them
}
