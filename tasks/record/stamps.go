package record

import "slices"

// The stamps: facts in environment_info, and in the rows of run.json, that
// make a verdict less comparable (design: Identity). These are their only
// definitions.
const (
	GradedOnHost            = "graded_on_host"                 // true
	ExecutedOnHost          = "executed_on_host"               // true
	GradedWithoutPreRun     = "graded_without_pre_run"         // number of pre_run commands
	GradedWithoutState      = "graded_without_state"           // number of paths; true: nobody knows
	GradedWithRebuiltImage  = "graded_with_rebuilt_image"      // path of the Dockerfile
	GradedWithUnpinnedImage = "graded_with_unpinned_image"     // the reference used, or Drift
	GradedWithoutNetwork    = "graded_without_network"         // number of attempts to reach a network
	ExecutedWithoutNetwork  = "executed_without_network"       // number of attempts to reach a network
	GradedFewerCapabilities = "graded_with_fewer_capabilities" // names withheld
	GradedWithoutVariables  = "graded_without_variables"       // names withheld
	GradedWithoutProcesses  = "graded_without_processes"       // names and ports
	GradedWithoutTaskDir    = "graded_without_task_dir"        // path of the recorded task file
	GradedFromCapture       = "graded_from_capture"            // true
	GradedWithReplacedTools = "graded_with_replaced_tools"     // paths
	GradedOtherWorkspace    = "graded_with_other_workspace"    // path
	GradedLive              = "graded_live"                    // true
	LimitsNotEnforced       = "limits_not_enforced"            // names of limits
)

// Drift is the value of GradedWithUnpinnedImage when the reference names
// another image now than the one that was pinned.
const Drift = "drift"

// executionStamps say what was true while the agent ran. No grade can know
// better, so a grade leaves them.
var executionStamps = []string{ExecutedOnHost, ExecutedWithoutNetwork}

// gradeStamps say how a verdict was reached: they belong to one grade and are
// removed before the next.
var gradeStamps = []string{
	GradedOnHost, GradedWithoutPreRun, GradedWithoutState, GradedWithRebuiltImage,
	GradedWithUnpinnedImage, GradedWithoutNetwork, GradedFewerCapabilities,
	GradedWithoutVariables, GradedWithoutProcesses, GradedWithoutTaskDir, GradedFromCapture,
	GradedWithReplacedTools, GradedOtherWorkspace, GradedLive, LimitsNotEnforced,
}

// StampNames returns the key of every stamp: those of a grade, then those of
// an execution.
func StampNames() []string {
	return append(append([]string{}, gradeStamps...), executionStamps...)
}

// ClearGradeStamps removes what an earlier grade stamped, on every path that
// grades (spec/regrade.md 1.7, D-41).
func ClearGradeStamps(info *Object) {
	for _, name := range gradeStamps {
		info.Delete(name)
	}
}

// clearStamps removes every stamp, for a row that is executed again.
func clearStamps(info *Object) {
	for _, name := range StampNames() {
		info.Delete(name)
	}
}

func isStamp(name string) bool {
	return slices.Contains(gradeStamps, name) || slices.Contains(executionStamps, name)
}

// Stamps returns the stamps that an environment_info, or a row of run.json,
// carries now, in the order of StampNames.
func Stamps(info *Object) []Stamp {
	var found []Stamp
	for _, name := range StampNames() {
		if value, ok := info.Get(name); ok {
			found = append(found, Stamp{Name: name, Value: value})
		}
	}
	return found
}

// Stamp is one stamp of a record.
type Stamp struct {
	Name  string
	Value Raw
}
