package record

import (
	"math"
	"strings"
)

// Keys of a row of run.json (spec/run-record.md 6.3). Those that a record has
// too are under their record's names.
const (
	rowReplicate     = "replicate_index"
	rowStatus        = "status"
	rowDuration      = "duration"
	rowTags          = "tags"
	rowTaskPath      = "task_path"
	rowSimilarity    = "reference_similarity"
	rowInput         = "input_tokens" // the uncached ones only
	rowOutput        = "output_tokens"
	rowCreation      = "cache_creation_input_tokens"
	rowCacheRead     = "cache_read_input_tokens"
	rowTokens        = "total_tokens"
	rowTotalCost     = "total_cost_usd"
	rowAgentCost     = "agent_cost_usd"
	rowCostKnown     = "cost_complete"
	rowJudgeCost     = "judge_cost_usd"
	rowSimulatorCost = "simulator_cost_usd"
	rowErrorCategory = "error_category"
	rowTools         = "installed_tools"
	rowTurns         = "total_turns"
	rowVisible       = "visible_turns"
	rowExpected      = "expected_turns"
	rowReply         = "has_final_reply"
	rowStopped       = "stopped_early"
	rowStopReason    = "early_stop_reason"
	rowRemaining     = "turns_remaining_at_stop"
)

// SummaryRow is a row as run.json holds it, and what the aggregates need of
// its record. It does not hold on to the record: a run has many.
type SummaryRow struct {
	Identity
	Status     Status
	Score      *float64
	Duration   float64 // seconds
	SuiteID    string  // of a dataset task's row; else ""
	RowID      string
	Iterations int
	// Turns, Tokens and Similarity are nil when nothing is known.
	Turns      *int64 // of the model
	Tokens     *int64
	Similarity *float64

	text    Raw              // the row, laid out as deep as it stands in run.json
	results []criterionFacts // only of rows of a suite
}

// rowDepth is how deep a row stands in run.json.
const rowDepth = 2

// NewSummaryRow makes the row of a record. The path of the task file is as the
// operator gave it; "" is null.
func NewSummaryRow(r *Record, replicate int, taskPath string) *SummaryRow {
	task := r.task()
	s := &SummaryRow{Identity: Identity{VariantID: r.VariantID, TaskID: r.TaskID, Replicate: replicate}}
	s.SuiteID, s.RowID = task.Text("suite_id"), task.Text("row_id")
	if s.SuiteID != "" {
		s.results = criterionFactsOf(r, task)
	}
	s.set(rowDocument(r, s.Identity, task, taskPath))
	return s
}

// set makes the row that of the document.
func (s *SummaryRow) set(doc *Object) {
	s.text = appendObject(nil, doc, rowDepth)
	s.Identity = rowIdentity(doc)
	s.Status = Status(doc.Text(rowStatus))
	s.Score = numberOf(doc, FieldWeightedScore)
	if duration := numberOf(doc, rowDuration); duration != nil {
		s.Duration = *duration
	}
	if n := integerOf(doc, FieldIterationCount); n != nil {
		s.Iterations = int(*n)
	}
	s.Turns = nil
	if digests, _ := doc.Value(FieldIterations).Elements(); len(digests) > 0 {
		turns := int64(0)
		for _, digest := range digests {
			n, _ := objectOf(digest).Value("assistant_turn_count").Int()
			turns += n
		}
		s.Turns = &turns
	}
	s.Tokens = integerOf(doc, rowTokens)
	s.Similarity = numberOf(doc, rowSimilarity)
}

// Value is a member of the row, by its key in run.json. Whoever wants several
// takes the Document.
func (s *SummaryRow) Value(key string) Raw { return s.Document().Value(key) }

// Document is the row as an object, made anew: a run has many rows, of which
// only the text is kept.
func (s *SummaryRow) Document() *Object { return objectOf(s.text) }

// Explain appends to the row's error message, in run.json only: why a row
// could not be graded is no part of its record (spec/cli.md 4.2).
func (s *SummaryRow) Explain(reason string) {
	doc := s.Document()
	message := doc.Text(FieldErrorMessage)
	if message != "" {
		message += "; "
	}
	doc.Set(FieldErrorMessage, cut(message+reason))
	s.set(doc)
}

