package isolation

import (
	"encoding/json"
	"strings"
)

// runtimeSaid is what a runtime printed, on one line. Podman has it write objects of
// JSON, of which a reader wants the words alone.
func runtimeSaid(text string) string {
	var said []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		var entry struct {
			Message string `json:"msg"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message != "" {
			line = strings.TrimSpace(entry.Message)
		}
		if line != "" {
			said = append(said, strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == '\n' || r == '\r' }), " "))
		}
	}
	return strings.Join(said, "; ")
}
