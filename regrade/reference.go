package regrade

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"podgrade/tasks/record"
)

// Bounds of a reference directory.
const (
	mostReferenceEntries = 100_000
	mostReferenceBytes   = 1 << 30
)

// checkReference compares the reference with the one of the run
// (spec/regrade.md 1.11). dir is "" when the task has none. The warning is for
// a record that holds no digest.
func checkReference(r *record.Record, dir string) (warning string, err error) {
	if dir == "" {
		return "", nil
	}
	recorded := r.Environment.Text(record.ReferenceDigest)
	if recorded == "" {
		return "the record holds no digest of the reference: it may have changed since the run", nil
	}
	now, err := referenceDigest(dir)
	if err != nil {
		return "", &Error{Kind: Refused, Tried: "read the reference", On: dir, Why: err, Do: "make all of it readable"}
	}
	if now != recorded {
		return "", &Error{Kind: Refused, Tried: "grade with the reference", On: dir,
			Why: fmt.Errorf("its digest is %s and the run's was %s", now, recorded),
			Do:  "put the reference of the run back"}
	}
	return "", nil
}

// referenceDigest is the digest of a reference directory as a run stages it:
// without .git and without links. SHA-256 over its regular files in the order
// of their path components: path, NUL, content, NUL (spec/run-record.md 5.3).
func referenceDigest(dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	files, err := referenceFiles(root, mostReferenceEntries)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	var total int64
	for _, name := range files {
		io.WriteString(digest, name+"\x00")
		n, err := addContent(digest, root, name, total, mostReferenceBytes)
		if err != nil {
			return "", err
		}
		total += n
		digest.Write([]byte{0})
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// referenceFiles lists the regular files of a tree without .git and links.
func referenceFiles(root *os.Root, most int) ([]string, error) {
	entries, err := entriesOf(root, most, nil, nil)
	var files []string
	for _, e := range entries {
		if e.kind.IsRegular() {
			files = append(files, e.name)
		}
	}
	return files, err
}

// treeEntry is an entry of a tree.
type treeEntry struct {
	name string // from the root of the tree
	kind fs.FileMode
}

// entriesOf lists a tree without .git, what is ignored and what skip tells (nil:
// nothing more), in the order of path components: "a/b" comes before "a-b", as Python's paths compare. Directories
// count too, so that no tree is walked for ever: most bounds both.
func entriesOf(root *os.Root, most int, ignore []string, skip func(root *os.Root, name string, kind fs.FileMode) bool) ([]treeEntry, error) {
	var all []treeEntry
	count, unread := 0, []string{"."}
	for len(unread) > 0 {
		dir := unread[len(unread)-1]
		unread = unread[:len(unread)-1]
		err := eachEntry(root, dir, func(name string, kind fs.FileMode) error {
			if count++; count > most {
				return fmt.Errorf("it holds more than %d files and directories", most)
			}
			if base := path.Base(name); base == gitDir || isIgnored(ignore, base) || skip != nil && skip(root, name, kind) {
				return nil
			}
			if kind.IsDir() {
				unread = append(unread, name)
			}
			all = append(all, treeEntry{name, kind})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b treeEntry) int {
		return slices.Compare(strings.Split(a.name, "/"), strings.Split(b.name, "/"))
	})
	return all, nil
}

// eachEntry visits the entries of a directory, some at a time.
func eachEntry(root *os.Root, dir string, visit func(name string, kind fs.FileMode) error) error {
	const atOnce = 1024
	open, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer open.Close()
	for {
		entries, err := open.ReadDir(atOnce)
		for _, entry := range entries {
			if err := visit(path.Join(dir, entry.Name()), entry.Type()); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// addContent adds a file's bytes, or the marker for one that cannot be read.
// The files before it had total bytes, and all together have at most most.
func addContent(to io.Writer, root *os.Root, name string, total, most int64) (int64, error) {
	room := most - total
	file, err := root.OpenFile(path.Clean(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		defer file.Close()
		var n int64
		if n, err = io.Copy(to, io.LimitReader(file, room+1)); n > room {
			return n, fmt.Errorf("it holds more than %d bytes", most)
		} else if err == nil {
			return n, nil
		}
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		_, err = fmt.Fprintf(to, "<unreadable: %d>", int(number))
		return 0, err
	}
	return 0, err
}
