package oci

// Paths inside a cell. They are the same in both phases, so that an absolute
// link made while the agent ran still holds when the row is graded.
const (
	// WorkspacePath is where the tree that the agent worked in is mounted.
	WorkspacePath = "/work/workspace"
	// TaskDirPath is the task's own directory: there while pre_run runs and in
	// a grade, never while the agent runs.
	TaskDirPath = "/work/task_dir"
	// ReferencesPath is the answer key: only there in a grade.
	ReferencesPath = "/work/references"
	// PluginsPath is the parent of the numbered plugin directories.
	PluginsPath = "/work/plugins"
	// WorkPath is the parent of all that podgrade puts where tasks can see it.
	WorkPath = "/work"
	// FallbackHomePath is the home of an image user that has none it can write.
	FallbackHomePath = "/work/home"
	// ToolPath is podgrade's own mount: read-only, and a mount itself, so that
	// nobody in the cell can rename it away.
	ToolPath = "/.podgrade"
	// InitPath is the supervisor's binary inside ToolPath.
	InitPath = ToolPath + "/podgrade-init"
)

// Environment names that podgrade gives to a command. Each has this one
// definition.
const (
	// EnvInContainer tells a command that it runs in a container, as upstream
	// does. On the host it can only make podgrade refuse to start a cell.
	EnvInContainer = "CODER_EVAL_IN_CONTAINER"
	// EnvTelemetry switches the telemetry of upstream's own tools off.
	EnvTelemetry = "TELEMETRY_ENABLED"
	// EnvTaskDir names the task directory (TaskDirPath in a cell).
	EnvTaskDir = "TASK_DIR"
	// EnvReferenceDir names the answer key (ReferencesPath in a cell).
	EnvReferenceDir = "REFERENCE_DIR"
	// EnvPromptFile names the file with the prompt, for an agent that asked for
	// one.
	EnvPromptFile = "PROMPT_FILE"
)
