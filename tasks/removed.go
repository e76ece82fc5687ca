package tasks

// removedKeys are keys of older upstream versions, by the last key of the block
// and the key, with the modern spelling.
var removedKeys = map[string]string{
	".max_iterations":            "was removed; write run_limits.max_turns",
	".max_turns":                 "belongs under run_limits: write run_limits.max_turns",
	".task_timeout":              "belongs under run_limits: write run_limits.task_timeout",
	".turn_timeout":              "belongs under run_limits: write run_limits.turn_timeout",
	".template_dir":              "was removed; write sandbox.template_sources with an entry {type: template_dir, path: ...}",
	".stop_early":                "belongs under run_limits, or on a criterion as a block",
	"agent.by_type":              byTypeText,
	"agent.max_iterations":       "was removed; write run_limits.max_turns",
	"agent.max_turns":            "was moved; write run_limits.max_turns",
	"agent.task_timeout":         "was moved; write run_limits.task_timeout",
	"agent.turn_timeout":         "was moved; write run_limits.turn_timeout",
	"agent.max_tokens":           "was moved; write run_limits.max_total_tokens",
	"agent.max_usd":              "was moved; write run_limits.max_usd",
	"defaults.max_iterations":    "was removed; write defaults.run_limits.max_turns",
	"defaults.max_turns":         "was moved; write defaults.run_limits.max_turns",
	"defaults.task_timeout":      "was moved; write defaults.run_limits.task_timeout",
	"defaults.turn_timeout":      "was moved; write defaults.run_limits.turn_timeout",
	"run_limits.max_iterations":  "was removed; write max_turns",
	"run_limits.timeout":         "is not a limit of the run; write task_timeout or turn_timeout",
	"sandbox.template_dir":       "was removed; write template_sources with an entry {type: template_dir, path: ...}",
	"sandbox.template":           "was removed; write template_sources with an entry {type: template_dir, path: ...}",
	"sandbox.starter_files":      "was removed; write template_sources with an entry {type: starter_files, files: [...]}",
	"sandbox.image":              "belongs under docker: write docker.image",
	"sandbox.network":            "belongs under docker: write docker.network",
	"simulation.parallel_trials": "was removed; delete the key: as many rows run at once as the run allows",
	"dataset.path":               "was removed; write paths with a list: paths: [FILE.jsonl]",
	"reference.code":             "was removed; put the code into a file of a directory and write directory: DIR",
	"reference.file":             "was removed; put the file into a directory and write directory: DIR",
}

// byTypeText says where agent.by_type can stand (task-file 0.2).
const byTypeText = "is only a key of the defaults of an experiment"

// removedTypes are criterion types of older versions, with what to write now.
var removedTypes = map[string]string{
	"program_stdout_equals": "was removed; use run_command with expected_stdout",
	"code_lints":            "was removed; use run_command with the linter's command line",
	"scored_command":        "was removed; use run_command with score_from_stdout: true",
	"pylint_score":          "was removed; use run_command with score_from_stdout: true",
	"import_check":          "was removed; use run_command, such as python3 -c 'import NAME'",
	"pytest":                "was removed; use run_command, such as python3 -m pytest -q FILE",
	"file_content":          "was removed; use file_contains or file_check",
	"test_pass":             "was removed; use run_command with the command line of the tests",
}

// removedCriterionKeys hold for every criterion.
var removedCriterionKeys = map[string]string{
	"stop_when":       "was removed; write a stop_early block, such as stop_early: {on_pass: stop}",
	"verdict_channel": "was removed; the judge always answers with a tool call: delete the key",
}

// removedKey returns what to say about a key that older versions had, or "".
func removedKey(path, key string) string {
	if isCriterionPath(path) {
		return removedCriterionKeys[key]
	}
	return removedKeys[lastKey(path)+"."+key]
}

// lastKey returns the last key of a dotted path, without an index.
func lastKey(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '.' {
			return path[i+1:]
		}
	}
	return path
}

// isCriterionPath reports whether the path is one criterion.
func isCriterionPath(path string) bool {
	const list = "success_criteria["
	return len(path) > len(list) && path[:len(list)] == list && path[len(path)-1] == ']' && lastKey(path) == path
}
