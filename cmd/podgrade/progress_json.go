package main

import (
	"encoding/json"
	"io"
	"sync"

	"podgrade/regrade"
	"podgrade/tasks/record"
)

// eventLines prints each event as one line of JSON.
type eventLines struct {
	mu      sync.Mutex
	out     io.Writer
	notices io.Writer
	failed  error // of the writer
}

// eventLine is the format of a line (docs/running.md).
type eventLine struct {
	Event     regrade.EventKind     `json:"event"`
	Time      string                `json:"time"`
	Variant   string                `json:"variant_id"`
	Task      string                `json:"task_id"`
	Replicate int                   `json:"replicate_index"`
	Dir       string                `json:"dir"`
	Status    record.Status         `json:"status,omitempty"`
	Score     *float64              `json:"weighted_score"`
	Seconds   float64               `json:"seconds,omitempty"`
	Stamps    map[string]record.Raw `json:"stamps,omitempty"`
	Clean     *cleanLine            `json:"clean_room,omitempty"`
	Error     string                `json:"error,omitempty"`
	Kind      regrade.Kind          `json:"error_kind,omitempty"`
	Stream    string                `json:"stream,omitempty"`
	Text      *string               `json:"text,omitempty"` // of the stream: one line
}

// cleanLine is what the clean room came to.
type cleanLine struct {
	Base   string        `json:"base"`
	Same   bool          `json:"same_verdict"`
	Status record.Status `json:"status"`
	Score  float64       `json:"weighted_score"`
}

// Write writes a notice to standard error.
func (l *eventLines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.notices.Write(text)
}

// Observe prints the event.
func (l *eventLines) Observe(e regrade.Event) {
	line := eventLine{
		Event: e.Kind, Time: e.At.Format("2006-01-02T15:04:05.000Z07:00"), Dir: e.Dir,
		Variant: e.Row.VariantID, Task: e.Row.TaskID, Replicate: e.Row.Replicate,
		Status: e.Status, Score: e.Score, Seconds: e.Took.Seconds(),
	}
	if e.Verdict != nil && len(e.Verdict.Stamps) > 0 {
		line.Stamps = map[string]record.Raw{}
		for _, stamp := range e.Verdict.Stamps {
			line.Stamps[stamp.Name] = stamp.Value
		}
	}
	if e.Kind == regrade.RowOutput {
		line.Stream, line.Text = e.Stream, &e.Text
	}
	if e.Verdict != nil && e.Verdict.Clean != nil {
		clean := e.Verdict.Clean
		line.Clean = &cleanLine{Base: clean.Base, Same: !e.Verdict.DependsOnSystem(), Status: clean.Status, Score: clean.Score}
	}
	if e.Message != "" {
		line.Error = e.Message
	}
	if e.Err != nil {
		line.Error, line.Kind = e.Err.Error(), regrade.KindOf(e.Err)
	}
	text, err := json.Marshal(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.out.Write(append(asciiJSON(string(text)), '\n'))
	}
	if l.failed == nil {
		l.failed = err
	}
}

// End does nothing.
func (l *eventLines) End() {}