// task is the recorded task, an empty object when the record holds none.
func (r *Record) task() *Object {
	if config, err := r.TaskConfig(); err == nil {
		if task, err := config.Resolved.Object(); err == nil {
			return task
		}
	}
	return NewObject()
}

// rowDocument is the only definition of a row of run.json.
func rowDocument(r *Record, id Identity, task *Object, taskPath string) *Object {
	turns := turnFactsOf(r)
	usage := objectOf(r.Get(FieldTokenUsage))
	stop := objectOf(r.EarlyStop)
	limits := objectOf(task.Value("run_limits"))
	judges := judgeCost(r)
	simulator := (*float64)(nil)
	doc := NewObject()
	doc.Set(FieldTaskID, id.TaskID)
	doc.Set(rowReplicate, id.Replicate)
	doc.Set(rowStatus, string(r.Status))
	doc.Set(FieldWeightedScore, r.Score)
	doc.Set(rowDuration, orZero(r.Get(FieldDuration)))
	doc.Set(FieldIterationCount, r.Iterations)
	doc.Set(rowTags, orEmptyList(task.Value("tags")))
	doc.Set(rowTaskPath, orNull(taskPath))
	doc.Set(FieldIterations, turns.digests)
	doc.Set(FieldModelUsed, laidOut(r.Get(FieldModelUsed)))
	doc.Set(rowSimilarity, similarity(r))
	doc.Set(rowInput, uncached(usage))
	doc.Set(rowOutput, laidOut(usage.Value("output_tokens")))
	doc.Set(rowCreation, laidOut(usage.Value("cache_creation_input_tokens")))
	doc.Set(rowCacheRead, laidOut(usage.Value("cache_read_input_tokens")))
	doc.Set(rowTokens, allTokens(r))
	agent := numberOf(usage, "total_cost_usd")
	doc.Set(rowTotalCost, plus(plus(agent, judges), simulator))
	doc.Set(rowAgentCost, agent)
	doc.Set(rowCostKnown, r.Status != Timeout && !turns.unpriced)
	doc.Set(rowJudgeCost, judges)
	doc.Set(rowSimulatorCost, simulator)
	message, _ := r.Get(FieldErrorMessage).Text()
	doc.Set(FieldErrorMessage, orNull(cut(message)))
	doc.Set(rowErrorCategory, laidOut(objectOf(r.Get(FieldErrorDetails)).Value(rowErrorCategory)))
	doc.Set(FieldExpectedCommands, laidOut(r.Get(FieldExpectedCommands)))
	doc.Set(FieldActualCommands, laidOut(r.Get(FieldActualCommands)))
	doc.Set(FieldEfficiency, laidOut(r.Get(FieldEfficiency)))
	doc.Set(FieldAgentConfig, laidOut(r.Get(FieldAgentConfig)))
	doc.Set(FieldSDKOptions, laidOut(r.Get(FieldSDKOptions)))
	doc.Set(rowTools, laidOut(r.Environment.Value(rowTools)))
	doc.Set(rowTurns, turns.modelTurns)
	doc.Set(rowVisible, turns.visible())
	doc.Set(rowExpected, laidOut(limits.Value(rowExpected)))
	doc.Set(FieldMaxTurns, r.MaxTurns)
	doc.Set(rowReply, turns.reply)
	doc.Set(rowStopped, !r.EarlyStop.IsNull())
	doc.Set(rowStopReason, laidOut(stop.Value("reason")))
	doc.Set(rowRemaining, laidOut(stop.Value(rowRemaining)))
	doc.Set(FieldVariantID, id.VariantID)
	stampRow(doc, r)
	return doc
}

// stampRow puts the row's stamps, which a verdict is read with, into its line.
func stampRow(doc *Object, r *Record) {
	clearStamps(doc)
	for _, stamp := range Stamps(r.Environment) {
		doc.Set(stamp.Name, nested(stamp.Value))
	}
}

// laidOut takes a value apart, so that it is indented where it comes to stand
// and not as it was in its record.
func laidOut(raw Raw) any {
	if raw.IsNull() {
		return nil
	}
	return nested(raw)
}

func orZero(raw Raw) any {
	if n, ok := raw.Number(); !ok || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0.0
	}
	return raw
}

func orEmptyList(raw Raw) any {
	if !raw.isArray() {
		return []any{}
	}
	return nested(raw)
}

// objectOf is the object that the value is; an empty one when it is none.
func objectOf(raw Raw) *Object {
	if raw.isObject() {
		if o, err := raw.Object(); err == nil {
			return o
		}
	}
	return NewObject()
}

