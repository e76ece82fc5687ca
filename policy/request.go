package policy

import (
	"podgrade/oci"
	"podgrade/tasks"
)

// Place is where a phase happens.
type Place string

// The places.
const (
	InCell Place = "cell"
	OnHost Place = "host"
)

// Request is what grants are asked for: a recorded task and how the operator
// wants it graded, or a task file that is planned.
type Request struct {
	Task  *tasks.Task
	Phase oci.Phase
	// Planned: the task is the operator's own file and nothing was executed, so
	// that its image is only a name; the execute phase pins what it leads to.
	Planned bool
	// Given: the task is the operator's own file, and the row was executed. What
	// only the record names is not asked for by that file.
	Given bool
	// DefaultImage is the image of a planned row that names none; "": none is
	// set.
	DefaultImage string
	// Pull: the operator asked to fetch an image that Podman's store has not
	// (--pull missing). A grade never does.
	Pull  bool
	Place Place
	// HostAllowed: the operator asked for the host (--allow-host-grading),
	// which is the answer for reading there.
	HostAllowed bool
	// Pin is what the record says about the image; it need not be Known.
	Pin oci.Pin
	// State is the diff id of the state layer that the record names; "": none.
	State string
	// CleanState is the diff id of the state layer of before the agent worked,
	// which the clean room stands on (--clean-room); "": none is asked for.
	CleanState string
	// ImageDrift: the operator accepts another image of the pinned one's name
	// where that one is gone (--allow-image-drift).
	ImageDrift bool
	// RecordedNetwork: the operator asked for the network that the record
	// names (--network recorded).
	RecordedNetwork bool
	// TaskFile is the recorded path of the task file; "" when none is recorded.
	TaskFile string
	// Imported is what the record says of where an import put the task directory
	// and the reference.
	Imported Imported
	// RunDir is the directory of the run that the row belongs to, absolute:
	// nothing in it may be put on PATH.
	RunDir string
	// KeyDir is the directory of the user's signing key, absolute, which nothing is
	// given of; "": there is none.
	KeyDir string
	// SearchPath is the recorded PATH of the agent.
	SearchPath string
	// Passed names the host variables that the agent's cell had; nil: the
	// record does not say.
	Passed *[]string
	// LostVenv and LostNodeModules: the workspace has no longer what the run had
	// installed packages into, for no doing of the agent's, so that the grade
	// installs them again (spec/regrade.md 1.5).
	LostVenv, LostNodeModules bool
	// PostRunDone: the record holds results of post_run, so that this grade
	// does not run it again.
	PostRunDone bool
	// SignedBy is whose signature covers all that the record says.
	SignedBy Signer
	// Baseline holds command lines that the operator runs after every row: a
	// post_run that is exactly one of them is not asked for.
	Baseline []string
	// Lookup finds a variable of this host; os.LookupEnv.
	Lookup func(name string) (string, bool)
}

// Imported is where an import put what a row's task brings along: a claim of the
// record's. Only what lies right in Dir counts, whatever the record names.
type Imported struct {
	Dir       string // absolute, in the run directory
	TaskDir   string // a name in Dir; "": none came
	Reference string // the same
}
