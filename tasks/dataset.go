package tasks

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Bounds of a dataset.
const (
	maxDatasetBytes = 64 << 20 // of one JSONL file
	maxDatasetRows  = 200_000
	maxDatasetNodes = 2_000_000 // of all rows
	maxExpanded     = 256 << 20 // bytes of all strings that substitution makes
)

// Selection says which rows of a dataset are taken (task-file 4.4).
type Selection struct {
	Split      string // "": all
	Sample     int    // 0: not asked; else beats PerStratum
	PerStratum int    // 0: what the dataset says
}

// Expansion is what a file's dataset makes of it.
type Expansion struct {
	// Files has one entry for each selected row, or the file itself when it
	// has no dataset.
	Files []*File
	// Rows counts all rows; 0 without a dataset.
	Rows int
	// Selectors names what really removed rows, such as "split test".
	Selectors []string
	// Strata counts selected rows by stratum; nil when none were drawn.
	Strata   map[string]int
	Warnings []Problem
}

// ErrNoSplit is wrapped when a labelled dataset has no row of the split; it
// ends the whole run (task-file 4.4).
var ErrNoSplit = errors.New("no row has this split")

// ErrRow is wrapped when a row lacks a field that the task uses, or when the
// field is not a scalar; it ends the whole run (task-file 11.4).
var ErrRow = errors.New("a dataset row does not fit the task")

// Expand makes the row tasks of a file.
func (l *Loader) Expand(f *File, selection Selection) (*Expansion, error) {
	if f.Task.Dataset == nil {
		return &Expansion{Files: []*File{f}}, nil
	}
	r := &report{}
	rows := readRows(f, r)
	e := &Expansion{Rows: len(rows)}
	ids := rowIDs(f, rows, r)
	if err := r.err("dataset of", f.Path); err != nil {
		return nil, err
	}
	chosen, err := e.choose(f, rows, selection)
	if err != nil {
		return nil, err
	}
	budget := maxExpanded
	for _, i := range chosen {
		row, err := l.rowFile(f, rows[i], ids[i], &budget)
		if err != nil {
			return nil, err
		}
		e.Files = append(e.Files, row)
	}
	return e, nil
}

// readRows returns the rows of the file or of its JSONL files, in order.
func readRows(f *File, r *report) (rows []*node) {
	at := f.root.get("dataset")
	if list := at.get("rows"); list != nil && list.kind == listNode {
		return list.items
	}
	budget := maxDatasetNodes
	for i, name := range f.Task.Dataset.Paths {
		where := at.get("paths").items[i]
		path := absolute(f.Dir, name)
		data, err := readRegular(path, maxDatasetBytes)
		if err != nil {
			r.fail(where, item("dataset.paths", i), "cannot read %s: %s", quoteFile(path), err)
			continue
		}
		rows = appendLines(rows, data, path, &budget, r)
	}
	if len(rows) == 0 && len(r.problems) == 0 {
		r.fail(at, "dataset", "has no rows")
	}
	return rows
}

// appendLines reads JSONL: blank lines are skipped, each other one is an object.
// budget is how many values may still be read.
func appendLines(rows []*node, data []byte, path string, budget *int, r *report) []*node {
	src := &source{file: path, layer: LayerTask}
	number := 0
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		at := &node{src: src, line: number, column: 1}
		if len(rows) >= maxDatasetRows {
			r.fail(at, "", "the dataset has more than %d rows", maxDatasetRows)
			return rows
		}
		own := &report{}
		n, used := readJSON(line, src, min(*budget, maxNodes), own)
		*budget -= used
		switch {
		case n == nil:
			r.fail(at, "", "%s", own.problems[0].Text)
		case n.kind != mapNode:
			r.fail(at, "", "a row must be a JSON object, got %s", n.show())
		default:
			n.line = number
			rows = append(rows, n)
		}
	}
	return rows
}

