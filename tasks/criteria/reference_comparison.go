package criteria

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// compareSource runs in the cell, by the image's own python3: only it knows
// its grammar. It reports what the sources are made of; the similarity is
// computed here.
//
//go:embed compare_source.py
var compareSource string

// compareTimeout bounds the reading of both sources.
const compareTimeout = 60 * time.Second

// methodComplexity is a method that podgrade does not offer, and why.
const (
	methodComplexity = "complexity"
	noComplexity     = "comparison_method complexity is not offered: its formula belongs to a Python package that images do not have; use ast or token, or a run_command that computes it"
)

// noProgram is the exit code of a shell that does not find a program.
const noProgram = 127

// referenceComparison compares Python source with the reference (task-file
// 7.14).
func (j *judging) referenceComparison(ctx context.Context, c *tasks.ReferenceComparison) (outcome, error) {
	if c.ComparisonMethod == methodComplexity {
		return outcome{}, misusef(noComplexity)
	}
	if j.where.Reference == nil {
		return outcome{}, misusef("the task has no reference directory; set reference.directory")
	}
	file, err := j.oneSource(ctx, c.AgentFile)
	if err != nil {
		return outcome{}, err
	}
	reference, err := j.referenceFile(ctx, c.ReferenceFile)
	if err != nil {
		return outcome{}, err
	}
	shape, err := j.sourceShape(ctx, c.ComparisonMethod, file.name, reference)
	if err != nil {
		return outcome{}, err
	}
	if shape.Failed != nil {
		if *shape.Failed != 0 {
			return outcome{}, misusef("the reference file '%s' cannot be compared: %s", c.ReferenceFile, shape.Why)
		}
		text := fmt.Sprintf("'%s' cannot be compared: %s", file.name, shape.Why)
		return outcome{details: text, err: text}, nil
	}
	ratio, err := python.SequenceRatio(shape.kinds(0), shape.kinds(1))
	if err != nil {
		return outcome{}, troublef("OverflowError", "%v: at most %d", err, python.MaxElements)
	}
	p := newParts(file)
	p.line(fmt.Sprintf("Similarity by %s: %.3f, needed: %.3f.", c.ComparisonMethod, ratio, c.SimilarityThreshold), "", nil)
	p.scores = append(p.scores, ratio)
	return p.outcome(), nil
}

// maxSource is the largest source that is compared, in bytes: python3 makes many
// times its size of it, in the memory of the cell.
const maxSource = 8 << 20

// oneSource is one for a file that a command opens, which would wait at a pipe.
func (j *judging) oneSource(ctx context.Context, name string) (subject, error) {
	source, err := j.one(ctx, name)
	if err != nil {
		return subject{}, err
	}
	file, err := j.where.Cell.Stat(ctx, source.name)
	switch {
	case err != nil:
		return subject{}, fileTrouble(err, source.name)
	case file.Type == Directory:
		return subject{}, isDirectory(source.name)
	case file.Type != Regular:
		return subject{}, fileTrouble(ErrNotRegular, source.name)
	case file.Size > maxSource:
		return subject{}, troublef("OverflowError", "the source is too large to be compared, %d bytes and at most %d: '%s'", file.Size, int64(maxSource), source.name)
	}
	return source, nil
}

// referenceFile finds the reference file and gives its path in the cell.
func (j *judging) referenceFile(ctx context.Context, name string) (string, error) {
	file, err := j.where.Reference.Stat(ctx, name)
	switch {
	case errors.Is(err, ErrNotExist), errors.Is(err, ErrNotDir):
		return "", misusef("the reference file '%s' does not exist in the reference directory", name)
	case errors.Is(err, ErrEscapes):
		return "", misusef("the reference file '%s' lies outside of the reference directory", name)
	case err != nil:
		return "", fileTrouble(err, name)
	case file.Type != Regular:
		return "", misusef("the reference file '%s' is no regular file", name)
	case path.IsAbs(name):
		return name, nil
	}
	return path.Join(j.where.ReferencePath, name), nil
}

// shape is what the script in the cell prints.
type shape struct {
	Names  []string `json:"names"`
	Files  [][]int  `json:"files"`
	Failed *int     `json:"failed"` // the file that could not be read
	Why    string   `json:"why"`
}

// kinds are the names of one file's nodes or tokens.
func (s shape) kinds(file int) []string {
	out := make([]string, len(s.Files[file]))
	for i, number := range s.Files[file] {
		out[i] = s.Names[number]
	}
	return out
}

// valid says whether all numbers have a name.
func (s shape) valid() bool {
	if s.Failed != nil {
		return true
	}
	for _, file := range s.Files {
		for _, number := range file {
			if number < 0 || number >= len(s.Names) {
				return false
			}
		}
	}
	return len(s.Files) == 2
}

// sourceShape runs the script. An image without python3 is the author's to
// mend, never a score; one from which the agent took it away is the agent's.
func (j *judging) sourceShape(ctx context.Context, method, agent, reference string) (shape, error) {
	if !path.IsAbs(agent) {
		agent = "./" + agent
	}
	words := []string{programPython, "-I", "-S", "-X", "utf8", "-c", compareSource, method, agent, reference}
	r, err := j.run(ctx, shellLine(words), compareTimeout)
	if err != nil {
		return shape{}, err
	}
	switch {
	case r.code == noProgram:
		return shape{}, j.lacking(programPython, "reference_comparison needs python3 in the image, and there is none; use an image with python3")
	case r.exit.TimedOut:
		return shape{}, troublef("TimeoutError", "python3 did not compare the sources within %s", compareTimeout)
	case r.exit.Stdout.Dropped > 0:
		return shape{}, troublef("OverflowError", "the sources are too large to be compared")
	case r.code != 0:
		return shape{}, troublef("RuntimeError", "python3 ended with exit code %d: %s", r.code, cutNote(r.stderr, reasonLimit))
	}
	var s shape
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil || !s.valid() {
		return shape{}, troublef("ValueError", "python3 printed something else than the comparison: '%s'", cutNote(r.stdout, reasonLimit))
	}
	return s, nil
}

// shellLine quotes words for a POSIX shell.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
