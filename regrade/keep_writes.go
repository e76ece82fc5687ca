package regrade

import (
	"crypto/sha256"
	"errors"
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
	row     *record.Row // the directory, as a row that has no record
	root    *os.Root
	entries []changeEntry
	bytes   int64
	failed  error // the first; after a full disk no bytes are kept
}

func (k *keeper) take(e changeEntry, content io.Reader) error {
	if len(k.entries) >= keeperBound.Listed {
		return nil
	}
	full := isFull(k.failed)
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
	k.row.Close()
	keptDirs.Lock()
	defer keptDirs.Unlock()
	keptDirs.remove(k.row.Dir)
}

// finish writes the index, all of it or none.
func (k *keeper) finish() error {
	text, err := indexOf(k.entries)
	if err == nil {
		err = k.row.Write(changesIndex, text)
	}
	return errors.Join(k.failed, err)
}
