package record

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// leftoverAge is how old a draft is at least before it is a leftover although
// its writer may live: it locks the draft in the instant after making it.
const leftoverAge = time.Minute

// mostScanned bounds the entries that are looked at for leftovers.
const mostScanned = 10_000

// RemoveLeftovers removes the drafts of all files of the row whose writers were
// killed.
func (r *Row) RemoveLeftovers() {
	removeLeftovers(r.root, isDraft)
	for _, name := range attachedDirs {
		if dir, err := enter(r.root, name, existing); err == nil {
			removeLeftovers(dir, isDraft)
			dir.Close()
		}
	}
}

// removeLeftovers removes drafts whose writers were killed. A living writer
// holds the lock of its draft. It is best effort: where nothing can be locked,
// nothing is removed.
func removeLeftovers(root *os.Root, matches func(entry string) bool) {
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	entries, _ := dir.Readdirnames(mostScanned)
	for _, entry := range entries {
		if matches(entry) {
			removeLeftover(root, entry)
		}
	}
}

// isDraftOf tells whether newDraft gave the name.
func isDraftOf(entry, name string) bool {
	rest, found := strings.CutPrefix(entry, name+".")
	return found && writerOf(rest) != 0
}

// writerOf is the process whose draft has this end of a name; 0 for the end of
// any other name.
func writerOf(rest string) int {
	var pid int
	var random uint32
	n, err := fmt.Sscanf(rest, "%d.%x.tmp", &pid, &random)
	if err != nil || n != 2 || pid < 1 || rest != fmt.Sprintf("%d.%08x.tmp", pid, random) {
		return 0
	}
	return pid
}

// writer is the process whose draft has this name, whatever the file is to be;
// 0 for any other name.
func writer(entry string) int {
	for at, c := range entry {
		if c == '.' && at > 0 {
			if pid := writerOf(entry[at+1:]); pid != 0 {
				return pid
			}
		}
	}
	return 0
}

// isDraft tells whether newDraft gave the name, whatever the file is to be.
func isDraft(entry string) bool { return writer(entry) != 0 }

func removeLeftover(root *os.Root, entry string) {
	info, err := root.Lstat(entry)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	if time.Since(info.ModTime()) < leftoverAge && !gone(writer(entry)) {
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

// gone tells whether no process here has the number. Drafts of another host, or
// of another container, have numbers that say nothing here; these are locked.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
