package criteria

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"podgrade/tasks/criteria/python"
	"podgrade/tasks/internal/peer"
)

// diskFiles are the files below a directory of this machine.
type diskFiles string

func diskError(err error) error {
	var pathError *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP): // as a cell says
		return ErrNotExist
	case errors.As(err, &pathError) && strings.Contains(pathError.Err.Error(), "not a directory"):
		return ErrNotDir
	}
	return err
}

func diskType(mode fs.FileMode) FileType {
	switch {
	case mode.IsDir():
		return Directory
	case mode.IsRegular():
		return Regular
	case mode&fs.ModeSymlink != 0:
		return Symlink
	}
	return Other
}

func (d diskFiles) Stat(_ context.Context, name string) (File, error) {
	info, err := os.Stat(string(d) + "/" + name)
	if err != nil {
		return File{}, diskError(err)
	}
	return File{Name: name, Path: name, Type: diskType(info.Mode())}, nil
}

func (d diskFiles) Read(_ context.Context, name string, _ int64) ([]byte, error) {
	data, err := os.ReadFile(string(d) + "/" + name)
	return data, diskError(err)
}

func (d diskFiles) List(_ context.Context, name string) ([]File, error) {
	entries, err := os.ReadDir(string(d) + "/" + name)
	if err != nil {
		return nil, diskError(err)
	}
	var out []File
	for _, entry := range entries {
		out = append(out, File{Name: entry.Name(), Type: diskType(entry.Type())})
	}
	return out, nil
}

const globScript = `
import fnmatch, json, os, pathlib, sys
cases = json.load(sys.stdin)
root = pathlib.Path(cases["root"])
found = []
for pattern in cases["patterns"]:
    try:
        matches = {p for p in root.glob(pattern) if p.is_file()}
        found.append([str(p.relative_to(root)) for p in sorted(matches)])
    except Exception:
        found.append(None)
names = [fnmatch.fnmatchcase(name, pattern) for pattern, name in cases["names"]]
json.dump({"found": found, "names": names}, sys.stdout)
`

// growTree makes files, directories and links with names that patterns find
// hard.
func growTree(t *testing.T, g *rand.Rand, root string) {
	t.Helper()
	names := []string{"a", "b", "ab", "a.txt", ".hid", "A", "x-1", "x]", "[a]", "a!b", "é", "-", "a.b.c", "日"}
	dirs := []string{root}
	for range 120 {
		dir := dirs[g.IntN(len(dirs))]
		name := filepath.Join(dir, names[g.IntN(len(names))])
		if _, err := os.Lstat(name); err == nil {
			continue
		}
		var err error
		switch g.IntN(6) {
		case 0, 1:
			if err = os.Mkdir(name, 0o755); err == nil {
				dirs = append(dirs, name)
			}
		case 2:
			err = os.Symlink([]string{".", "..", "a", "nowhere", root + "/a"}[g.IntN(5)], name)
		default:
			err = os.WriteFile(name, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func joinRandom(g *rand.Rand, pieces []string, most int, between string) string {
	var parts []string
	for range 1 + g.IntN(most) {
		parts = append(parts, pieces[g.IntN(len(pieces))])
	}
	return strings.Join(parts, between)
}

// TestGlobAgreesWithPython compares which regular files pathlib finds, and
// fnmatch on single names.
func TestGlobAgreesWithPython(t *testing.T) {
	g := rand.New(rand.NewPCG(13, 14))
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	growTree(t, g, root)
	for _, loop := range []string{"lo", "a.lo"} {
		if err := os.Symlink(loop, filepath.Join(root, loop)); err != nil {
			t.Fatal(err)
		}
	}
	pieces := []string{"a", "b", "*", "?", "**", "*.txt", ".*", "[ab]", "[!a]*", "a*", "*b", "[[]a]", "x[]]", "x[-1]?", "x-[0-9]", "[a", "[]", "[!]", "[z-a]", "a.?.c", "é", "??", "*[!.]*", "[^a]", "lo", "*lo", "ab", "A", ".", "a**"}
	var cases struct {
		Root     string      `json:"root"`
		Patterns []string    `json:"patterns"`
		Names    [][2]string `json:"names"`
	}
	cases.Root = root
	for len(cases.Patterns) < 900 {
		// Without a wildcard a path is never a pattern.
		if pattern := joinRandom(g, pieces, 3, "/"); strings.ContainsAny(pattern, "*?[") {
			cases.Patterns = append(cases.Patterns, pattern)
		}
	}
	letters := []string{"a", "b", "[", "]", "!", "-", "*", "?", "^", "\\", ".", "z", "é", "\n", "[a-c]", "[!a]", "[]a]", "[!]a]", "[c-a]", "[a-]", "[-a]", "[--0]", "[&&a]", "[~~]", "[||]", "[[]", "[a-c-e]", "[\\a]"}
	for range 3000 {
		cases.Names = append(cases.Names, [2]string{joinRandom(g, letters, 5, ""), joinRandom(g, []string{"a", "b", "c", "-", "]", "[", "!", "^", "\\", ".", "é", "\n", "&", "|", "~", ""}, 4, "")})
	}
	var want struct {
		Found [][]string `json:"found"`
		Names []bool     `json:"names"`
	}
	peer.Ask(t, globScript, cases, &want)
	hits := 0
	for i, pattern := range cases.Patterns {
		got, err := foundFiles(t, root, pattern)
		if (err != nil) != (want.Found[i] == nil) || !slices.Equal(got, want.Found[i]) {
			t.Errorf("glob(%q) is %q (%v), and in Python %q", pattern, got, err, want.Found[i])
		}
		if len(got) > 0 {
			hits++
		}
	}
	t.Logf("%d of %d patterns find something", hits, len(cases.Patterns))
	for i, pair := range cases.Names {
		if got := python.Fnmatch(pair[0], pair[1]); got != want.Names[i] {
			t.Errorf("fnmatch(%q, %q) is %v, and in Python %v", pair[1], pair[0], got, want.Names[i])
		}
	}
}

// foundFiles are the regular files that a pattern finds, in Python's order.
func foundFiles(t *testing.T, root, pattern string) ([]string, error) {
	names, err := glob(t.Context(), diskFiles(root), pattern)
	if err != nil {
		return nil, err
	}
	files := []string{}
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	slices.SortFunc(files, func(a, b string) int {
		if lessPath(a, b) {
			return -1
		}
		return 1
	})
	return files, nil
}
