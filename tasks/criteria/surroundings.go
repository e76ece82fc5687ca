package criteria

import (
	"encoding/json"
	"time"
)

// Surroundings is what the criteria of one row are checked against.
type Surroundings struct {
	Cell Cell
	// Workspace is where the cell has the sandbox root; "" when no absolute
	// path can lead into it.
	Workspace string
	// Trajectory is what the agent did; nil: it is not known, and criteria
	// that need it fail.
	Trajectory *Trajectory
	// Calls are the calls that cli_called counts; nil: Check reads them before it
	// checks the first criterion.
	Calls *Calls
	// Reference reads the reference directory; nil: the task has none.
	Reference Files
	// ReferencePath is where the cell has the reference directory.
	ReferencePath string
	// TaskDir reads the task directory; nil: there is none. Only judges that
	// name its files look there.
	TaskDir Files
	// Ignore are the patterns that drop discovered parts of a glob's matches;
	// see IgnorePatterns.
	Ignore []string
	// NetworkWithheld: the run had a network and this cell has none, so that a
	// failed criterion says that it tried one.
	NetworkWithheld bool
	// TakenAway tells where the image itself has a program that the cell's shell
	// did not find; "" when it never had it. nil: nobody knows the image.
	TakenAway func(program string) string
	// Judge asks models; nil: no transport is configured.
	Judge Judge
	// Sink receives what the record has no room for; nil: it is dropped.
	Sink Sink
	// RegexTimeout bounds each search; 0: python.DefaultMatchTimeout.
	RegexTimeout time.Duration
}

// Sink receives the grading log. Its methods may be called concurrently. Texts
// are not neutralised.
type Sink interface {
	// Note adds one line to the grading log; label is, for example,
	// "criterion 3".
	Note(label, text string)
	// Command takes a finished command of a criterion with all output that was
	// kept.
	Command(label, line string, exit Exit)
}

// Trajectory is what the agent did, as far as criteria look at it.
type Trajectory struct {
	Turns []Turn
}

// Turn is one exchange with the agent.
type Turn struct {
	UserInput   string
	AgentOutput string
	Calls       []Call
}

// Call is one tool call of the agent.
type Call struct {
	Tool string
	// Parameters is a JSON object as the record has it, keys in its order.
	Parameters json.RawMessage
	Status     string // success, error, unknown, or empty
	Result     string
}

// StatusSuccess is the Status of a call that worked.
const StatusSuccess = "success"

// calls gives all calls of all turns in order.
func (t *Trajectory) calls() []Call {
	var all []Call
	for _, turn := range t.Turns {
		all = append(all, turn.Calls...)
	}
	return all
}
