package regrade

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// treeDigest is the digest of a tree that a set-up copies or an image is built
// from: all that can change what comes of it. Beside the content of its files
// that is which of them can be executed, where links lead, and directories.
// What is left out is what a pattern ignores, and runs. Of .git, which every
// command of git writes to, the commit counts that is checked out.
//
// Files beyond the first mostDigested bytes are told by size and time, so that a
// tree of any size has a digest that a change of it changes.
func treeDigest(dir string, ignore []string, without hidden) (string, error) {
	return treeDigestWithout(dir, ignore, without.hides)
}

// importedDigest is the digest of a tree as an import has put it there: of all
// that it holds, runs too, since a grade is shown all of it.
func importedDigest(dir string) (string, error) { return treeDigestWithout(dir, nil, nil) }

func treeDigestWithout(dir string, ignore []string, skip func(root *os.Root, name string, kind fs.FileMode) bool) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	entries, err := entriesOf(root, mostDigestedEntries, ignore, skip)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	if !isIgnored(ignore, gitDir) {
		if commit := checkedOut(root); commit != "" {
			fmt.Fprintf(digest, "%s\x00commit %s\x00", gitDir, commit)
		}
	}
	var total int64
	for _, e := range entries {
		what, err := e.describe(root)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(digest, "%s\x00%s\x00", e.name, what)
		if !e.kind.IsRegular() {
			continue
		}
		info, err := root.Lstat(e.name)
		if err != nil {
			return "", err
		}
		if total+info.Size() > mostDigested {
			fmt.Fprintf(digest, "large %d %d\x00", info.Size(), info.ModTime().UnixNano())
			continue
		}
		n, err := addContent(digest, root, e.name, total, mostDigested)
		if err != nil {
			return "", err
		}
		total += n
		fmt.Fprintf(digest, "\x00%d\x00", n) // no content can look like the next entry
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// Bounds of a digest: the bytes that are read, and the entries that are told.
var (
	mostDigested        int64 = mostTreeBytes // lowered by a test
	mostDigestedEntries       = 1_000_000
)

// gitDir is where a checkout has its history.
const gitDir = ".git"

// Bounds of what is read of a checkout, in bytes.
const (
	mostHead   = 4 << 10
	mostPacked = 64 << 20
)

// checkedOut is the commit that a checkout is at: what its HEAD says, or the
// branch that HEAD names; "" where there is none, or nothing plain.
func checkedOut(root *os.Root) string {
	head := strings.TrimSpace(readHead(root, gitDir+"/HEAD", mostHead))
	branch, named := strings.CutPrefix(head, "ref: ")
	if !named || !filepath.IsLocal(branch) {
		return head
	}
	if commit := strings.TrimSpace(readHead(root, gitDir+"/"+branch, mostHead)); commit != "" {
		return head + " " + commit
	}
	for line := range strings.Lines(readHead(root, gitDir+"/packed-refs", mostPacked)) {
		if commit, name, found := strings.Cut(strings.TrimSpace(line), " "); found && name == branch {
			return head + " " + commit
		}
	}
	return head
}

// readHead reads the beginning of a regular file; "" where there is none.
func readHead(root *os.Root, name string, most int64) string {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return ""
	}
	return string(text)
}

// describe says what an entry is, but for its content.
func (e treeEntry) describe(root *os.Root) (string, error) {
	switch {
	case e.kind.IsDir():
		return "directory", nil
	case e.kind&fs.ModeSymlink != 0:
		target, err := root.Readlink(e.name)
		return "link " + target, err
	case !e.kind.IsRegular():
		return "other", nil
	}
	info, err := root.Lstat(e.name)
	if err == nil && info.Mode()&0o111 != 0 {
		return "program", nil
	}
	return "file", err
}
