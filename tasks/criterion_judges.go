package tasks

// JudgeInput says what a judge is shown (task-file 7.15).
type JudgeInput struct {
	// Enabled false: no call, score 1.0, still weighted.
	Enabled bool `json:"enabled" task:"default=true"`
	// Files are paths of the workspace, or begin with $TASK_DIR or
	// $REFERENCE_DIR.
	Files              []string `json:"files"`
	IncludeReference   bool     `json:"include_reference" task:"default=true"`
	IncludeAgentOutput bool     `json:"include_agent_output"`
	IncludeToolCalls   bool     `json:"include_tool_calls"`
	IncludeDialog      bool     `json:"include_dialog"`
	// The limits count characters.
	MaxDialogChars     int  `json:"max_dialog_chars" task:"default=80000,min=1"`
	MaxFileChars       int  `json:"max_file_chars" task:"default=20000,min=1"`
	CaptureTranscript  bool `json:"capture_transcript" task:"default=true"`
	MaxTranscriptChars int  `json:"max_transcript_chars" task:"default=100000,min=1"`
}

// LLMJudge asks a model for a verdict.
type LLMJudge struct {
	Base
	Prompt string `json:"prompt" task:"required"`
	JudgeInput
	Model       string  `json:"model" task:"null"` // "": the route's
	Temperature float64 `json:"temperature" task:"default=0,min=0,max=2"`
	MaxTokens   int     `json:"max_tokens" task:"default=2000,min=1"`
}

// AgentJudge lets an agent look at a copy of the workspace.
type AgentJudge struct {
	Base
	Prompt string `json:"prompt" task:"required"`
	JudgeInput
	MaxTurns    int   `json:"max_turns" task:"default=50,min=1"`
	TurnTimeout int   `json:"turn_timeout" task:"default=300,min=10"` // seconds
	Agent       Agent `json:"agent"`
}

// SystemOneJudge asks a vendor's API a set of questions.
type SystemOneJudge struct {
	Base
	Questions map[string]Question `json:"questions" task:"required,min=1"`
	Prompt    string              `json:"prompt"`
	Scoring   string              `json:"scoring" task:"default=expected,enum=expected|argmax"`
	JudgeInput
	MaxStateChars int    `json:"max_state_chars" task:"default=100000,min=1"` // per section
	Model         string `json:"model" task:"null"`                           // "": the vendor's default
	BaseURL       string `json:"base_url" task:"default=https://api.typesafe.ai/v1"`
	// APIKeyEnv is the name of the host variable with the key.
	APIKeyEnv      string  `json:"api_key_env" task:"default=TYPESAFE_API_KEY"`
	TimeoutSeconds float64 `json:"timeout_seconds" task:"default=60,above=0"`
}

// Types of a Question.
const (
	QuestionNoul   = "noul"   // yes or no
	QuestionChoice = "choice" // one of several
	QuestionScore  = "score"  // a place in an order
)

// Question is one question of a SystemOneJudge.
type Question struct {
	Type         string  `json:"type" task:"required,enum=noul|choice|score"`
	Instructions string  `json:"instructions" task:"required"`
	Weight       float64 `json:"weight" task:"default=1,min=0,finite"`
	// Expected is the right answer: a bool of noul (default true), a name of a
	// choice, nil for score.
	Expected any `json:"expected" task:"kinds=noul|choice,null"`
	// Criteria are the choices (mapping or list) or the 2 to 10 steps of a score.
	Criteria any `json:"criteria" task:"kinds=choice|score,required"`
	// Values are the worth of each choice or step; nil: Expected, or an even ramp.
	Values any `json:"values" task:"kinds=choice|score,null"`
}

// judgeThreshold is the default pass_threshold of the three judges.
const judgeThreshold = 0.7

func (c *LLMJudge) setDefaults()       { c.PassThreshold = judgeThreshold }
func (c *SystemOneJudge) setDefaults() { c.PassThreshold = judgeThreshold }

func (c *AgentJudge) setDefaults() {
	c.PassThreshold = judgeThreshold
	c.Agent.Type = ClaudeCode
	c.Agent.PermissionMode = "bypassPermissions"
	c.Agent.AllowedTools = []string{"Bash", "Read", "Glob", "Grep"}
}
