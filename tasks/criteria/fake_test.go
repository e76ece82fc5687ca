package criteria_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path"
	"sort"
	"strings"
	"sync"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// sandbox is where a fakeCell says that its root lies.
const sandbox = "/work/workspace"

// fakeFile is one file of a fakeCell.
type fakeFile struct {
	kind   criteria.FileType
	data   []byte
	target string // of a link
	fails  error  // what reading and listing gives
}

// fakeCell is a cell in memory. Names below outside exist and are not in the
// sandbox.
type fakeCell struct {
	files   map[string]fakeFile
	outside map[string]bool
	run     func(command criteria.Command) (criteria.Exit, error)
	mu      sync.Mutex
	ran     []criteria.Command
}

// newCell makes a cell of text files.
func newCell(texts map[string]string) *fakeCell {
	c := &fakeCell{files: map[string]fakeFile{".": {kind: criteria.Directory}}, outside: map[string]bool{"/etc/passwd": true, "/": true, "/work": true}}
	for name, text := range texts {
		c.add(name, fakeFile{kind: criteria.Regular, data: []byte(text)})
	}
	return c
}

// add puts a file in place, with its parents.
func (c *fakeCell) add(name string, file fakeFile) *fakeCell {
	c.files[name] = file
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := c.files[dir]; !ok {
			c.files[dir] = fakeFile{kind: criteria.Directory}
		}
	}
	return c
}

// find resolves a name to a key of files.
func (c *fakeCell) find(name string) (string, error) {
	for hops := 0; hops < 40; hops++ {
		if path.IsAbs(name) {
			inner := strings.TrimPrefix(path.Clean(name), sandbox)
			if inner == path.Clean(name) {
				if c.outside[path.Clean(name)] {
					return "", criteria.ErrEscapes
				}
				return "", criteria.ErrNotExist
			}
			name = strings.TrimPrefix(inner, "/")
		}
		name = path.Clean(name)
		if name == ".." || strings.HasPrefix(name, "../") {
			name = path.Join(sandbox, name)
			continue
		}
		parts := strings.Split(name, "/")
		again := false
		for i := range parts {
			prefix := path.Join(parts[:i+1]...)
			file, ok := c.files[prefix]
			switch {
			case !ok:
				return "", criteria.ErrNotExist
			case file.kind == criteria.Symlink:
				rest := path.Join(parts[i+1:]...)
				name = path.Join(path.Dir(prefix), file.target, rest)
				if path.IsAbs(file.target) {
					name = path.Join(file.target, rest)
				}
				again = true
			case i < len(parts)-1 && file.kind != criteria.Directory:
				return "", criteria.ErrNotDir
			}
			if again {
				break
			}
		}
		if !again {
			return name, nil
		}
	}
	return "", criteria.ErrNotExist // a loop of links
}

func (c *fakeCell) Stat(_ context.Context, name string) (criteria.File, error) {
	key, err := c.find(name)
	if err != nil {
		return criteria.File{}, err
	}
	file := c.files[key]
	if file.fails != nil && file.kind == "" {
		return criteria.File{}, file.fails
	}
	return criteria.File{Name: name, Path: key, Type: file.kind, Size: int64(len(file.data))}, nil
}

func (c *fakeCell) Read(_ context.Context, name string, limit int64) ([]byte, error) {
	key, err := c.find(name)
	if err != nil {
		return nil, err
	}
	file := c.files[key]
	switch {
	case file.fails != nil:
		return nil, file.fails
	case file.kind != criteria.Regular:
		return nil, criteria.ErrNotRegular
	case int64(len(file.data)) > limit:
		return nil, criteria.ErrTooLarge
	}
	return file.data, nil
}

func (c *fakeCell) List(_ context.Context, name string) ([]criteria.File, error) {
	key, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if file := c.files[key]; file.fails != nil {
		return nil, file.fails
	} else if file.kind != criteria.Directory {
		return nil, criteria.ErrNotDir
	}
	var entries []criteria.File
	for other, file := range c.files {
		if other != "." && path.Dir(other) == key {
			entries = append(entries, criteria.File{Name: path.Base(other), Path: other, Type: file.kind})
		}
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return entries, nil
}

func (c *fakeCell) Run(_ context.Context, command criteria.Command) (criteria.Exit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran = append(c.ran, command)
	if c.run == nil {
		return criteria.Exit{}, errors.New("the cell is lost")
	}
	return c.run(command)
}

// printed makes a run that prints and exits.
func printed(stdout string, code int) func(criteria.Command) (criteria.Exit, error) {
	return func(criteria.Command) (criteria.Exit, error) {
		return criteria.Exit{Code: code, Stdout: output(stdout), Stderr: output("to stderr\r\n")}, nil
	}
}

func output(text string) criteria.Output {
	digest := sha256.Sum256([]byte(text))
	return criteria.Output{Text: []byte(text), Bytes: int64(len(text)), SHA256: hex.EncodeToString(digest[:])}
}

// expectation is one row of a table: a criterion and what becomes of it.
type expectation struct {
	name      string
	criterion tasks.Criterion
	where     criteria.Surroundings
	score     float64
	err       string // part of the error; empty: there is none
	details   string // part of the details
	author    string // part of the author error
	infra     string // part of the infrastructure error
}

// common fills in the fields that every criterion has.
func common(kind string) tasks.Base {
	return tasks.Base{Type: kind, Description: "of a test", Weight: 1, PassThreshold: 0.9}
}

func check(t *testing.T, table []expectation) {
	t.Helper()
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			if row.where.Cell == nil {
				row.where.Cell = newCell(nil)
			}
			results, err := criteria.Check(t.Context(), []tasks.Criterion{row.criterion}, row.where)
			var author *criteria.AuthorError
			var infra *criteria.InfrastructureError
			switch {
			case row.author != "":
				if !errors.As(err, &author) || !strings.Contains(author.Error(), row.author) {
					t.Fatalf("error is %v, want an author error with %q", err, row.author)
				}
				return
			case row.infra != "":
				if !errors.As(err, &infra) || !strings.Contains(infra.Error(), row.infra) {
					t.Fatalf("error is %v, want an infrastructure error with %q", err, row.infra)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			compare(t, row, results[0])
		})
	}
}

func compare(t *testing.T, row expectation, got criteria.Result) {
	t.Helper()
	if got.Score != row.score {
		t.Errorf("score is %v, want %v", got.Score, row.score)
	}
	text, details := "", ""
	if got.Error != nil {
		text = *got.Error
	}
	if got.Details != nil {
		details = *got.Details
	}
	if (row.err == "") != (text == "") || !strings.Contains(text, row.err) {
		t.Errorf("error is %q, want %q", text, row.err)
	}
	if !strings.Contains(details, row.details) {
		t.Errorf("details are %q, want %q in them", details, row.details)
	}
	if got.EvaluationStatus != criteria.Evaluated {
		t.Errorf("evaluation status is %q", got.EvaluationStatus)
	}
}

// write writes a file of the machine that tests run on.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
