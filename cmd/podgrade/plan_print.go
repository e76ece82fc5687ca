package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/regrade"
)

// Bounds of what is shown of one file: findings, rows of one kind, strata.
// --json shows all.
const (
	mostFindings = 50
	mostNames    = 6
	mostStrata   = 20
)

// planPrinter writes a plan; each line is neutralised as a whole.
type planPrinter struct{ out *bufio.Writer }

func (p planPrinter) line(indent int, format string, args ...any) {
	fmt.Fprintf(p.out, "%*s%s\n", indent, "", policy.Neutral(fmt.Sprintf(format, args...)))
}

// printPlan prints a plan for a person. The error is of the writer.
func printPlan(w io.Writer, made *regrade.Plan) error {
	p := planPrinter{bufio.NewWriter(w)}
	p.experiment(made.Experiment)
	for _, file := range made.Files {
		p.line(0, "")
		p.file(file)
	}
	p.line(0, "")
	for _, problem := range made.Problems {
		p.line(0, "- %s", policy.Clip(problem.String(), mostError))
	}
	for _, need := range made.Needs {
		p.line(0, "run would refuse rows here: %s", need)
	}
	for _, need := range made.GradeNeeds {
		p.line(0, "run would execute rows that no grade can be made of here: %s", need)
	}
	p.line(0, "%s", summary(made))
	return p.out.Flush()
}

func (p planPrinter) experiment(e regrade.PlannedExperiment) {
	if e.Path == "" {
		p.line(0, "no experiment, the built-in settings")
		return
	}
	p.line(0, "experiment %s (%s), %s: %s", e.ID, e.Path, count(len(e.Variants), "variant"), names(e.Variants))
	if first, _, _ := strings.Cut(e.Description, "\n"); first != "" {
		p.line(2, "%s", policy.Clip(first, 2*mostDescription))
	}
	p.findings("warning: ", e.Warnings)
}

// file prints one file: its mark, what is wrong with it, and its rows.
func (p planPrinter) file(f *regrade.PlannedFile) {
	mark := "+"
	switch {
	case len(f.Problems) > 0:
		mark = "-"
	case len(f.Unresolved) > 0 || f.Skipped != "":
		mark = "~"
	}
	p.line(0, "%s %s", mark, f.Path)
	if f.TaskID != "" && f.Criteria > 0 {
		p.line(2, "task %s, %s", f.TaskID, criteriaCount(f.Criteria))
	}
	if f.Skipped != "" {
		p.line(2, "skipped: %s", f.Skipped)
	}
	p.findings("", f.Problems)
	p.findings("does not resolve, and run would skip it: ", f.Unresolved)
	p.findings("warning: ", f.Warnings)
	p.dataset(f.Dataset)
	if len(f.Problems) > 0 {
		return // what would be asked for matters once the file is right
	}
	for _, group := range groupRows(f.Rows) {
		p.rows(group)
	}
}

func (p planPrinter) findings(prefix string, list []regrade.Finding) {
	for i, finding := range list {
		if i == mostFindings {
			p.line(2, "%sand %d more; --json shows all", prefix, len(list)-i)
			return
		}
		p.line(2, "%s%s", prefix, finding)
	}
}

func (p planPrinter) dataset(d *regrade.PlannedDataset) {
	if d == nil {
		return
	}
	by := ""
	if len(d.Selectors) > 0 {
		by = " by " + strings.Join(d.Selectors, ", ")
	}
	p.line(2, "dataset: %s -> %d selected%s", count(d.Rows, "row"), d.Selected, by)
	for i, stratum := range slices.Sorted(maps.Keys(d.Strata)) {
		if i == mostStrata {
			p.line(4, "and %d more", len(d.Strata)-i)
			return
		}
		p.line(4, "stratum %q: %d", stratum, d.Strata[stratum])
	}
}

