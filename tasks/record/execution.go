package record

import (
	"errors"
	"fmt"
	"math"
	"time"

	"podgrade/tasks"
)

// Execution is all that an execute knows of its row. New makes the record of
// it (spec/run-record.md 2.2).
type Execution struct {
	TaskID      string
	Description string
	VariantID   string // "": default
	AgentType   string
	Model       string // the configured one; a turn that names one wins
	Started     time.Time
	Completed   time.Time // zero: null
	Duration    time.Duration
	Setup       *time.Duration // nil: the agent's phase was not reached
	Status      Status
	MaxTurns    bool
	// Iterations is iteration_count: 0 means that no agent phase ran.
	Iterations       int
	Turns            []Turn
	ErrorMessage     string
	ErrorDetails     *ErrorDetails
	ErrorLogTail     string
	Environment      *Object
	AgentConfig      any // resolved; nil: null
	SDKOptions       any
	SandboxPath      string // "" when no workspace was kept
	TaskConfig       *TaskConfig
	ExpectedCommands int // 0: the task names none
	PreRun           []HookResult
	Simulation       any
	EarlyStop        *EarlyStop
}

// New makes the record of a row that was executed and not graded: every field
// in its place, null written out, and what follows from the turns computed.
// An execute gives no verdict, so a status that only a grade can give is an
// error.
func New(e Execution) (*Record, error) {
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("cannot make the record of %s: %w", clip(e.TaskID), err)
	}
	for i := range e.Turns {
		e.Turns[i].complete()
	}
	doc := NewObject()
	values := e.values()
	for _, field := range fields {
		doc.Set(field, values[field])
	}
	// Read as every other record is read, so that what was written can be.
	r, err := Parse(doc.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the record of %s would not be readable: %w", clip(e.TaskID), err)
	}
	return r, nil
}

func (e *Execution) check() error {
	if e.TaskID == "" || e.AgentType == "" || e.Started.IsZero() {
		return errors.New("task_id, agent_type and started_at are needed")
	}
	if _, err := ParseStatus(string(e.Status)); err != nil {
		return err
	}
	if e.Status != NotGraded && !e.Status.ExecutionFact() {
		return fmt.Errorf("the status %s is a grade's to give", e.Status)
	}
	return nil
}

func (e *Execution) values() map[string]any {
	t := totalsOf(e.Turns, e.Model)
	var expected *int
	if e.ExpectedCommands > 0 {
		expected = &e.ExpectedCommands
	}
	environment := e.Environment
	if environment == nil {
		environment = NewObject()
	}
	return map[string]any{
		FieldTaskID:           e.TaskID,
		FieldDescription:      e.Description,
		FieldVariantID:        orDefault(e.VariantID),
		FieldAgentType:        e.AgentType,
		FieldModelUsed:        t.model,
		FieldStartedAt:        TimeOf(e.Started),
		FieldCompletedAt:      orNull(string(TimeOf(e.Completed))),
		FieldDuration:         e.Duration.Seconds(),
		FieldSetupMS:          milliseconds(e.Setup),
		FieldGradingMS:        nil,
		FieldFinalStatus:      string(e.Status),
		FieldMaxTurns:         e.MaxTurns,
		FieldWeightedScore:    nil,
		FieldIterationCount:   e.Iterations,
		FieldCriteriaResults:  []any{},
		FieldPostFailure:      []any{},
		FieldIterations:       e.Turns,
		FieldErrorMessage:     orNull(e.ErrorMessage),
		FieldErrorDetails:     e.ErrorDetails,
		FieldErrorLogTail:     orNull(e.ErrorLogTail),
		FieldEnvironment:      environment,
		FieldAgentConfig:      e.AgentConfig,
		FieldSDKOptions:       e.SDKOptions,
		FieldSandboxPath:      orNull(e.SandboxPath),
		FieldTaskConfig:       e.TaskConfig.document(),
		FieldCommandStats:     t.stats,
		FieldTokenUsage:       t.usage,
		FieldAssistantTurns:   t.assistant,
		FieldExpectedCommands: expected,
		FieldActualCommands:   t.commands,
		FieldEfficiency:       efficiency(expected, t.commands),
		FieldPreRunResults:    e.PreRun,
		FieldPostRunResults:   []any{},
		FieldSimulation:       e.Simulation,
		FieldEarlyStop:        e.EarlyStop,
	}
}

// defaultVariant is the variant of a row that names none.
const defaultVariant = "default"

func orDefault(variant string) string {
	if variant == "" {
		return defaultVariant
	}
	return variant
}

// orNull is null for an empty string.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// milliseconds keeps three decimals; nil is null.
func milliseconds(d *time.Duration) any {
	if d == nil {
		return nil
	}
	return math.Round(float64(*d)/float64(time.Microsecond)) / 1000
}

// NewTaskConfig is the task that a row's record holds: the resolved task as it
// was authored, the text of its file, and where each value came from
// (spec/run-record.md 2.6). The path is the file's on this host.
func NewTaskConfig(task *tasks.Task, source []byte, path string) (*TaskConfig, error) {
	resolved, err := task.MarshalJSON()
	if err != nil {
		return nil, err
	}
	// Upstream's task has no such key, and refuses keys that it does not know.
	if task.Sandbox.Podman == nil {
		doc := objectOf(resolved)
		sandbox := objectOf(doc.Value("sandbox"))
		sandbox.Delete("podman")
		doc.Set("sandbox", sandbox)
		resolved = doc.Bytes()
	}
	return &TaskConfig{Resolved: resolved, SourceYAML: string(source), SourceFile: path, Lineage: Encode(task.Lineage())}, nil
}

// SetTaskConfig makes the record hold another task.
func (r *Record) SetTaskConfig(c *TaskConfig) { r.Set(FieldTaskConfig, c.document()) }

func (c *TaskConfig) document() any {
	if c == nil {
		return nil
	}
	doc := NewObject()
	doc.Set("resolved", Nested(c.Resolved))
	doc.Set("source_yaml", c.SourceYAML)
	doc.Set("source_file", orNull(c.SourceFile))
	lineage := Nested(c.Lineage)
	if c.Lineage.IsNull() {
		lineage = NewObject()
	}
	doc.Set("lineage", lineage)
	return doc
}

// Nested takes JSON text apart, so that it is written as deep as it stands and
// not in its own layout. Text that is not JSON is null.
func Nested(text Raw) any {
	raw, err := parseValue(text)
	if err != nil {
		return nil
	}
	return nested(raw)
}

func nested(raw Raw) any {
	if !raw.isObject() && !raw.isArray() {
		return raw
	}
	if o, err := raw.Object(); raw.isObject() && err == nil {
		for i := range o.members {
			o.members[i].value = nested(o.members[i].value.(Raw))
		}
		return o
	}
	elements, err := raw.Elements()
	if err != nil {
		return raw
	}
	list := make([]any, len(elements))
	for i, element := range elements {
		list[i] = nested(element)
	}
	return list
}
