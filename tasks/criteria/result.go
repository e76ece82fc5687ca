package criteria

import (
	"strings"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// Kinds of results: the record's discriminator result_kind.
const (
	KindBasic          = "basic"
	KindClassification = "classification"
	KindJudge          = "judge"
)

// Evaluated is the Result.EvaluationStatus of a criterion that was checked, as
// every one is.
const Evaluated = "evaluated"

// Result is one criterion's result, with the record's keys in the record's
// order (run-record 2.4). The embedded pointers are nil, and their keys
// absent, in results of another kind.
type Result struct {
	Kind             string  `json:"result_kind"`
	CriterionType    string  `json:"criterion_type"`
	Description      string  `json:"description"`
	Score            float64 `json:"score"`   // 0..1
	Details          *string `json:"details"` // nil: nothing to say
	Error            *string `json:"error"`   // nil: the check itself worked
	EvaluationStatus string  `json:"evaluation_status"`
	PassThreshold    float64 `json:"pass_threshold"`
	Gating           bool    `json:"gating"` // weight above 0
	*Classification
	*Judgement
	*CommandOutput
}

// Classification are the keys that a result of KindClassification adds; the
// labels are nil when there was nothing to compare.
type Classification struct {
	ObservedLabel *string `json:"observed_label"`
	ExpectedLabel *string `json:"expected_label"`
}

// Judgement are the keys that a result of KindJudge adds.
type Judgement struct {
	Findings       []any             `json:"findings"`
	TokenUsage     *tasks.TokenUsage `json:"token_usage"`
	TranscriptPath *string           `json:"transcript_path"`
	// Transcript is what the caller keeps in the file that TranscriptPath is
	// to name; it is no part of the record.
	Transcript string `json:"-"`
}

// CommandOutput identifies the whole standard output of a run_command, of
// which Details hold a part.
type CommandOutput struct {
	StdoutBytes  int64  `json:"podgrade_stdout_bytes"`
	StdoutSHA256 string `json:"podgrade_stdout_sha256"`
}

// Passed says whether the score reaches the threshold.
func (r Result) Passed() bool { return r.Score >= r.PassThreshold }

// reasonLimit cuts a one-line reason, in characters (task-file 7.0).
const reasonLimit = 200

// Reason gives one line on why a result is as it is: its error, else the first
// line of its details, at most 200 characters. It is not neutralised.
func (r Result) Reason() string {
	text := ""
	switch {
	case r.Error != nil:
		text = *r.Error
	case r.Details != nil:
		text = *r.Details
	}
	line, _, _ := strings.Cut(python.Strip(text), "\n")
	line, _ = python.Cut(line, reasonLimit)
	return line
}
