package criteria_test

import (
	"strings"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// called is a criterion that wants a deploy in a log.
func called(log string) *tasks.CLICalled {
	return &tasks.CLICalled{Base: common(tasks.TypeCLICalled), Log: log, MinCount: 1, CLIMatch: tasks.CLIMatch{Verb: "deploy"}}
}

// TestACommandAddsNoCalls: what a criterion's command, which the agent may have left,
// does to the log of calls changes nothing of what the agent called.
func TestACommandAddsNoCalls(t *testing.T) {
	const deploy = `{"tool": "uip", "argv": ["deploy"], "exit": 0}` + "\n"
	for name, test := range map[string]struct {
		before map[string]string // files
		writes string
		text   string
		log    string
		score  float64
		err    string
	}{
		"adds a call":                    {map[string]string{criteria.CallLog: ""}, criteria.CallLog, deploy, criteria.CallLog, 0, ""},
		"adds a call, absolute":          {map[string]string{criteria.CallLog: ""}, criteria.CallLog, deploy, sandbox + "/" + criteria.CallLog, 0, ""},
		"adds a call, by a pattern":      {map[string]string{criteria.CallLog: ""}, criteria.CallLog, deploy, "cli_mocks/*.jsonl", 0, ""},
		"makes the log":                  {nil, criteria.CallLog, deploy, criteria.CallLog, 0, "no log of calls"},
		"makes the log, spelled so":      {nil, criteria.CallLog, deploy, "./cli_mocks//calls.jsonl", 0, "no log of calls"},
		"takes a call away":              {map[string]string{criteria.CallLog: deploy}, criteria.CallLog, "", criteria.CallLog, 1, ""},
		"breaks the log":                 {map[string]string{criteria.CallLog: deploy}, criteria.CallLog + ".error", "", criteria.CallLog, 1, ""},
		"adds to a log of another name":  {map[string]string{"own.jsonl": ""}, "own.jsonl", deploy, "own.jsonl", 0, ""},
		"makes a log of its own to read": {nil, "own.jsonl", deploy, "own.jsonl", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cell := newCell(test.before)
			cell.run = func(criteria.Command) (criteria.Exit, error) {
				cell.add(test.writes, fakeFile{kind: criteria.Regular, data: []byte(test.text)})
				return criteria.Exit{}, nil
			}
			list := []tasks.Criterion{&tasks.RunCommand{Base: common(tasks.TypeRunCommand), Command: "./test.sh", Timeout: 30, StdoutMatch: "exact"}, called(test.log)}
			results, err := criteria.Check(t.Context(), list, criteria.Surroundings{Cell: cell, Workspace: sandbox})
			if err != nil {
				t.Fatal(err)
			}
			compare(t, expectation{score: test.score, err: test.err}, results[1])
		})
	}
}

// TestWhatTheRecorderHasKeptStandsForItsLog, and for no other file.
func TestWhatTheRecorderHasKeptStandsForItsLog(t *testing.T) {
	kept := `{"tool": "uip", "argv": ["deploy"], "exit": 0}` + "\n"
	cell := newCell(map[string]string{criteria.CallLog: strings.Repeat(kept, 2), "own.jsonl": ""})
	list := []tasks.Criterion{called(criteria.CallLog), called("own.jsonl")}
	where := criteria.Surroundings{Cell: cell, Workspace: sandbox}
	where.Calls = criteria.ReadCalls(t.Context(), list, where, cell, &kept)
	results, err := criteria.Check(t.Context(), list, where)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, expectation{score: 1, details: "1 of 1 logged calls match"}, results[0])
	compare(t, expectation{score: 0, details: "0 of 0 logged calls match"}, results[1])
}
