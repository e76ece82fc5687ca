package tasks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Place is a position in a file; Line 0 means the file as a whole, File "" no
// file at all (the value came from a default).
type Place struct {
	File         string
	Line, Column int // 1-based
}

// String is FILE:LINE:COLUMN as far as it is known.
func (p Place) String() string {
	file := quoteFile(p.File)
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return file
	}
	return fmt.Sprintf("%s:%d:%d", file, p.Line, p.Column)
}

// quoteFile leaves ordinary file names as they are.
func quoteFile(name string) string {
	if q := fmt.Sprintf("%q", name); q[1:len(q)-1] != name {
		return q
	}
	return name
}

// Problem is one thing that is wrong, or only odd, in what was read.
type Problem struct {
	Place Place
	// Path is the key, such as "success_criteria[2].path"; "" is the whole.
	Path string
	// Text says what is wrong and what is allowed.
	Text string
}

// String is "PLACE: PATH: TEXT".
func (p Problem) String() string {
	parts := make([]string, 0, 3)
	if place := p.Place.String(); place != "" {
		parts = append(parts, place)
	}
	if p.Path != "" {
		parts = append(parts, p.Path)
	}
	return strings.Join(append(parts, p.Text), ": ")
}

// Error makes a Problem an error of its own.
func (p Problem) Error() string { return p.String() }

// Invalid is the error of a file that could be read but is not valid: all
// problems in one go, in the order of the file.
type Invalid struct {
	What     string // "task file" or "experiment file" or "record"
	Name     string // of the file
	Problems []Problem
	Warnings []Problem // of what could be read
}

// maxShown bounds the text of an Invalid; a hostile file can hold thousands.
const maxShown = 50

// Error lists the problems, one a line.
func (e *Invalid) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "invalid %s %s: %d problem%s", e.What, quoteFile(e.Name), len(e.Problems), plural(len(e.Problems)))
	for i, p := range e.Problems {
		if i == maxShown {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Problems)-maxShown)
			break
		}
		b.WriteString("\n  " + p.String())
	}
	for i, p := range e.Warnings {
		if i == maxShown {
			break
		}
		b.WriteString("\n  warning: " + p.String())
	}
	return b.String()
}

// Unwrap gives the problems to errors.As.
func (e *Invalid) Unwrap() []error {
	list := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		list[i] = p
	}
	return list
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// maxProblems bounds what one file can make us keep.
const maxProblems = 1000

// report collects problems and warnings while a document is read.
type report struct {
	problems, warnings []Problem
}

func (r *report) fail(n *node, path, format string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, Problem{n.place(), path, fmt.Sprintf(format, args...)})
	}
}

func (r *report) warn(n *node, path, format string, args ...any) {
	if len(r.warnings) < maxProblems {
		r.warnings = append(r.warnings, Problem{n.place(), path, fmt.Sprintf(format, args...)})
	}
}

// err returns the problems as one error, nil when there are none.
func (r *report) err(what, name string) error {
	if len(r.problems) == 0 {
		return nil
	}
	return &Invalid{what, name, tidy(r.problems), tidy(r.warnings)}
}

// tidy returns problems in the order of the files, each once.
func tidy(list []Problem) []Problem {
	seen := map[Problem]bool{}
	list = slices.DeleteFunc(slices.Clone(list), func(p Problem) bool {
		before := seen[p]
		seen[p] = true
		return before
	})
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Place.File, b.Place.File),
			cmp.Compare(a.Place.Line, b.Place.Line), cmp.Compare(a.Place.Column, b.Place.Column))
	})
	return list
}

// Nearest returns " (did you mean X?)" for the closest of the names, or "".
func Nearest(name string, names []string) string {
	best, distance := "", mostEdits(name)+1
	if len(name) > 64 {
		return ""
	}
	for _, candidate := range names {
		if d := editDistance(name, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		best = lengthened(name, names)
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// mostEdits is how far a name may be from what was meant: two letters of four
// are another word.
func mostEdits(name string) int {
	const short = 5
	if len(name) < short {
		return 1
	}
	return max(2, len(name)/3)
}

// lengthened returns the only name that begins or ends with what was written,
// as claude-code with claude, or that what was written begins with; else "".
func lengthened(name string, names []string) (only string) {
	const shortest = 3
	if len(name) < shortest {
		return ""
	}
	for _, candidate := range names {
		if !strings.HasPrefix(candidate, name) && !strings.HasSuffix(candidate, name) && (len(candidate) <= shortest || !strings.HasPrefix(name, candidate)) {
			continue
		}
		if only != "" {
			return ""
		}
		only = candidate
	}
	return only
}

// editDistance counts insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// oneOf lists allowed values for a message.
func oneOf(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return strings.Join(values[:len(values)-1], ", ") + " or " + values[len(values)-1]
}
