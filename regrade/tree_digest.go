package regrade

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
)

// treeDigest is the digest of a tree that a set-up copies or an image is built
// from: all that can change what comes of it. Beside the content of its files
// that is which of them can be executed, where links lead, and directories.
// What is left out is .git, which every command of git writes to, what a
// pattern ignores, and runs.
func treeDigest(dir string, ignore []string, without hidden) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	entries, err := entriesOf(root, mostTreeEntries, ignore, without.hides)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
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
		n, err := addContent(digest, root, e.name, total, mostTreeBytes)
		if err != nil {
			return "", err
		}
		total += n
		fmt.Fprintf(digest, "\x00%d\x00", n) // no content can look like the next entry
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
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
