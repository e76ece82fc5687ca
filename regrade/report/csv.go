package report

import (
	"bufio"
	"io"
	"math"
	"strings"

	"podgrade/policy"
	"podgrade/tasks/criteria/python"
	"podgrade/tasks/record"
)

// csvLine is what the fields of a line are made from.
type csvLine struct {
	run string
	row *record.SummaryRow
	doc *record.Object
}

// csvColumn is a column of the table. Without a function its value is that of
// the row in run.json under the column's name.
type csvColumn struct {
	name string
	of   func(*csvLine) any
}

// csvColumns are the columns, in their order: which row it is, its verdict and
// what that is to be read with, what it took, what went wrong, where it is from.
var csvColumns = []csvColumn{
	{"run_id", func(l *csvLine) any { return policy.NeutralField(l.run) }},
	{"variant_id", func(l *csvLine) any { return policy.NeutralField(l.row.VariantID) }},
	{"task_id", func(l *csvLine) any { return policy.NeutralField(l.row.TaskID) }},
	{"replicate_index", func(l *csvLine) any { return l.row.Replicate }},
	{"status", func(l *csvLine) any { return policy.NeutralField(string(l.row.Status)) }},
	{record.FieldWeightedScore, nil},
	{"stamps", func(l *csvLine) any { return csvStamps(l.doc) }},
	{"duration_seconds", func(l *csvLine) any { return csvDuration(l.row) }},
	{record.FieldModelUsed, nil},
	{"input_tokens", nil},
	{"output_tokens", nil},
	{"cache_creation_input_tokens", nil},
	{"cache_read_input_tokens", nil},
	{"total_tokens", nil},
	{"agent_cost_usd", nil},
	{"judge_cost_usd", nil},
	{"total_cost_usd", nil},
	{"cost_complete", nil},
	{record.FieldActualCommands, nil},
	{"error_category", nil},
	{record.FieldErrorMessage, nil},
	{"tags", func(l *csvLine) any { return csvTags(l.doc) }},
	{"task_path", nil},
}

// CSV writes the rows of a run as a table, a line each below the names of the
// columns. What was not measured is an empty field, never 0.
func CSV(w io.Writer, s *record.Summary) error {
	buffered := bufio.NewWriter(w)
	fields := make([]any, len(csvColumns))
	for i, column := range csvColumns {
		fields[i] = column.name
	}
	buffered.WriteString(python.CSVLine(fields))
	for _, row := range s.Rows {
		line := &csvLine{s.RunID, row, row.Document()}
		for i, column := range csvColumns {
			if column.of != nil {
				fields[i] = column.of(line)
			} else {
				fields[i] = csvValue(line.doc.Value(column.name))
			}
		}
		buffered.WriteString(python.CSVLine(fields))
	}
	return buffered.Flush()
}

// csvValue is a value of run.json as a field: numbers and booleans as Python
// writes them, everything else a text that does no harm.
func csvValue(raw record.Raw) any {
	if text, ok := raw.Text(); ok {
		return policy.NeutralField(text)
	}
	value, err := python.LoadJSON(string(raw))
	if err != nil {
		return nil
	}
	switch value := value.(type) {
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return nil // no measure
		}
	case []any, *python.Dict:
		return policy.NeutralField(short(raw))
	}
	return value
}

// csvDuration is how long the row took. Nothing takes no time at all: a 0 stands
// in a summary where the record says nothing.
func csvDuration(row *record.SummaryRow) any {
	if row.Duration == 0 {
		return nil
	}
	return row.Duration
}

// csvStamps are the row's stamps, each with what it says.
func csvStamps(doc *record.Object) any {
	var all []string
	for _, stamp := range record.Stamps(doc) {
		all = append(all, stampText(stamp))
	}
	return csvTexts(all, "; ")
}

// csvTags are the row's tags; one that is no text is left out.
func csvTags(doc *record.Object) any {
	var all []string
	elements, _ := doc.Value("tags").Elements()
	for _, raw := range elements {
		if text, ok := raw.Text(); ok {
			all = append(all, text)
		}
	}
	return csvTexts(all, " ")
}

// csvTexts is one field of several texts.
func csvTexts(all []string, between string) any {
	if len(all) == 0 {
		return nil
	}
	return policy.NeutralField(strings.Join(all, between))
}
