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
	mostReferenceFiles = 100_000
	mostReferenceBytes = 1 << 30
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
	files, err := referenceFiles(root)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	var total int64
	for _, name := range files {
		io.WriteString(digest, name+"\x00")
		n, err := addContent(digest, root, name, mostReferenceBytes-total)
		if err != nil {
			return "", err
		}
		total += n
		digest.Write([]byte{0})
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

func referenceFiles(root *os.Root) ([]string, error) {
	var files []string
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Name() == ".git" && name != ".":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular():
			return nil
		case len(files) >= mostReferenceFiles:
			return fmt.Errorf("it holds more than %d files", mostReferenceFiles)
		}
		files = append(files, name)
		return nil
	})
	// By components: "a/b" comes before "a-b", as Python's paths compare.
	slices.SortFunc(files, func(a, b string) int {
		return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
	})
	return files, err
}

// addContent adds a file's bytes, or the marker for one that cannot be read.
func addContent(to io.Writer, root *os.Root, name string, room int64) (int64, error) {
	file, err := root.OpenFile(path.Clean(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		defer file.Close()
		var n int64
		if n, err = io.Copy(to, io.LimitReader(file, room+1)); n > room {
			return n, fmt.Errorf("it holds more than %d bytes", int64(mostReferenceBytes))
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
