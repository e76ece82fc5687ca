package regrade

import (
	"errors"
	"slices"
	"strings"

	"podgrade/tasks"
)

// Finding is one thing that a plan found wrong, or only odd.
type Finding struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"` // from 1; 0: the file as a whole
	Column int    `json:"column,omitempty"`
	Key    string `json:"key,omitempty"` // such as success_criteria[2].path
	Text   string `json:"text"`
}

// String is "FILE:LINE:COLUMN: KEY: TEXT", as far as it is known.
func (f Finding) String() string {
	return tasks.Problem{Place: tasks.Place{File: f.File, Line: f.Line, Column: f.Column}, Path: f.Key, Text: f.Text}.String()
}

func findingOf(p tasks.Problem) Finding {
	return Finding{p.Place.File, p.Place.Line, p.Place.Column, p.Path, p.Text}
}

func findings(list []tasks.Problem) []Finding {
	out := []Finding{}
	for _, p := range list {
		out = add(out, findingOf(p))
	}
	return out
}

// mostFindings bounds what is kept of one file.
const mostFindings = 1000

// add appends findings that are not there yet.
func add(list []Finding, more ...Finding) []Finding {
	for _, f := range more {
		if len(list) < mostFindings && !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	return list
}

// findingsOf takes an error of package tasks apart: all problems of it, or its
// text when it names none.
func findingsOf(err error) []Finding {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []Finding
		for _, each := range joined.Unwrap() {
			if isSentinel(each) {
				continue
			}
			all = add(all, findingsOf(each)...)
		}
		return all
	}
	var problem tasks.Problem
	if errors.As(err, &problem) {
		return []Finding{findingOf(problem)}
	}
	return []Finding{{Text: err.Error()}}
}

// isSentinel tells whether an error only classifies the one that it is joined
// with.
func isSentinel(err error) bool {
	return err == tasks.ErrEarlyStop || err == tasks.ErrRow || err == tasks.ErrNoSplit
}

// inFile gives findings that lie in no file, such as those about a default, that of
// the task: a reader of many must know which one is refused.
func inFile(file string, list []Finding) []Finding {
	for i, f := range list {
		if f.File == "" && !strings.Contains(f.Text, file) {
			list[i].File = file
		}
	}
	return list
}

// refuse adds what is wrong, and the warnings that came with it.
func (f *PlannedFile) refuse(err error) {
	var invalid *tasks.Invalid
	if errors.As(err, &invalid) {
		f.Warnings = add(f.Warnings, findings(invalid.Warnings)...)
	}
	f.Problems = add(f.Problems, inFile(f.Path, findingsOf(err))...)
}

// Error makes a finding an error of a list.
func (f Finding) Error() string { return f.String() }