// integerOf is a whole number of the object; nil when it holds none.
func integerOf(o *Object, name string) *int64 {
	n, ok := o.Value(name).Int()
	if !ok {
		return nil
	}
	return &n
}

// numberOf is a finite number of the object; nil when it holds none.
func numberOf(o *Object, name string) *float64 {
	n, ok := o.Value(name).Number()
	if !ok || math.IsNaN(n) || math.IsInf(n, 0) {
		return nil
	}
	return &n
}

// mostMessage is how many characters of an error message a row holds: a
// summary stays small when all its rows failed.
const mostMessage = 400

// CutMark ends a message that is longer than a record or a summary holds.
const CutMark = "..."

func cut(message string) string {
	runes := 0
	for i := range message {
		if runes++; runes > mostMessage {
			return message[:i] + CutMark
		}
	}
	return message
}

// uncached are the input tokens outside of the cache; older records have them
// under another name (spec/run-record.md 2.5).
func uncached(usage *Object) any {
	if raw := usage.Value("uncached_input_tokens"); !raw.IsNull() {
		return raw
	}
	return laidOut(usage.Value("input_tokens"))
}

// allTokens is the sum of the four buckets; null when nothing was reported.
func allTokens(r *Record) any {
	usage := objectOf(r.Get(FieldTokenUsage))
	if len(usage.members) == 0 {
		return nil
	}
	sum := int64(0)
	if raw, ok := uncached(usage).(Raw); ok {
		n, _ := raw.Int()
		sum += n
	}
	for _, bucket := range []string{"output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"} {
		n, _ := usage.Value(bucket).Int()
		sum += n
	}
	return sum
}

// turnFacts are what a summary says about a row's turns.
type turnFacts struct {
	digests    []any
	commands   int
	modelTurns int64
	reply      bool
	unpriced   bool // a turn used tokens whose price nobody knew
}

func turnFactsOf(r *Record) *turnFacts {
	facts := &turnFacts{digests: []any{}}
	turns, _ := r.Trajectory().Elements()
	for _, raw := range turns {
		facts.add(objectOf(raw))
	}
	return facts
}

func (f *turnFacts) add(turn *Object) {
	commands := turn.Value("commands").Length()
	f.commands += commands
	n, _ := turn.Value("num_turns").Int()
	f.modelTurns += n
	if strings.TrimSpace(objectOf(turn.Value("result_summary")).Text("result")) != "" {
		f.reply = true
	}
	usage := objectOf(turn.Value("token_usage"))
	if used(usage) && numberOf(usage, "total_cost_usd") == nil {
		f.unpriced = true
	}
	digest := NewObject()
	digest.Set("iteration", laidOut(turn.Value("iteration")))
	digest.Set("duration_seconds", orZero(turn.Value("duration_seconds")))
	digest.Set("command_count", commands)
	assistant, _ := turn.Value("assistant_turn_count").Int()
	digest.Set("assistant_turn_count", assistant)
	crashed, _ := turn.Value("crashed").Bool()
	digest.Set("crashed", crashed)
	digest.Set("crash_reason", laidOut(turn.Value("crash_reason")))
	f.digests = append(f.digests, digest)
}

func used(usage *Object) bool {
	for _, bucket := range []string{"uncached_input_tokens", "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"} {
		if n, ok := usage.Value(bucket).Int(); ok && n > 0 {
			return true
		}
	}
	return false
}

// visible is how many turns a reader sees: each command, and the reply.
func (f *turnFacts) visible() int {
	if f.reply {
		return f.commands + 1
	}
	return f.commands
}

// similarity is the score of the first comparison with the reference.
func similarity(r *Record) any {
	results, _ := r.Get(FieldCriteriaResults).Elements()
	for _, raw := range results {
		if result := objectOf(raw); result.Text("criterion_type") == "reference_comparison" {
			return laidOut(result.Value("score"))
		}
	}
	return nil
}

// judgeCost is what the judges reported; nil when none did.
func judgeCost(r *Record) *float64 {
	var sum *float64
	results, _ := r.Get(FieldCriteriaResults).Elements()
	for _, raw := range results {
		sum = plus(sum, numberOf(objectOf(objectOf(raw).Value("token_usage")), "total_cost_usd"))
	}
	return sum
}
