package regrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/protocol"
	"podgrade/tasks/agents"
	"podgrade/tasks/record"
)

// turn lets the agent work: in this release agents have one turn.
func (e *execution) turn(ctx context.Context) error {
	request, err := e.request()
	if err != nil {
		return err
	}
	start, err := e.agent.Start(request)
	if err != nil {
		return setupFailed("start the agent: " + err.Error())
	}
	if start == nil {
		return nil
	}
	if err := fitsStdin(start); err != nil {
		return setupFailed(err.Error())
	}
	for _, file := range start.Files {
		entry := isolation.Entry{Type: protocol.Regular, Mode: file.Mode}
		if err := e.cell.Put(ctx, request.Dir, file.Name, entry, bytes.NewReader(file.Content)); err != nil {
			return templateFault("give the agent its files", err)
		}
	}
	e.facts.Iterations = 1
	began := time.Now()
	limit, task := e.limit()
	exit, err := e.run(ctx, order{label: "agent", argv: start.Argv, env: start.Env, stdin: start.Stdin, timeout: limit, agent: true})
	if err != nil {
		return agentFault(err, start.Argv[0])
	}
	turn := e.agent.Turn(agents.Output{
		Stdout: exit.Stdout.Text, Stderr: exit.Stderr.Text, Dropped: exit.Stdout.Bytes - int64(len(exit.Stdout.Text)),
		Code: exit.Code, TimedOut: exit.TimedOut, Started: began, Duration: exit.Duration,
	})
	e.facts.Turns = append(e.facts.Turns, turnOf(request.Prompt, turn, began, exit.Duration))
	if !exit.CellEnded {
		if err := e.emptyTaskDir(ctx); isOutcome(err) {
			e.warn("what the agent was given stays in its cell: " + err.Error())
		} else if err != nil {
			return err
		}
	}
	late := "had not ended after the %v of "
	if exit.Held {
		late = "had ended, and what it left running held its output for the %v of "
	}
	switch {
	case exit.TimedOut && task:
		return &broken{record.Timeout, record.CategoryTimeout, record.ComponentTaskTimeout,
			fmt.Sprintf("the agent "+late+"task_timeout", limit)}
	case exit.TimedOut:
		return &broken{record.Error, record.CategoryTimeout, record.ComponentIteration,
			fmt.Sprintf("the agent's turn "+late+"turn_timeout", limit)}
	case turn.Crash != "":
		return &broken{record.Error, record.CategoryAgent, record.ComponentIteration, "the agent: " + turn.Crash}
	}
	return nil
}

// request is what the agent is started with.
func (e *execution) request() (agents.Request, error) {
	setup := e.accepted.Setup()
	r := agents.Request{
		Prompt: e.task.InitialPrompt, Shell: shell, Command: setup.AgentCommand, Way: setup.AgentPrompt,
		Dir: e.cell.Places().TaskDir,
	}
	if setup.Solution == "" {
		return r, nil
	}
	var err error
	if r.Script, err = readBelow(filepath.Dir(absolute(e.job.Row.File.Path)), setup.Solution, largestScript); err != nil {
		return r, setupFailed("read the solution " + setup.Solution + ": " + err.Error())
	}
	return r, nil
}

// largestScript bounds a solution, in bytes.
const largestScript = 16 << 20

// readBelow reads a regular file of a directory, following no link out of it.
func readBelow(dir, name string, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", name)
	}
	if err != nil {
		return nil, err
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return text, err
}

// limit is how long the turn may take, 0 for ever, and whether that is the
// task's limit rather than the turn's.
func (e *execution) limit() (limit time.Duration, task bool) {
	limits := e.task.RunLimits
	turn, whole := time.Duration(limits.TurnTimeout)*time.Second, time.Duration(limits.TaskTimeout)*time.Second
	if whole > 0 && (turn == 0 || whole <= turn) {
		return whole, true
	}
	return turn, false
}

// agentFault: an agent whose program is not there did not fail for the host.
func agentFault(err error, program string) error {
	if errors.Is(err, isolation.ErrNoProgram) {
		return setupFailed("the image has no " + program)
	}
	return err
}

// turnOf is the turn as the record has it.
func turnOf(prompt string, t agents.Turn, began time.Time, took time.Duration) record.Turn {
	made := record.Turn{
		Iteration: 1, UserInput: prompt, AgentOutput: t.Text, Commands: []record.Command{},
		Timestamp: record.TimeOf(began), Duration: rounded(took.Seconds()), AssistantTurnCount: t.Replies,
		Messages: []any{}, NumTurns: &t.Replies, ProviderCallCosts: []any{}, Crashed: t.Crash != "",
		Result: &record.TurnResult{Subtype: "success", Result: &t.Text},
	}
	if t.Model != "" {
		made.ModelUsed = &t.Model
	}
	if t.Crash != "" {
		made.CrashReason = &t.Crash
		made.Result.IsError, made.Result.Subtype = true, "error_during_execution"
	}
	for i, call := range t.Calls {
		made.Commands = append(made.Commands, commandOf(i, call))
	}
	return made
}

func commandOf(i int, call agents.Call) record.Command {
	took := rounded(float64(call.Duration) / float64(time.Millisecond))
	status := call.Status
	if status == "" {
		status = record.CallUnknown
	}
	return record.Command{
		ToolName: call.Tool, ToolID: call.ID, Timestamp: record.TimeOf(call.Started), DurationMS: &took,
		Parameters: call.Parameters, ResultStatus: &status, ResultSummary: &call.Result, SequenceNumber: i,
	}
}
