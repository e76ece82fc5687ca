package criteria

import (
	"context"
	"errors"
	"path"
	"strings"

	"podgrade/tasks"
)

// Where recorded commands and their log lie in the workspace (task-file 6.3).
const (
	RecorderDir = "cli_mocks"
	CallLog     = RecorderDir + "/calls.jsonl"
)

// Calls are the calls that the logs of cli_called held before the first command of a
// grade. What a command writes into a log is no call of the agent's, and it may be the
// agent that has written the command.
type Calls struct{ logs map[string]oneLog }

// oneLog is what reading one log came to.
type oneLog struct {
	calls []loggedCall
	err   error
}

// of is the log of that name, as a criterion writes it.
func (c *Calls) of(name string) (oneLog, bool) {
	if c == nil {
		return oneLog{}, false
	}
	log, ok := c.logs[name]
	return log, ok
}

// ReadCalls reads the logs of the cli_called in list as where says, but from files,
// those of the sandbox. kept, when it is not nil, is what the recorder itself has kept,
// and stands for its log. A log of another name that is not there is left out: a command
// may make it, as any file that a later criterion looks at.
func ReadCalls(ctx context.Context, list []tasks.Criterion, where Surroundings, files Files, kept *string) *Calls {
	where.Cell, where.Calls = still{files}, nil
	read := &Calls{logs: map[string]oneLog{}}
	for i, criterion := range list {
		c, ok := criterion.(*tasks.CLICalled)
		if !ok {
			continue
		}
		if _, known := read.of(c.Log); known {
			continue
		}
		recorded := isCallLog(c.Log, where.Workspace)
		var log oneLog
		if recorded && kept != nil {
			log.calls, log.err = parseLog(c.Log, *kept)
		} else {
			j := &judging{where: where, index: i, Common: *c.Common()}
			log.calls, log.err = j.readLog(ctx, c.Log)
		}
		var none *brokenLog
		if !recorded && errors.As(log.err, &none) && none.absent {
			continue
		}
		read.logs[c.Log] = log
	}
	return read
}

// isCallLog tells whether a criterion's path is that of the recorder's log.
func isCallLog(name, workspace string) bool {
	if workspace != "" && path.IsAbs(name) {
		name = strings.TrimPrefix(path.Clean(name), workspace+"/")
	}
	return path.Clean(name) == CallLog
}

// still is a cell in which no command runs.
type still struct{ Files }

// Run refuses.
func (still) Run(context.Context, Command) (Exit, error) {
	return Exit{}, errors.New("no command runs while the logs of calls are read")
}
