package criteria

import "strings"

// defaultIgnore are the parts of a path that a glob does not discover. The
// list of the compatible system is not known (task-file 13.3); these are the
// ones that its copies are known to leave out (cli 3, --copy), and Python's
// cache.
var defaultIgnore = []string{".git", ".venv", "__pycache__", "build", "dist", "node_modules"}

// IgnorePatterns applies the entries of sandbox.ignore_patterns to the
// defaults: a bare entry adds a pattern, "!x" removes a default.
func IgnorePatterns(entries []string) []string {
	patterns := append([]string(nil), defaultIgnore...)
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		removed, isRemoval := strings.CutPrefix(entry, "!")
		if !isRemoval {
			patterns = append(patterns, entry)
			continue
		}
		kept := patterns[:0]
		for _, pattern := range patterns {
			if pattern != strings.TrimSpace(removed) {
				kept = append(kept, pattern)
			}
		}
		patterns = kept
	}
	return patterns
}
