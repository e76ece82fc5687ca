package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"podgrade/policy"
	"podgrade/tasks/record"
)

//go:embed row.html
var rowTemplate string

// rowPage is the template of a row; html/template escapes all that it is
// given.
var rowPage = template.Must(template.New("row").Parse(rowTemplate))

// Bounds of a row's page, in characters and in entries.
const (
	mostText  = 20_000
	mostTurns = 500
	mostCalls = 2_000
)

// rowView is what the template shows: strings that are safe to look at.
type rowView struct {
	Label, Description, Status, Score, Category string
	Facts                                       []fact
	Stamps                                      []fact
	Criteria                                    []criterionView
	Turns                                       []turnView
	More                                        string
	Error, ErrorLog                             string
	Environment                                 []fact
}

type fact struct{ Name, Value string }

type criterionView struct{ Mark, Score, Title, Details, Error string }

type turnView struct {
	Number, Asked, Answered, Crash string
	Calls                          []callView
}

type callView struct{ Tool, Status, Parameters, Result string }

// RowPage writes task.html: a row as a page for a browser. It holds no script,
// loads nothing, and shows the record's text as text.
func RowPage(w io.Writer, r *record.Record, id record.Identity) error {
	return rowPage.Execute(w, viewOf(r, id))
}

func viewOf(r *record.Record, id record.Identity) *rowView {
	message, _ := r.Get(record.FieldErrorMessage).Text()
	tail, _ := r.Get(record.FieldErrorLogTail).Text()
	v := &rowView{
		Label: line(id.String()), Description: text(r.Description), Status: string(r.Status),
		Score: score(r.Score), Category: string(r.Status.Category()), Error: text(message), ErrorLog: text(tail),
	}
	for _, field := range []string{
		record.FieldAgentType, record.FieldModelUsed, record.FieldStartedAt, record.FieldDuration, record.FieldIterationCount,
		record.FieldActualCommands, record.FieldTokenUsage, record.FieldSandboxPath,
	} {
		if value := r.Get(field); !value.IsNull() {
			v.Facts = append(v.Facts, fact{field, line(short(value))})
		}
	}
	for _, stamp := range record.Stamps(r.Environment) {
		v.Stamps = append(v.Stamps, fact{stamp.Name, line(short(stamp.Value))})
	}
	for _, name := range r.Environment.Names() {
		v.Environment = append(v.Environment, fact{line(name), line(short(r.Environment.Value(name)))})
	}
	for _, result := range r.CriterionResults() {
		v.Criteria = append(v.Criteria, criterionViewOf(result))
	}
	v.turns(r)
	return v
}

func criterionViewOf(c record.CriterionResult) criterionView {
	mark := "failed"
	switch {
	case !c.Evaluated:
		mark = "not evaluated"
	case c.Passed:
		mark = "passed"
	}
	if !c.Gating {
		mark += ", informational"
	}
	return criterionView{
		Mark: mark, Score: fmt.Sprintf("%.3f", c.Score), Title: line(c.Type + ": " + c.Description),
		Details: text(c.Details), Error: text(c.Error),
	}
}

// turns shows what the agent was asked, did and answered, within bounds.
func (v *rowView) turns(r *record.Record) {
	turns, _ := r.Trajectory().Elements()
	calls := 0
	for i, raw := range turns {
		if i == mostTurns {
			v.More = fmt.Sprintf("%d more turns are in the record", len(turns)-i)
			return
		}
		turn, err := raw.Object()
		if err != nil {
			continue
		}
		view := turnView{
			Number: fmt.Sprint(i + 1), Asked: text(turn.Text("user_input")), Answered: text(turn.Text("agent_output")),
			Crash: line(turn.Text("crash_reason")),
		}
		commands, _ := turn.Value("commands").Elements()
		for _, raw := range commands {
			if calls++; calls > mostCalls {
				v.More = "more calls are in the record"
				break
			}
			if call, err := raw.Object(); err == nil {
				view.Calls = append(view.Calls, callView{
					Tool: line(call.Text("tool_name")), Status: line(call.Text("result_status")),
					Parameters: text(short(call.Value("parameters"))), Result: text(call.Text("result_summary")),
				})
			}
		}
		v.Turns = append(v.Turns, view)
	}
}

// line is a string of the record on one line, text is one of several.
func line(s string) string { return policy.Clip(s, mostCell) }

func text(s string) string { return policy.NeutralText(cutText(s, mostText)) }
