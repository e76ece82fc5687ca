package tasks

// FileExists passes when its path matches something (task-file 7.3).
type FileExists struct {
	Base
	Path string `json:"path" task:"required"`
}

// FileContains looks for substrings of one file (task-file 7.4).
type FileContains struct {
	Base
	Path     string   `json:"path" task:"required"`
	Includes []string `json:"includes" task:"required"`
	Excludes []string `json:"excludes" task:"null"`
}

// FileMatchesRegex searches one file for a Python regular expression
// (task-file 7.5).
type FileMatchesRegex struct {
	Base
	Path      string `json:"path" task:"required"`
	Pattern   string `json:"pattern" task:"required"`
	MustMatch bool   `json:"must_match" task:"default=true"`
	Flags     int    `json:"flags"` // of Python's re module
}

// FileCheck combines substrings and patterns on one file (task-file 7.6).
type FileCheck struct {
	Base
	Path     string        `json:"path" task:"required"`
	Includes []string      `json:"includes"`
	Excludes []string      `json:"excludes"`
	Patterns []FilePattern `json:"patterns"`
}

// FilePattern is one Python regular expression of a FileCheck.
type FilePattern struct {
	Pattern   string `json:"pattern" task:"required"`
	MustMatch bool   `json:"must_match" task:"default=true"`
	Flags     int    `json:"flags"` // of Python's re module
}

// JSONCheck judges one JSON file by a schema and assertions (task-file 7.7).
type JSONCheck struct {
	Base
	Path string `json:"path" task:"required"`
	// JSONSchema is the path of a schema in the workspace; "": none.
	JSONSchema string          `json:"json_schema" task:"null"`
	Assertions []JSONAssertion `json:"assertions"`
}

// Operators of a JSONAssertion.
const (
	OpEquals    = "equals"
	OpNotEquals = "not_equals"
	OpContains  = "contains"
	OpGT        = "gt"
	OpGTE       = "gte"
	OpLT        = "lt"
	OpLTE       = "lte"
	OpType      = "type"
	OpRegex     = "regex"
	OpExists    = "exists"
)

// JSONAssertion compares the result of a JMESPath expression with a value.
type JSONAssertion struct {
	Expression string `json:"expression" task:"required"`
	Operator   string `json:"operator" task:"default=equals,enum=equals|not_equals|contains|gt|gte|lt|lte|type|regex|exists"`
	// Expected is a value as Value describes; nil is null.
	Expected any `json:"expected" task:"null"`
}

// ClassificationMatch compares the label in a file (task-file 7.12).
type ClassificationMatch struct {
	Base
	Path          string   `json:"path" task:"required"`
	ExpectedLabel string   `json:"expected_label" task:"required"`
	AllowedLabels []string `json:"allowed_labels" task:"required,min=1"`
	CaseSensitive bool     `json:"case_sensitive"`
}

// ReferenceComparison compares Python source with the reference (task-file
// 7.14). PassThreshold always equals SimilarityThreshold.
type ReferenceComparison struct {
	Base
	AgentFile string `json:"agent_file" task:"required"`
	// ReferenceFile is relative to the reference directory.
	ReferenceFile       string  `json:"reference_file" task:"required,nonblank"`
	ComparisonMethod    string  `json:"comparison_method" task:"default=ast,enum=ast|token|complexity"`
	SimilarityThreshold float64 `json:"similarity_threshold" task:"default=0.8,min=0,max=1"`
}
