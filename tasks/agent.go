package tasks

// Kinds of agents that are built in. Two are podgrade's own: CommandLine runs a
// command line of the task, Oracle the task's solution script.
const (
	ClaudeCode  = "claude-code"
	Codex       = "codex"
	Antigravity = "antigravity"
	OpenCode    = "opencode"
	Pi          = "pi"
	Delegate    = "delegate"
	NoAgent     = "none"
	CommandLine = "command"
	Oracle      = "oracle"
)

// agentKinds are all of them, in the order of messages.
var agentKinds = []string{ClaudeCode, Codex, Antigravity, OpenCode, Pi, Delegate, NoAgent, CommandLine, Oracle}

// Ways in which a command line gets its prompt.
const (
	PromptStdin    = "stdin"    // on its standard input
	PromptArgument = "argument" // as its last argument
	PromptFile     = "file"     // in a file that a variable names
)

// Agent says which agent works and how (task-file 3). The keys below the
// common ones exist only for the kinds that their tag names.
type Agent struct {
	// Type is "" until a layer says it; a resolved task always has it.
	Type            string   `json:"type" task:"null"`
	Model           string   `json:"model" task:"null"`
	PermissionMode  string   `json:"permission_mode" task:"default=acceptEdits,enum=default|acceptEdits|plan|bypassPermissions"`
	AllowedTools    []string `json:"allowed_tools" task:"null"` // nil: all
	DisallowedTools []string `json:"disallowed_tools" task:"null"`
	Plugins         []Plugin `json:"plugins" task:"null"`
	SystemPrompt    string   `json:"system_prompt" task:"null"`
	// SystemPromptFile is read into SystemPrompt when the file is loaded and is
	// then empty.
	SystemPromptFile string   `json:"system_prompt_file" task:"null"`
	IgnorePatterns   []string `json:"ignore_patterns" task:"alias=additional_ignore_patterns"`

	SystemPromptMode string         `json:"system_prompt_mode" task:"kinds=claude-code,default=append,enum=append|replace"`
	ClaudeSettings   any            `json:"claude_settings" task:"kinds=claude-code,null"` // path, mapping or nil
	SDKOptions       map[string]any `json:"sdk_options" task:"kinds=claude-code,null"`
	// SettingSources nil acts as [project], empty isolates the agent.
	SettingSources []string `json:"setting_sources" task:"kinds=claude-code,null,enum=user|project|local"`

	// ThinkingLevel of antigravity is minimal|low|medium|high, of pi
	// off|minimal|low|medium|high|xhigh|max.
	ThinkingLevel string `json:"thinking_level" task:"kinds=antigravity|pi,default=medium,enum=off|minimal|low|medium|high|xhigh|max"`

	Variant               string `json:"variant" task:"kinds=opencode,null"`
	Pure                  bool   `json:"pure" task:"kinds=opencode,default=true"`
	RequireTokenTelemetry bool   `json:"require_token_telemetry" task:"kinds=opencode,default=true"`

	Effort            string `json:"effort" task:"kinds=delegate,null"`
	ProjectID         string `json:"project_id" task:"kinds=delegate,null"`
	SessionID         string `json:"session_id" task:"kinds=delegate,null"`
	EnableComputerUse bool   `json:"enable_computer_use" task:"kinds=delegate"`

	// Command is given to the cell's shell, in the workspace.
	Command string `json:"command" task:"kinds=command,null"`
	// Prompt says how the command gets the prompt.
	Prompt string `json:"prompt" task:"kinds=command,default=stdin,enum=stdin|argument|file"`
}

// Plugin is one plugin of the agent: a directory, relative to the task
// directory until the row is set up.
type Plugin struct {
	Type string `json:"type" task:"default=local,enum=local"`
	Path string `json:"path" task:"required"`
}
