package record

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// leftoverAge is how old a draft is at least before it can be a leftover: its
// writer locks it in the instant after making it.
const leftoverAge = time.Minute

// mostScanned bounds the entries that are looked at for leftovers.
const mostScanned = 10_000

// removeLeftovers removes the drafts of a file whose writers were killed. A
// living writer holds the lock of its draft. It is best effort: where nothing
// can be locked, nothing is removed.
func removeLeftovers(root *os.Root, name string) {
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	entries, _ := dir.Readdirnames(mostScanned)
	for _, entry := range entries {
		if isDraftOf(entry, name) {
			removeLeftover(root, entry)
		}
	}
}

// isDraftOf tells whether newDraft gave the name.
func isDraftOf(entry, name string) bool {
	rest, found := strings.CutPrefix(entry, name+".")
	if !found {
		return false
	}
	var pid int
	var random uint32
	n, err := fmt.Sscanf(rest, "%d.%x.tmp", &pid, &random)
	return err == nil && n == 2 && rest == fmt.Sprintf("%d.%08x.tmp", pid, random)
}

// isDraft tells whether newDraft gave the name, whatever the file is to be.
func isDraft(entry string) bool {
	for at, c := range entry {
		if c == '.' && isDraftOf(entry, entry[:at]) {
			return true
		}
	}
	return false
}

func removeLeftover(root *os.Root, entry string) {
	info, err := root.Lstat(entry)
	if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < leftoverAge {
		return
	}
	file, err := root.OpenFile(entry, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && named(root, entry, file) {
		root.Remove(entry)
	}
}
