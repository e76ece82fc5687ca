package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// note notes, and fails the test where that cannot be done.
func note(t *testing.T, keys *Keys, place string, half Half, signed bool) {
	t.Helper()
	if err := keys.Note(place, half, signed); err != nil {
		t.Fatal(err)
	}
}

func keysWithKey(t *testing.T) *Keys {
	t.Helper()
	keys := newKeys(t)
	if _, err := keys.Public(); err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestTheLastThatWasNotedCounts, of each half of each place, for whoever reads it.
func TestTheLastThatWasNotedCounts(t *testing.T) {
	keys := keysWithKey(t)
	other := &Keys{Dir: keys.Dir} // of another podgrade
	expect := func(what string, row, verdict bool) {
		t.Helper()
		for _, k := range []*Keys{keys, other, {Dir: keys.Dir}} {
			if k.Noted("/runs/a/00", RowHalf) != row || k.Noted("/runs/a/00", VerdictHalf) != verdict || k.Noted("/runs/b/00", RowHalf) {
				t.Errorf("%s: row %t, verdict %t", what, k.Noted("/runs/a/00", RowHalf), k.Noted("/runs/a/00", VerdictHalf))
			}
		}
	}
	expect("nothing", false, false)
	note(t, keys, "/runs/a/00", RowHalf, true)
	expect("the row", true, false)
	note(t, other, "/runs/a/00", VerdictHalf, true)
	expect("its verdict", true, true)
	before, _ := os.ReadFile(filepath.Join(keys.Dir, ledgerFile))
	note(t, keys, "/runs/a/00", VerdictHalf, true)
	note(t, keys, "/runs/b/00", RowHalf, false)
	if again, _ := os.ReadFile(filepath.Join(keys.Dir, ledgerFile)); string(again) != string(before) {
		t.Errorf("what is known is noted again: %q", again)
	}
	note(t, keys, "/runs/a/00", VerdictHalf, false)
	expect("a verdict that nobody signed", true, false)
	if (*Keys)(nil).Noted("/runs/a/00", RowHalf) || (&Keys{}).Noted("/runs/a/00", RowHalf) || keys.Noted("", RowHalf) {
		t.Error("something is known of nothing")
	}
}

// TestHalfALineLosesNoOther, as a machine that crashed leaves one, nor does a line of
// nonsense.
func TestHalfALineLosesNoOther(t *testing.T) {
	keys := keysWithKey(t)
	note(t, keys, "/a", RowHalf, true)
	file := filepath.Join(keys.Dir, ledgerFile)
	for _, junk := range []string{"0123", "\x00\x00\x00", "a row maybe", "too many words in a line", ledgerName("/a", RowHalf)} {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, append(text, junk...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		other := &Keys{Dir: keys.Dir}
		note(t, other, "/after "+junk, RowHalf, true)
		for _, k := range []*Keys{keys, other, {Dir: keys.Dir}} {
			if !k.Noted("/a", RowHalf) || !k.Noted("/after "+junk, RowHalf) {
				t.Errorf("after %q something is not known", junk)
			}
		}
	}
}

// TestALongLedgerForgetsWhatIsOldest, and nothing else, also for who had read it.
func TestALongLedgerForgetsWhatIsOldest(t *testing.T) {
	before := mostLedger
	t.Cleanup(func() { mostLedger = before })
	mostLedger = 1000
	keys := keysWithKey(t)
	reader := &Keys{Dir: keys.Dir}
	for i := range 100 {
		note(t, keys, fmt.Sprint("/", i), RowHalf, true)
		if !reader.Noted(fmt.Sprint("/", i), RowHalf) {
			t.Fatalf("the line %d is not known", i)
		}
	}
	known := 0
	for i := range 100 {
		if reader.Noted(fmt.Sprint("/", i), RowHalf) {
			known++
		}
	}
	if known < 20 || known > 50 || reader.Noted("/0", RowHalf) {
		t.Errorf("%d of 100 are known", known)
	}
	entries, _ := os.ReadDir(keys.Dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Size() > 2*mostLedger || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
}

// TestALongLedgerIsRetiredOnce: who opened it before another podgrade did that does not
// put the new one in its place.
func TestALongLedgerIsRetiredOnce(t *testing.T) {
	before := mostLedger
	t.Cleanup(func() { mostLedger = before })
	mostLedger = 100
	keys := keysWithKey(t)
	note(t, keys, "/first", RowHalf, true)
	root, err := openKeyDir(keys.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	file, err := openLedger(root, ledgerFile, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(strings.Repeat("\n", 100)); err != nil {
		t.Fatal(err)
	}
	note(t, keys, "/second", RowHalf, true) // which retires it
	for range 2 {
		if err := retire(root, file); err != nil {
			t.Fatal(err)
		}
		for _, place := range []string{"/first", "/second"} {
			if !(&Keys{Dir: keys.Dir}).Noted(place, RowHalf) {
				t.Errorf("%s is not known", place)
			}
		}
		note(t, keys, "/third", RowHalf, true) // in the new one
	}
}

// TestManyMayNoteAtOnce: no line of one is lost in that of another.
func TestManyMayNoteAtOnce(t *testing.T) {
	keys := keysWithKey(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			own := &Keys{Dir: keys.Dir}
			for j := range 50 {
				if err := own.Note(fmt.Sprintf("/%d/%d", i, j), RowHalf, true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i := range 8 {
		for j := range 50 {
			if !keys.Noted(fmt.Sprintf("/%d/%d", i, j), RowHalf) {
				t.Errorf("%d of %d is not known", j, i)
			}
		}
	}
}

// TestALedgerThatIsNone is neither read nor written to, which is said once.
func TestALedgerThatIsNone(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"a link": func(file string) error {
			return errors.Join(os.WriteFile(file+".x", []byte("\n"+ledgerName("/a", RowHalf)+" signed\n"), 0o600), os.Symlink(filepath.Base(file)+".x", file))
		},
		"a directory": func(file string) error { return os.Mkdir(file, 0o700) },
		"a pipe":      func(file string) error { return syscall.Mkfifo(file, 0o600) },
		"one for all": func(file string) error {
			return errors.Join(os.WriteFile(file, []byte("\n"+ledgerName("/a", RowHalf)+" signed\n"), 0o600), os.Chmod(file, 0o666))
		},
		"in an open place": func(file string) error { return os.Chmod(filepath.Dir(file), 0o777) },
	} {
		keys := keysWithKey(t)
		file := filepath.Join(keys.Dir, ledgerFile)
		if err := spoil(file); err != nil {
			t.Fatal(err)
		}
		if keys.Noted("/a", RowHalf) {
			t.Errorf("%s: it is believed", name)
		}
		err := keys.Note("/b", RowHalf, true)
		if err == nil || !strings.Contains(err.Error(), "a signature that is taken away") {
			t.Errorf("%s: %v", name, err)
		}
		if err := keys.Note("/c", RowHalf, true); err != nil {
			t.Errorf("%s: said again: %v", name, err)
		}
		if text, _ := os.ReadFile(file + ".x"); strings.Count(string(text), "\n") > 2 {
			t.Errorf("%s: it was written to: %q", name, text)
		}
	}
}
