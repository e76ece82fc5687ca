package criteria

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// Recorder stands in for commands: it answers each call as the task says, and
// keeps the log that cli_called reads (task-file 6.3). It does so outside of
// the cell, with the criterion's own way to match, so that the agent sees no
// rule and cannot change what was logged.
type Recorder struct {
	tools map[string]*recordedTool
	now   func() time.Time

	mu   sync.Mutex
	log  strings.Builder
	full bool // no more is logged
}

// recordedTool is one command with its answers.
type recordedTool struct {
	entry tasks.RecordCLI
	rules []func(loggedCall) (bool, error)
}

// RecordedReply is what a recorded command does.
type RecordedReply struct {
	Exit           int
	Stdout, Stderr string
	Line           string // of the log; "": the call is not logged
}

const (
	// maxRecordedReply bounds what one answer of a task may print, in bytes.
	maxRecordedReply = 96 << 10
	// maxRecordedLog bounds the log, in bytes; cli_called reads eight times that.
	maxRecordedLog = 32 << 20
	// recordedPatience bounds the match of one regular expression.
	recordedPatience = 2 * time.Second
	// exitNotRecorded is what a shell says of a command that there is not.
	exitNotRecorded = 127
)

// NewRecorder makes the recorder of a sandbox's record_cli.
func NewRecorder(entries []tasks.RecordCLI) (*Recorder, error) {
	r := &Recorder{tools: map[string]*recordedTool{}, now: time.Now}
	j := &judging{where: Surroundings{RegexTimeout: recordedPatience}}
	for _, entry := range entries {
		tool := &recordedTool{entry: entry}
		if err := checkReply(entry.Tool, entry.Stdout, entry.Stderr); err != nil {
			return nil, err
		}
		for i, response := range entry.Responses {
			if err := checkReply(entry.Tool, response.Stdout, response.Stderr); err != nil {
				return nil, err
			}
			rule, err := j.cliMatcher(&tasks.CLICalled{CLIMatch: response.When.CLIMatch, IgnoreFlags: response.When.IgnoreFlags})
			if err != nil {
				return nil, fmt.Errorf("record_cli: %s: responses[%d]: %w", entry.Tool, i, err)
			}
			tool.rules = append(tool.rules, rule)
		}
		r.tools[entry.Tool] = tool
	}
	return r, nil
}

func checkReply(tool, stdout, stderr string) error {
	if n := len(stdout) + len(stderr); n > maxRecordedReply {
		return fmt.Errorf("record_cli: %s: an answer has %d bytes, the limit is %d: shorten it", tool, n, maxRecordedReply)
	}
	return nil
}

// Call answers one call, and logs it. fault says why argv is not what the
// command was called with; "": it is.
func (r *Recorder) Call(name string, argv []string, fault string) RecordedReply {
	tool := r.tools[name]
	if tool == nil {
		return RecordedReply{Exit: exitNotRecorded, Stderr: fmt.Sprintf("podgrade: calls of %q are not recorded\n", name)}
	}
	for i, word := range argv {
		argv[i] = text(word)
	}
	reply, rule, trouble := tool.answer(loggedCall{tool: name, argv: argv})
	record := python.NewDict()
	record.Set("ts", r.now().UTC().Format("2006-01-02T15:04:05.000000+00:00"))
	record.Set("tool", name)
	record.Set("argv", anyOf(argv))
	record.Set("exit", int64(reply.Exit))
	if rule >= 0 {
		record.Set("rule", int64(rule))
	}
	if trouble != nil {
		record.Set("rule_error", trouble.Error())
	}
	if fault != "" {
		record.Set("sidecar_error", fault)
	}
	reply.Line = r.keep(record)
	return reply
}

// text makes bytes of any kind a text: a JSON log can hold nothing else.
func text(word string) string { return strings.ToValidUTF8(word, string(utf8.RuneError)) }

func anyOf(words []string) []any {
	list := make([]any, len(words))
	for i, word := range words {
		list[i] = word
	}
	return list
}

// answer chooses the first rule that matches; rule is -1 when none does. A rule
// that cannot be evaluated is passed over, and told.
func (t *recordedTool) answer(call loggedCall) (reply RecordedReply, rule int, trouble error) {
	for i, matches := range t.rules {
		hit, err := matches(call)
		if err != nil && trouble == nil {
			trouble = fmt.Errorf("responses[%d]: %w", i, err)
		}
		if hit && err == nil {
			r := t.entry.Responses[i]
			return RecordedReply{Exit: r.ExitCode, Stdout: r.Stdout, Stderr: r.Stderr}, i, trouble
		}
	}
	return RecordedReply{Exit: t.entry.ExitCode, Stdout: t.entry.Stdout, Stderr: t.entry.Stderr}, -1, trouble
}

// keep writes a record into the log and returns its line. A log that grows
// beyond its limit ends with a record that proves nothing.
func (r *Recorder) keep(record *python.Dict) string {
	line, err := python.DumpJSON(record, false, maxRecordedLog)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		return ""
	}
	if err == nil && r.log.Len()+len(line) > maxRecordedLog {
		err = errors.New("the log of calls is full")
	}
	if err != nil {
		r.full = true
		last := python.NewDict()
		last.Set("argv", []any{})
		last.Set("sidecar_error", err.Error())
		line, _ = python.DumpJSON(last, false, maxRecordedLog) // two short texts
	}
	r.log.WriteString(line + "\n")
	return line
}

// Log is the log as the criterion reads it: one JSON object a line.
func (r *Recorder) Log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}