var rowID = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.\-]*$`)

// rowIDs checks the ids of all rows, before any is left out (task-file 4.2).
func rowIDs(f *File, rows []*node, r *report) []string {
	ids, first := make([]string, len(rows)), map[string]int{}
	field := f.Task.Dataset.IDField
	for i, row := range rows {
		at := row.get(field)
		if at == nil {
			r.fail(row, item("dataset.rows", i), "has no %s, the field that names it", quoteKey(field))
			continue
		}
		id, ok := Str(at.value())
		if !ok || !rowID.MatchString(id) {
			r.fail(at, item("dataset.rows", i)+"."+quoteKey(field), "must be letters, digits, _ . and -, got %s", at.show())
			continue
		}
		if other, taken := first[id]; taken {
			r.fail(at, item("dataset.rows", i)+"."+quoteKey(field), "%s also names row %d; ids must differ", quote(id), other)
			continue
		}
		ids[i], first[id] = id, i
	}
	return ids
}

// rowFile makes the task of one row and validates it anew.
func (l *Loader) rowFile(f *File, row *node, id string, budget *int) (*File, error) {
	s := &substitution{row: row, budget: budget}
	n := f.root
	if prompt := n.get("initial_prompt"); prompt != nil {
		n = n.with(s.apply(prompt), "initial_prompt")
	}
	n = n.with(s.apply(n.get("success_criteria")), "success_criteria")
	if s.err != nil {
		return nil, fmt.Errorf("cannot make row %s of %s: %w", quote(id), quoteFile(f.Path), s.err)
	}
	at := n.get("task_id")
	n = n.without("dataset").
		with(at.str(f.Task.TaskID+"/"+id), "task_id").
		with(at.str(f.Task.TaskID), "suite_id").
		with(at.str(id), "row_id")
	r := &report{}
	t := l.decoder(r, true).task(n)
	if err := r.err("row "+quote(id)+" of", f.Path); err != nil {
		return nil, err
	}
	t.warnings = f.Warnings
	return &File{Path: f.Path, Dir: f.Dir, Source: f.Source, Task: t, Warnings: f.Warnings, root: n}, nil
}

var rowReference = regexp.MustCompile(`\$\{row\.([A-Za-z_][A-Za-z0-9_]*)\}`)

// substitution replaces ${row.NAME} in every string below a node.
type substitution struct {
	row    *node
	budget *int
	err    error
}

func (s *substitution) apply(n *node) *node {
	switch n.kind {
	case stringNode:
		text := n.scalar.(string)
		if !strings.Contains(text, "${row.") {
			return n
		}
		return n.str(s.text(text))
	case listNode:
		c := *n
		c.items = slices.Clone(n.items)
		for i := range c.items {
			c.items[i] = s.apply(c.items[i])
		}
		return &c
	case mapNode:
		c := *n
		c.pairs = slices.Clone(n.pairs)
		for i := range c.pairs {
			c.pairs[i].value = s.apply(c.pairs[i].value)
		}
		return &c
	}
	return n
}

// text measures the result before it is made: a long value in many places
// must not fill the memory first.
func (s *substitution) text(text string) string {
	matches := rowReference.FindAllStringSubmatchIndex(text, -1)
	values, size := make([]string, len(matches)), len(text)
	for i, m := range matches {
		values[i] = s.value(text[m[2]:m[3]])
		size += len(values[i]) - (m[1] - m[0])
	}
	if *s.budget -= size; *s.budget < 0 && s.err == nil {
		s.err = fmt.Errorf("%w: the rows expand to more than %d MiB of text", ErrRow, maxExpanded>>20)
	}
	if s.err != nil {
		return ""
	}
	var b strings.Builder
	b.Grow(size)
	end := 0
	for i, m := range matches {
		b.WriteString(text[end:m[0]])
		b.WriteString(values[i])
		end = m[1]
	}
	b.WriteString(text[end:])
	return b.String()
}

// value is the text of one field: "" for null, else Python's str().
func (s *substitution) value(name string) string {
	at := s.row.get(name)
	switch {
	case at == nil:
		s.err = errors.Join(s.err, fmt.Errorf("%w: %s: the row has no field %s, which the task uses", ErrRow, s.row.place(), name))
		return ""
	case at.kind == nullNode:
		return ""
	}
	text, ok := Str(at.value())
	if !ok {
		s.err = errors.Join(s.err, fmt.Errorf("%w: %s: the field %s must be a scalar, got %s", ErrRow, s.row.place(), name, at.kind))
	}
	return text
}
