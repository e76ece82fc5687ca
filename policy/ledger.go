package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
)

// A signature can be taken away by whoever can write to a run directory, and what
// is left looks like a row that nobody ever signed. So what this user's key has
// signed is noted beside the key, where they cannot write: by the place of the row,
// a line for each signature, of which the last counts. It is no secret, and nothing
// is believed because of it: it only tells that something is gone.

// Half is what of a row is signed on its own.
type Half string

// The halves of a row.
const (
	RowHalf     Half = "row"
	VerdictHalf Half = "verdict"
)

const (
	ledgerFile    = "signed"
	olderLedger   = ledgerFile + ".old"
	notedSigned   = "signed"
	notedUnsigned = "unsigned"
)

// mostLedger bounds the ledger, in bytes: some 150,000 lines. A longer one becomes the
// older one, and what that held is forgotten.
var mostLedger int64 = 8 << 20

// ledger is what was read of the notes.
type ledger struct {
	mu     sync.Mutex
	file   fs.FileInfo // that was read; nil: none
	read   int64       // bytes of it
	signed map[string]bool
	failed bool // to note, which is said once
}

// Note notes that this user's own key has signed a half of the row at a place, or
// that it is left unsigned now. The error is told once.
func (k *Keys) Note(place string, half Half, signed bool) error {
	l := &k.notes
	l.mu.Lock()
	defer l.mu.Unlock()
	if place == "" || l.failed {
		return nil
	}
	l.refresh(k.Dir)
	name := ledgerName(place, half)
	if l.signed[name] == signed {
		return nil
	}
	if err := l.add(k.Dir, name, signed); err != nil {
		l.failed = true
		return fmt.Errorf("note in %s what was signed, so that a signature that is taken away is noticed: %w", k.Dir, err)
	}
	return nil
}

// Noted tells whether the last that was noted of a half of the row at a place is that
// this user's own key has signed it. What cannot be read is not known.
func (k *Keys) Noted(place string, half Half) bool {
	if k == nil || place == "" || k.Dir == "" {
		return false
	}
	l := &k.notes
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh(k.Dir)
	return l.signed[ledgerName(place, half)]
}

func ledgerName(place string, half Half) string {
	sum := sha256.Sum256([]byte(place))
	return hex.EncodeToString(sum[:16]) + " " + string(half)
}

// add writes a line, in one piece: many podgrades may do so at once. It begins with
// a line feed too, since a machine that crashed may have left half a line.
func (l *ledger) add(dir, name string, signed bool) error {
	root, err := openKeyDir(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	file, err := openLedger(root, ledgerFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	word := notedUnsigned
	if signed {
		word = notedSigned
	}
	if _, err = file.WriteString("\n" + name + " " + word + "\n"); err == nil {
		err = retire(root, file)
	}
	return errors.Join(err, file.Close())
}

// retire makes a ledger that has become too long the older one. Another podgrade may
// have done so since this one opened it: what has its name now is another, then, and
// stays. Whoever is about to do it keeps others from doing it too.
func retire(root *os.Root, file *os.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() <= mostLedger {
		return err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil && !errors.Is(err, syscall.ENOLCK) && !errors.Is(err, syscall.EOPNOTSUPP) {
		return err
	}
	named, err := root.Lstat(ledgerFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, named) {
		return nil
	}
	if err != nil {
		return err
	}
	return root.Rename(ledgerFile, olderLedger)
}

// refresh reads what was noted since it was read last.
func (l *ledger) refresh(dir string) {
	root, err := openKeyDir(dir)
	if err != nil {
		return
	}
	defer root.Close()
	file, err := openLedger(root, ledgerFile, os.O_RDONLY)
	if err == nil {
		defer file.Close()
	}
	var info fs.FileInfo
	if err == nil {
		info, err = file.Stat()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if l.signed == nil || (info == nil) != (l.file == nil) || info != nil && (!os.SameFile(info, l.file) || info.Size() < l.read) {
		l.signed, l.read = map[string]bool{}, 0
		if older, err := openLedger(root, olderLedger, os.O_RDONLY); err == nil {
			l.take(older, 2*mostLedger)
			older.Close()
		}
	}
	l.file = info
	if info == nil || info.Size() == l.read {
		return
	}
	if _, err := file.Seek(l.read, io.SeekStart); err == nil {
		l.read += l.take(file, 2*mostLedger)
	}
}

// take reads whole lines, and returns how many bytes they have.
func (l *ledger) take(file io.Reader, most int64) int64 {
	text, _ := io.ReadAll(io.LimitReader(file, most))
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			continue
		}
		switch name := words[0] + " " + words[1]; words[2] {
		case notedSigned:
			l.signed[name] = true
		case notedUnsigned:
			delete(l.signed, name)
		}
	}
	return int64(len(text))
}

// openLedger opens a file of the ledger, which nobody else may use.
func openLedger(root *os.Root, name string, flags int) (*os.File, error) {
	if info, err := root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	file, err := root.OpenFile(name, flags|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	if err == nil {
		err = private(info, name, "chmod 600 it")
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
