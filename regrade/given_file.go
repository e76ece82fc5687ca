package regrade

import (
	"errors"
	"fmt"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// GiveFile makes what a row is graded by of a task file that the operator
// names. A file with a dataset gives the task of the row's id; any other one its
// only task.
func GiveFile(path, taskID string, lookup func(string) (string, bool)) (*Given, error) {
	row, err := rowOfFile(path, taskID, lookup)
	if err != nil {
		return nil, &Error{Kind: TaskFault, Tried: "use the task file", On: path, Why: err, Do: "see what podgrade plan says of it"}
	}
	return Give(row.Task, row.File)
}

func rowOfFile(path, taskID string, lookup func(string) (string, bool)) (tasks.Row, error) {
	resolution, err := criteria.NewLoader(lookup).Rows([]string{path}, tasks.Request{IncludeSkipped: true})
	if err != nil {
		return tasks.Row{}, err
	}
	for _, skip := range resolution.Skipped {
		return tasks.Row{}, skip.Reason
	}
	for _, row := range resolution.Rows {
		if row.Task.TaskID == taskID {
			return row, nil
		}
	}
	if len(resolution.Rows) == 1 {
		return resolution.Rows[0], nil
	}
	return tasks.Row{}, fmt.Errorf("it has %d rows, and none is %q", len(resolution.Rows), taskID)
}

// evaluateVariant is the variant of a tree that no run has left.
const evaluateVariant = "evaluate"

// NewTree makes a row of a tree that no run has left, so that it can be graded
// by a task file: its record has no trajectory. The directory is the row's.
func NewTree(dir string, given *Given, version string) (*record.Row, error) {
	row, err := record.OpenRow(dir)
	if err != nil {
		return nil, &Error{Kind: Infrastructure, Tried: "open the directory of the grade", On: dir, Why: err, Do: "name one that you can write to with --run-dir"}
	}
	if _, _, err := row.Read(); !errors.Is(err, record.ErrNoRecord) {
		row.Close()
		return nil, &Error{Kind: User, Tried: "write a record to", On: dir, Why: errors.New("it holds one"), Do: "name another directory with --run-dir"}
	}
	agent := tasks.NoAgent
	if a := given.task.Agent; a != nil && a.Type != "" {
		agent = a.Type
	}
	info := record.NewObject()
	info.Set(record.Version, version)
	info.Set(record.TaskDigest, given.digest)
	now := time.Now()
	rec, err := record.New(record.Execution{
		TaskID: given.task.TaskID, Description: given.task.Description, VariantID: evaluateVariant, AgentType: agent,
		Started: now, Completed: now, Status: record.NotGraded, Environment: info, TaskConfig: given.config,
	})
	if err == nil {
		err = row.Write(record.TaskFile, rec.Bytes())
	}
	if err != nil {
		row.Close()
		return nil, &Error{Kind: Infrastructure, Tried: "write a record to", On: dir, Why: err, Do: "name a directory that you can write to with --run-dir"}
	}
	return row, nil
}
