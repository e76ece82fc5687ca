package regrade

import (
	"context"
	"fmt"
	"strings"
	"time"

	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// mostHookOutput bounds each recorded stream of a hook, in bytes.
const mostHookOutput = 100 << 10

// postRun runs the task's post_run after the criteria, unless an earlier grade
// did: repeating it is not known to be safe (spec/regrade.md 1.13). It never
// changes the verdict.
func (g *grading) postRun(ctx context.Context, spot *place) ([]record.HookResult, error) {
	if g.postRunDone() {
		return nil, nil
	}
	var results []record.HookResult
	for i, hook := range g.accepted.PostRun() {
		label := fmt.Sprintf("post_run %d", i+1)
		exit, err := spot.Run(ctx, criteria.Command{
			Line: hook.Command, Timeout: time.Duration(hook.Timeout) * time.Second, Label: label,
		})
		if criteria.NotStarted(err) {
			trouble := err.Error()
			g.logs.Note(label, trouble)
			results = append(results, record.HookResult{Command: hook.Command, Error: &trouble})
			continue
		}
		if err != nil {
			return nil, err
		}
		g.logs.Command(label, hook.Command, exit)
		results = append(results, hookResultOf(hook.Command, exit))
	}
	return results, nil
}

func hookResultOf(command string, exit criteria.Exit) record.HookResult {
	result := record.HookResult{
		Command:  command,
		Stdout:   hookText(exit.Stdout.Text),
		Stderr:   hookText(exit.Stderr.Text),
		Duration: exit.Duration.Seconds(),
	}
	var trouble string
	switch {
	case exit.TimedOut:
		trouble = "it was ended by its time-out"
	case exit.NoShell:
		trouble = "the cell has no shell that could run it"
	default:
		result.ExitCode = &exit.Code
		return result
	}
	result.Error = &trouble
	return result
}

func hookText(text []byte) string {
	return strings.ToValidUTF8(string(text[:min(len(text), mostHookOutput)]), "\ufffd")
}
