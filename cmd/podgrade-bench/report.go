package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"podgrade/tasks/record"
)

// manyRows is how many rows are reported.
const manyRows = 1000

// reports aggregates and reports a run of many rows, of some 20 KiB each.
func (s *suite) reports(context.Context) error {
	run := filepath.Join(s.dir, "many")
	if err := makeRun(run, manyRows); err != nil {
		return err
	}
	for _, each := range []struct {
		what string
		args []string
	}{
		{"aggregate", []string{"aggregate", run}},
		{"report -f md", []string{"report", run, "-o", filepath.Join(s.dir, record.RunPage)}},
		{"report -f junit", []string{"report", run, "-f", "junit"}},
	} {
		took, kib, err := s.podgrade(each.args...)
		if err != nil {
			return err
		}
		s.table.add(each.what, fmt.Sprintf("s, %d rows", manyRows), took.Seconds(), "<= 2", fmt.Sprintf("%.0f MiB of podgrade", float64(kib)/1024))
	}
	return nil
}

// makeRun writes a run directory of rows that were executed and not graded.
func makeRun(run string, rows int) error {
	if _, err := record.NewRunDir(run, true); err != nil {
		return err
	}
	printed := strings.Repeat("output of the agent\n", 1000)
	for i := range rows {
		id := record.Identity{VariantID: "default", TaskID: fmt.Sprintf("task-%04d", i)}
		start := time.Date(2026, 9, 18, 10, 0, i, 0, time.Local)
		made, err := record.New(record.Execution{
			TaskID: id.TaskID, AgentType: "command", Started: start, Completed: start.Add(time.Second), Duration: time.Second,
			Status: record.Timeout, Iterations: 1, ErrorMessage: "the task timed out",
			Turns: []record.Turn{{Iteration: 1, UserInput: "Do it.", AgentOutput: printed, Timestamp: record.TimeOf(start)}},
		})
		if err != nil {
			return err
		}
		row, err := record.Create(run, id)
		if err != nil {
			return err
		}
		err = row.Write(record.TaskFile, made.Bytes())
		row.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
