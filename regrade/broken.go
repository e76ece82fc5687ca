package regrade

import (
	"errors"

	"podgrade/tasks/record"
)

// broken says how the execute phase of a row ended when it did not end well,
// and neither the host nor podgrade is to blame.
type broken struct {
	status    record.Status
	category  string // of error_details
	component string // of error_details
	text      string
}

func (b *broken) Error() string { return b.text }

// setupFailed: the workspace is not as the task wants it, so the agent does not
// start.
func setupFailed(text string) error {
	return &broken{status: record.Error, category: record.CategorySetup, component: record.ComponentSetup, text: text}
}

// brokenBy returns how the row ended; nil when the host is to blame, also where
// it failed on top of something else: errors are joined with the host's first.
func brokenBy(ended error) *broken {
	var b *broken
	if joined, ok := ended.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			if !errors.As(err, &b) {
				return nil
			}
		}
	}
	if !errors.As(ended, &b) {
		return nil
	}
	return b
}
