package record

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// ErrNoTaskConfig: the record holds no task to grade by.
var ErrNoTaskConfig = errors.New("the record holds no task_config")

// Record is one task.json: its document, and the values that podgrade reads
// from it, checked.
type Record struct {
	doc  *Object
	tail []byte // space after the document

	TaskID        string
	Description   string
	VariantID     string
	AgentType     string
	Status        Status
	Score         *float64 // weighted_score; nil is null
	Iterations    int      // iteration_count; 0 means that no agent phase ran
	MaxTurns      bool     // max_turns_exhausted
	SandboxPath   string   // "" is null
	EarlyStop     Raw      // null unless the run was stopped early
	Environment   *Object  // environment_info; changes to it are written
	Results       int      // number of success_criteria_results
	PreRunResults int
}

// Parse reads the text of a record. Unknown fields are legal and are kept.
// Errors name the field that cannot be used.
func Parse(data []byte) (*Record, error) {
	if len(data) > MaxRecord {
		return nil, fmt.Errorf("a record of %d bytes is larger than the limit of %d", len(data), MaxRecord)
	}
	doc, err := ParseObject(data)
	if err != nil {
		return nil, err
	}
	r := &Record{doc: doc, tail: trailingSpace(data)}
	f := fieldReader{doc: doc}
	r.TaskID = f.text(FieldTaskID, required)
	r.Description = f.text(FieldDescription, required)
	r.VariantID = f.textOr(FieldVariantID, defaultVariant)
	r.AgentType = f.text(FieldAgentType, required)
	r.Status = f.status()
	r.Score = f.score()
	r.Iterations = f.count(FieldIterationCount)
	r.MaxTurns = f.boolean(FieldMaxTurns)
	r.SandboxPath = f.text(FieldSandboxPath, optional)
	r.EarlyStop = f.objectOrNull(FieldEarlyStop)
	r.Environment = f.environment()
	r.Results = f.list(FieldCriteriaResults)
	r.PreRunResults = f.list(FieldPreRunResults)
	f.list(FieldPostRunResults)
	f.list(FieldIterations)
	if f.err != nil {
		return nil, f.err
	}
	return r, nil
}

func trailingSpace(data []byte) []byte {
	return bytes.Clone(data[len(bytes.TrimRight(data, " \t\r\n")):])
}

// Get returns a field as it stands; nil, which IsNull, when it is not there.
func (r *Record) Get(field string) Raw { return r.doc.Value(field) }

// Trajectory returns the turns of the agent's run, an array; nil when there
// are none. The old name of the field is accepted (spec/run-record.md 2.1).
func (r *Record) Trajectory() Raw {
	if raw, ok := r.doc.Get(FieldIterations); ok {
		return raw
	}
	return r.doc.Value(fieldTurns)
}

// Set gives a field a value that Encode accepts. A known field that the
// document lacks is put at its place in the writing order.
func (r *Record) Set(field string, value any) {
	if _, ok := r.doc.Get(field); ok || fieldIndex(field) < 0 {
		r.doc.Set(field, value)
		return
	}
	at := len(r.doc.members)
	for i, m := range r.doc.members {
		if fieldIndex(m.name) > fieldIndex(field) {
			at = i
			break
		}
	}
	r.doc.Set(field, value)
	added := r.doc.members[len(r.doc.members)-1]
	copy(r.doc.members[at+1:], r.doc.members[at:])
	r.doc.members[at] = added
}

// HasVerdict tells whether the row was graded: it has a score or results
// (spec/regrade.md 1.3).
func (r *Record) HasVerdict() bool { return r.Score != nil || r.Results > 0 }

// Bytes returns the text of the record. What was not set since Parse is the
// same bytes as before.
func (r *Record) Bytes() []byte {
	r.Set(FieldEnvironment, r.Environment)
	return append(r.doc.Bytes(), r.tail...)
}

// TaskConfig is the task that a record holds.
type TaskConfig struct {
	Resolved   Raw    // the whole task after its layers were merged; an object
	SourceYAML string // text of the task file; may be ""
	SourceFile string // path of the task file on the host that executed; may be ""
	Lineage    Raw    // where each value came from, by dotted path; an object or null
}

// TaskConfig returns the task that the record holds, ErrNoTaskConfig when it
// holds none (spec/regrade.md 1.9).
func (r *Record) TaskConfig() (TaskConfig, error) {
	raw := r.doc.Value(FieldTaskConfig)
	if raw.IsNull() {
		return TaskConfig{}, ErrNoTaskConfig
	}
	config, err := raw.Object()
	if err != nil {
		return TaskConfig{}, fmt.Errorf("the field task_config is not an object")
	}
	resolved := config.Value("resolved")
	if !resolved.isObject() {
		return TaskConfig{}, fmt.Errorf("the field task_config.resolved is not an object")
	}
	return TaskConfig{
		Resolved:   resolved,
		SourceYAML: config.Text("source_yaml"),
		SourceFile: config.Text("source_file"),
		Lineage:    config.Value("lineage"),
	}, nil
}

const (
	required = true
	optional = false
)

// fieldReader reads fields and keeps the first error.
type fieldReader struct {
	doc *Object
	err error
}

func (f *fieldReader) fail(field, want string) {
	if f.err == nil {
		f.err = fmt.Errorf("the field %s should be %s", field, want)
	}
}

func (f *fieldReader) text(field string, must bool) string {
	raw := f.doc.Value(field)
	if raw.IsNull() {
		if must {
			f.fail(field, "a string, and is missing")
		}
		return ""
	}
	s, ok := raw.Text()
	if !ok {
		f.fail(field, "a string")
	}
	return s
}

func (f *fieldReader) textOr(field, fallback string) string {
	if s := f.text(field, optional); s != "" {
		return s
	}
	return fallback
}

func (f *fieldReader) status() Status {
	name := f.text(FieldFinalStatus, required)
	status, err := ParseStatus(name)
	if err != nil && f.err == nil {
		f.err = err
	}
	return status
}

func (f *fieldReader) score() *float64 {
	raw := f.doc.Value(FieldWeightedScore)
	if raw.IsNull() {
		return nil
	}
	score, ok := raw.Number()
	if !ok || math.IsNaN(score) || score < 0 || score > 1 {
		f.fail(FieldWeightedScore, "null or a number between 0 and 1")
		return nil
	}
	return &score
}

func (f *fieldReader) count(field string) int {
	raw := f.doc.Value(field)
	n, ok := raw.Int()
	if !ok || n < 0 || n > math.MaxInt32 {
		f.fail(field, "a whole number that is not negative")
		return 0
	}
	return int(n)
}

func (f *fieldReader) boolean(field string) bool {
	raw := f.doc.Value(field)
	if raw.IsNull() {
		return false
	}
	b, ok := raw.Bool()
	if !ok {
		f.fail(field, "true or false")
	}
	return b
}

func (f *fieldReader) objectOrNull(field string) Raw {
	raw := f.doc.Value(field)
	if !raw.IsNull() && !raw.isObject() {
		f.fail(field, "an object or null")
	}
	return raw
}

func (f *fieldReader) list(field string) int {
	raw := f.doc.Value(field)
	if !raw.IsNull() && !raw.isArray() {
		f.fail(field, "a list")
	}
	return raw.Length()
}

func (f *fieldReader) environment() *Object {
	raw := f.doc.Value(FieldEnvironment)
	if raw.IsNull() {
		return NewObject()
	}
	o, err := raw.Object()
	if err != nil {
		f.fail(FieldEnvironment, "an object")
		return NewObject()
	}
	return o
}
