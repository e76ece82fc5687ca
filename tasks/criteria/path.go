package criteria

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"

	"podgrade/tasks/criteria/python"
)

// match is one file that a criterion's path leads to.
type match struct {
	name    string // to be given to Files
	literal bool   // the path as it is written, not found by a glob
	kind    FileType
}

// listedMatches is how many matches an error names (task-file 7.1).
const listedMatches = 10

// resolve finds what a criterion's path leads to (task-file 7.1): the literal
// path when it exists, whatever it is, else the regular files that it matches
// as a glob. No match is no error; an existing path outside of the sandbox is
// a misuse, or scores 0.0 when only a link leads there.
func (j *judging) resolve(ctx context.Context, name string) ([]match, error) {
	literal := name
	if literal == "" {
		literal = "."
	}
	if strings.Contains(name, "\x00") {
		return nil, nil
	}
	file, err := j.where.Cell.Stat(ctx, literal)
	if err == nil {
		return []match{{name: literal, literal: true, kind: file.Type}}, nil
	}
	if errors.Is(err, ErrEscapes) {
		return nil, escape(literal, j.where.Workspace)
	}
	// Below a file nothing exists, as for Python.
	if !errors.Is(err, ErrNotExist) && !errors.Is(err, ErrNotDir) {
		return nil, fileTrouble(err, name)
	}
	if !strings.ContainsAny(name, "*?[") {
		return nil, nil
	}
	return j.globMatches(ctx, name)
}

// globMatches are the sorted regular files in the sandbox that a pattern finds
// and the ignore patterns leave.
func (j *judging) globMatches(ctx context.Context, pattern string) ([]match, error) {
	found, err := glob(ctx, j.where.Cell, pattern)
	if err != nil {
		return nil, err
	}
	pinned := map[string]bool{}
	for _, part := range strings.Split(pattern, "/") {
		pinned[part] = true
	}
	var matches []match
	for _, name := range found {
		file, err := j.where.Cell.Stat(ctx, name)
		switch {
		case errors.Is(err, ErrEscapes):
			j.note(fmt.Sprintf("'%s' matches '%s', which leads outside of the sandbox; it is left out", pattern, name))
			continue
		case errors.Is(err, ErrNotExist), errors.Is(err, ErrNotDir):
			continue
		case err != nil:
			return nil, fileTrouble(err, name)
		case file.Type != Regular, j.ignored(name, pinned):
			continue
		}
		matches = append(matches, match{name: name, kind: Regular})
	}
	sort.Slice(matches, func(a, b int) bool { return lessPath(matches[a].name, matches[b].name) })
	return matches, nil
}

// ignored says whether a part of name that the pattern does not spell out hits
// an ignore pattern. Parts are compared by name, not by position.
func (j *judging) ignored(name string, pinned map[string]bool) bool {
	for _, part := range strings.Split(name, "/") {
		if pinned[part] {
			continue
		}
		for _, pattern := range j.where.Ignore {
			if python.Fnmatch(strings.TrimSuffix(pattern, "/"), part) {
				return true
			}
		}
	}
	return false
}

// lessPath orders paths as Python orders Path objects: part by part.
func lessPath(a, b string) bool {
	left, right := strings.Split(a, "/"), strings.Split(b, "/")
	for i := 0; i < len(left) && i < len(right); i++ {
		if left[i] != right[i] {
			return left[i] < right[i]
		}
	}
	return len(left) < len(right)
}

// nameFirst lists matches, the first ten by name.
func nameFirst(matches []match) string {
	var names []string
	for i, m := range matches {
		if i == listedMatches {
			names = append(names, fmt.Sprintf("and %d more", len(matches)-listedMatches))
			break
		}
		names = append(names, "'"+m.name+"'")
	}
	return strings.Join(names, ", ")
}

// MaxFile is the largest file that a criterion reads, in bytes.
const MaxFile = 256 << 20

// subject is the one file whose content a criterion looks at.
type subject struct {
	name string
	// found is set when a glob found the file: a line for the details.
	found string
}

// one resolves the path of a criterion that looks at the content of exactly
// one file. Nothing there is a trouble of class FileNotFoundError.
func (j *judging) one(ctx context.Context, name string) (subject, error) {
	matches, err := j.resolve(ctx, name)
	switch {
	case err != nil:
		return subject{}, err
	case len(matches) == 0:
		return subject{}, &missing{name}
	case len(matches) > 1:
		return subject{}, &ambiguous{name, matches}
	case matches[0].literal:
		return subject{name: matches[0].name}, nil
	}
	return subject{name: matches[0].name, found: fmt.Sprintf("'%s' matches '%s'.", name, matches[0].name)}, nil
}

// oneText is one and the text of the file.
func (j *judging) oneText(ctx context.Context, name string) (file subject, text string, err error) {
	if file, err = j.one(ctx, name); err == nil {
		text, err = j.text(ctx, j.where.Cell, file.name)
	}
	return file, text, err
}

// missing: no file matches.
type missing struct{ name string }

func (e *missing) Error() string { return fmt.Sprintf("File not found: '%s'", e.name) }

// ambiguous: more than one file matches.
type ambiguous struct {
	name    string
	matches []match
}

func (e *ambiguous) Error() string {
	return fmt.Sprintf("'%s' matches %d files, and exactly one is needed: %s", e.name, len(e.matches), nameFirst(e.matches))
}

// text reads a file as Python's text mode does: strict UTF-8, every line end a
// line feed.
func (j *judging) text(ctx context.Context, files Files, name string) (string, error) {
	data, err := read(ctx, files, name)
	if err != nil {
		return "", err
	}
	text, err := python.DecodeStrict(data)
	if err != nil {
		return "", troublef("UnicodeDecodeError", "%v", err)
	}
	return python.Newlines(text), nil
}

func isDirectory(name string) error {
	return troublef("IsADirectoryError", "[Errno 21] Is a directory: '%s'", name)
}

// read reads a regular file of at most MaxFile bytes.
func read(ctx context.Context, files Files, name string) ([]byte, error) {
	data, err := files.Read(ctx, name, MaxFile)
	if err == nil {
		return data, nil
	}
	if errors.Is(err, ErrNotRegular) {
		if file, statErr := files.Stat(ctx, name); statErr == nil && file.Type == Directory {
			return nil, isDirectory(name)
		}
	}
	return nil, fileTrouble(err, name)
}

// clean is a path without ".", double slashes and a slash at the end, as
// Python's pathlib reads it. ".." stays.
func clean(name string) []string {
	var parts []string
	for _, part := range strings.Split(name, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts
}

func join(parent, name string) string {
	if parent == "" {
		return name
	}
	return path.Join(parent, name)
}
