package report

import (
	"fmt"
	"strconv"
	"strings"

	"podgrade/tasks/record"
)

// RunPage is run.md: what the run came to, and each of its rows.
func RunPage(s *record.Summary) []byte {
	p := &page{}
	p.line("# Run %s", code(s.RunID))
	counts := s.Counts()
	p.table("", "")
	p.row("rows", strconv.Itoa(counts.All))
	if n := s.NotRun(); n > 0 {
		p.row("more rows, not run", strconv.Itoa(n))
	}
	p.row("succeeded", strconv.Itoa(counts.Succeeded))
	p.row("failed", strconv.Itoa(counts.Failed))
	p.row("error", strconv.Itoa(counts.Errored))
	p.row("not graded", strconv.Itoa(counts.Ungraded))
	p.row("pass rate", percent(counts.PassRate))
	p.row("share of errors", percent(counts.ErrorShare))
	costs(p, s)
	p.row("started", moment(s.Start))
	p.row("ended", moment(s.End))
	if s.Framework != "" {
		p.row("version", code(s.Framework))
	}
	rows(p, s)
	skipped(p, s)
	return []byte(p.String())
}

func costs(p *page, s *record.Summary) {
	total, complete := s.Cost()
	text := "not known"
	if total != nil {
		text = money(record.Encode(*total))
	}
	if !complete {
		text += ", and more that nobody could price"
	}
	p.row("cost", text)
}

// rows lists the rows, and the messages of those that did not end well.
func rows(p *page, s *record.Summary) {
	p.line("\n## Rows")
	p.table("row", "status", "score", "time", "stamps")
	troubles := &page{}
	for _, row := range s.Rows {
		doc := row.Document()
		p.row(code(row.Identity.String()), state(row.Status), score(row.Score), seconds(row.Duration), stamps(doc))
		if message := doc.Text(record.FieldErrorMessage); message != "" {
			troubles.line("* %s %s%s", code(row.Identity.String()), codeOf(message, mostTrouble), whereAll(message))
		}
	}
	if troubles.Len() > 0 {
		p.line("\n## Errors\n")
		p.WriteString(troubles.String())
	}
}

// mostTrouble is more than a summary holds of a message, so that it is not cut
// once more here.
const mostTrouble = 2000

// whereAll says where all of a message is that the record or the summary cuts.
func whereAll(message string) string {
	if !strings.Contains(message, record.CutMark) {
		return ""
	}
	return fmt.Sprintf(", all of it in the row's %s, or of a grade in its %s", code(record.TaskLog), code(record.GradeLog))
}

func skipped(p *page, s *record.Summary) {
	if len(s.Skipped) == 0 {
		return
	}
	p.line("\n## Skipped\n")
	for _, skip := range s.Skipped {
		p.line("* %s %s", code(skip.Path), code(skip.Reason))
	}
}
