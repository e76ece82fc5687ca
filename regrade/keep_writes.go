package regrade

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"podgrade/isolation"
	"podgrade/isolation/tree"
	"podgrade/tasks/record"
)

// keeperBound is how much of what one row's commands changed --keep-writes keeps.
var keeperBound = isolation.Bound{Listed: 100_000, Files: 20_000, File: 1 << 30, Bytes: 4 << 30}

// Bounds of a path below a directory of --keep-writes: what is deeper is only
// told of.
const (
	longestKept = 2048 // bytes
	deepestKept = 100  // names
)

// keptFiles is the directory with the files, beside their index.
const keptFiles = "files"

// keeper puts what a row's commands changed below the operator's directory,
// under the names that the files have. Only regular files and the directories
// that lead to them are made: everything else stands in the index alone.
type keeper struct {
	dir     string // of the row
	root    *os.Root
	entries []changeEntry
	bytes   int64
	failed  error // the first; after a full disk no bytes are kept
}

// openKeeper makes the directory of the row below the operator's, before
// anything starts. What is there is never written over.
func (g *grading) openKeeper() (*keeper, error) {
	base := g.options.KeepWrites
	if base == "" {
		return nil, nil
	}
	failed := func(why error, do string) error {
		return &Error{Kind: User, Tried: "keep what is written in", On: base, Why: why, Do: do}
	}
	where, err := filepath.Abs(base)
	if err == nil {
		err = os.MkdirAll(where, 0o755)
	}
	if err == nil {
		where, err = filepath.EvalSymlinks(where)
	}
	if err != nil {
		return nil, failed(err, "name a directory that you can write to")
	}
	for _, evidence := range []string{g.row.Dir, g.workspace} {
		if where == evidence || strings.HasPrefix(where, evidence+"/") {
			return nil, failed(fmt.Errorf("it lies in %s, which no grade changes", evidence), "name a directory elsewhere")
		}
	}
	made, err := record.Create(where, record.Identity{VariantID: g.record.VariantID, TaskID: g.record.TaskID, Replicate: g.row.Replicate()})
	if err != nil {
		return nil, failed(err, "name a directory that you can write to")
	}
	defer made.Close()
	root, err := os.OpenRoot(made.Dir)
	if err == nil {
		err = emptyRoot(root)
	}
	if err == nil {
		err = root.Mkdir(keptFiles, 0o755)
	}
	if err != nil {
		return nil, failed(fmt.Errorf("%s: %w", made.Dir, err), "name a new directory, or remove what an earlier grade kept there")
	}
	return &keeper{dir: made.Dir, root: root}, nil
}

// emptyRoot refuses a directory that holds something.
func emptyRoot(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := dir.Readdirnames(1); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("it is not empty"), err)
	}
	return nil
}

func (k *keeper) take(e changeEntry, content io.Reader) error {
	if len(k.entries) >= keeperBound.Listed {
		return nil
	}
	full := errors.Is(k.failed, syscall.ENOSPC) || errors.Is(k.failed, syscall.EDQUOT)
	if content != nil && !full && keptAt(e) != "" && k.bytes+e.Size <= keeperBound.Bytes {
		if err := k.keep(&e, content); err != nil && (k.failed == nil || errors.Is(err, syscall.ENOSPC)) {
			k.failed = err
		}
	}
	k.entries = append(k.entries, e)
	return nil
}

// keptAt is where the bytes of a file are kept; "": nowhere.
func keptAt(e changeEntry) string {
	name := e.path()
	if e.Type != string(tree.RegularFile) || name == "." || !filepath.IsLocal(name) || path.Clean(name) != name || len(name) > longestKept || strings.Count(name, "/") >= deepestKept {
		return ""
	}
	return path.Join(keptFiles, name)
}

func (k *keeper) keep(e *changeEntry, content io.Reader) error {
	at := keptAt(*e)
	if err := k.root.MkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if strings.ContainsAny(e.Mode[1:], "1357") {
		mode = 0o755
	}
	file, err := k.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	sum := &summed{to: file, digest: sha256.New()}
	_, err = io.Copy(sum, io.LimitReader(content, e.Size))
	e.File, e.Kept, e.SHA256 = at, sum.bytes, sum.hex()
	k.bytes += sum.bytes
	return errors.Join(err, file.Close())
}

// drop takes the directories away again that nothing was put into.
func (k *keeper) drop() {
	if k == nil {
		return
	}
	k.root.Remove(keptFiles)
	k.root.Close()
	os.Remove(k.dir)
}

// finish writes the index.
func (k *keeper) finish() error {
	text, err := indexOf(k.entries)
	if err != nil {
		return err
	}
	file, err := k.root.OpenFile(changesIndex, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return errors.Join(k.failed, err)
	}
	_, err = io.Copy(file, bytes.NewReader(text))
	return errors.Join(k.failed, err, file.Close())
}
