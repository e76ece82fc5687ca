package regrade

import (
	"encoding/json"
	"errors"

	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// turn is what criteria need of one turn record (spec/run-record.md 2.5).
type turn struct {
	UserInput   string `json:"user_input"`
	AgentOutput string `json:"agent_output"`
	Commands    []struct {
		Tool       string          `json:"tool_name"`
		Parameters json.RawMessage `json:"parameters"`
		Status     string          `json:"result_status"`
		Result     string          `json:"result_summary"`
	} `json:"commands"`
}

// trajectoryOf gives criteria what the agent did.
func trajectoryOf(r *record.Record) (*criteria.Trajectory, error) {
	raw := r.Trajectory()
	trajectory := &criteria.Trajectory{}
	if raw.IsNull() {
		return trajectory, nil
	}
	var turns []turn
	if raw.Decode(&turns) != nil { // whose error speaks of our types
		return nil, errors.New("the field " + record.FieldIterations + " is no list of turns")
	}
	for _, t := range turns {
		made := criteria.Turn{UserInput: t.UserInput, AgentOutput: t.AgentOutput}
		for _, c := range t.Commands {
			made.Calls = append(made.Calls, criteria.Call{
				Tool: c.Tool, Parameters: c.Parameters, Status: c.Status, Result: c.Result,
			})
		}
		trajectory.Turns = append(trajectory.Turns, made)
	}
	return trajectory, nil
}
