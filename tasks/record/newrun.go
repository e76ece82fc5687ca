package record

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// RunID names a run after the second in which it starts, local time. As text
// the ids sort by time (spec/run-record.md 1.1).
func RunID(start time.Time) string { return start.Local().Format("2006-01-02_15-04-05") }

// mostAlike is how many runs may start in one second.
const mostAlike = 1000

// NewRunDir makes a run directory and returns it absolute, with every link
// resolved. An explicit one, which the operator has named, may exist: see OnlyARun. Another
// one is made new, under the next free name: two runs that start in one second
// do not share a directory.
func NewRunDir(path string, explicit bool) (string, error) {
	if explicit {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return "", err
		}
		return resolved(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	name := path
	for n := 2; ; n++ {
		err := os.Mkdir(name, 0o755)
		if err == nil {
			return resolved(name)
		}
		if !errors.Is(err, fs.ErrExist) || n > mostAlike {
			return "", err
		}
		name = fmt.Sprintf("%s_%d", path, n)
	}
}

func resolved(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// PointLatest makes the link beside the run directory lead to it. Something
// else of that name than a link is left alone, and is an error.
func PointLatest(runDir string) error {
	parent, err := os.OpenRoot(filepath.Dir(runDir))
	if err != nil {
		return err
	}
	defer parent.Close()
	info, err := parent.Lstat(Latest)
	if err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("%s is a %s and no link: %w", filepath.Join(filepath.Dir(runDir), Latest), kindOf(info.Mode()), fs.ErrExist)
	}
	var random [4]byte
	rand.Read(random[:])
	temp := fmt.Sprintf("%s.%d.%s.tmp", Latest, os.Getpid(), hex.EncodeToString(random[:]))
	if err := parent.Symlink(filepath.Base(runDir), temp); err != nil {
		return err
	}
	if err := parent.Rename(temp, Latest); err != nil {
		parent.Remove(temp)
		return err
	}
	return nil
}

// Create makes the directory of a row below the run and opens it. It may
// exist. Nothing is made through a link.
func Create(runDir string, id Identity) (*Row, error) { return rowBelow(runDir, id, making) }

// OpenBelow opens the directory of a row below the run. No link is followed.
func OpenBelow(runDir string, id Identity) (*Row, error) { return rowBelow(runDir, id, existing) }

func rowBelow(runDir string, id Identity, how entering) (*Row, error) {
	elements, err := id.elements()
	if err != nil {
		return nil, err
	}
	dir, err := resolved(runDir)
	if err != nil {
		return nil, err
	}
	root, err := below(dir, elements, how)
	if err != nil {
		return nil, fmt.Errorf("in %s: %w", dir, err)
	}
	return &Row{Dir: filepath.Join(dir, filepath.Join(elements...)), root: root}, nil
}

// below opens a directory below another one; the elements are names.
func below(dir string, elements []string, how entering) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	for _, element := range elements {
		next, err := enter(root, element, how)
		root.Close()
		if err != nil {
			return nil, err
		}
		root = next
	}
	return root, nil
}

// elements are the names of the directories that lead from the run to the row.
func (i Identity) elements() ([]string, error) {
	elements := strings.Split(i.String(), "/")
	if strings.Contains(i.VariantID, "/") {
		return nil, fmt.Errorf("the variant %q cannot name a directory", clip(i.VariantID))
	}
	for _, element := range elements {
		switch {
		case element == "", element == ".", element == "..", strings.ContainsRune(element, 0):
			return nil, fmt.Errorf("the row %q cannot name a directory", clip(i.String()))
		case ofAgents(element):
			// Whatever lies below is an agent's, and never read as a record.
			return nil, fmt.Errorf("the row %q would lie in a directory named %s, which holds what is no row; give it another id", clip(i.String()), element)
		}
	}
	return elements, nil
}

// entering says what becomes of a directory that is not there.
type entering bool

const (
	existing entering = false // it is an error
	making   entering = true
)

// enter opens a directory below root; name is no path.
func enter(root *os.Root, name string, how entering) (*os.Root, error) {
	made := fs.ErrExist
	if how == making {
		made = root.Mkdir(name, 0o755)
	}
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return nil, made
	}
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("%s is a %s and no directory: %w", name, kindOf(before.Mode()), ErrNotPlain)
	}
	next, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	// A link that took its place in between leads elsewhere.
	if after, err := next.Stat("."); err != nil || !os.SameFile(before, after) {
		next.Close()
		return nil, fmt.Errorf("%s changed while it was opened: %w", name, ErrNotPlain)
	}
	if made == nil {
		if err := syncDir(root); err != nil {
			next.Close()
			return nil, err
		}
	}
	return next, nil
}