// rows prints rows that differ in nothing but their name.
func (p planPrinter) rows(group []*regrade.PlannedRow) {
	var dirs []string
	total := 0
	for _, row := range group {
		total += len(row.Dirs)
		dirs = append(dirs, row.Dirs...)
	}
	p.line(2, "%s: %s", count(total, "row"), names(dirs))
	one := group[0]
	p.line(4, "agent %s%s; driver %s, network %s", one.Agent, after(", model ", one.Model), one.Driver, one.Network)
	p.line(4, "engine %s%s, image %s", one.Engine, engineWhy(one), imageText(one))
	p.grants(one)
}

// engineWhy says why the engine is not the usual one.
func engineWhy(row *regrade.PlannedRow) string {
	if row.EngineReason == "default" {
		return ""
	}
	return " (" + row.EngineReason + ")"
}

func imageText(row *regrade.PlannedRow) string {
	switch {
	case row.Engine == isolation.EngineHost:
		return "none: on this host, as you"
	case row.Built:
		return "built from " + row.Image
	case row.DefaultImage && row.Image == "":
		return "the default one, and none is set"
	case row.DefaultImage:
		return row.Image + " (the default one)"
	}
	return row.Image
}

// grants prints what the phases ask for: first what both do.
func (p planPrinter) grants(row *regrade.PlannedRow) {
	var both, execute, grade []regrade.PlannedGrant
	for _, g := range row.Execute {
		if slices.Contains(row.Grade, g) {
			both = append(both, g)
		} else {
			execute = append(execute, g)
		}
	}
	for _, g := range row.Grade {
		if !slices.Contains(both, g) {
			grade = append(grade, g)
		}
	}
	for _, part := range []struct {
		title  string
		grants []regrade.PlannedGrant
	}{{"both phases ask for", both}, {"execute asks for", execute}, {"grade asks for", grade}} {
		if len(part.grants) == 0 {
			continue
		}
		p.line(4, "%s", part.title)
		for _, g := range part.grants {
			p.line(6, "- %s", grantText(g))
		}
	}
}

// grantText is a grant, with the usual capabilities in short.
func grantText(g regrade.PlannedGrant) string {
	if usual := oci.DockerCapabilities(); g.Kind == policy.Capabilities && g.Value == strings.Join(usual, " ") {
		return fmt.Sprintf("capabilities: the %d of upstream's containers, limited to the cell's own user namespace", len(usual))
	}
	return g.String()
}

// groupRows puts rows together that differ in nothing but their name, in the
// order of the first of each.
func groupRows(rows []*regrade.PlannedRow) [][]*regrade.PlannedRow {
	at := map[string]int{}
	var groups [][]*regrade.PlannedRow
	for _, row := range rows {
		same := *row
		same.Dirs, same.TaskID, same.Variant = nil, "", ""
		key := fmt.Sprintf("%+v", same)
		i, known := at[key]
		if !known {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], row)
	}
	return groups
}

// summary is the last line.
func summary(made *regrade.Plan) string {
	var refused, unresolved, skipped, rows int
	for _, file := range made.Files {
		switch {
		case len(file.Problems) > 0:
			refused++
			continue
		case len(file.Unresolved) > 0:
			unresolved++
		case file.Skipped != "":
			skipped++
		}
		for _, row := range file.Rows {
			rows += len(row.Dirs)
		}
	}
	text := fmt.Sprintf("%s: %d valid, %d refused", count(len(made.Files), "file"), len(made.Files)-refused-unresolved-skipped, refused)
	for _, more := range []struct {
		n    int
		word string
	}{{unresolved, "not resolved"}, {skipped, "skipped"}} {
		if more.n > 0 {
			text += fmt.Sprintf(", %d %s", more.n, more.word)
		}
	}
	if made.Missing > 0 {
		text += "; " + count(made.Missing, "name") + " of no file"
	}
	return text + "; " + count(rows, "row")
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func criteriaCount(n int) string {
	if n == 1 {
		return "1 criterion"
	}
	return fmt.Sprintf("%d criteria", n)
}

func names(list []string) string {
	if more := len(list) - mostNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:mostNames], ", "), more)
	}
	return strings.Join(list, ", ")
}

// after is the prefix and the text, or nothing without the text.
func after(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
