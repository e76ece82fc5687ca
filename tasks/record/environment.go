package record

import (
	"slices"

	"podgrade/oci"
)

// Keys that podgrade writes to environment_info when it executes a row, flat
// as readers expect (spec/run-record.md 5). These are their only definitions.
const (
	Version         = "podgrade_version"
	Engine          = "podgrade_engine"
	Image           = "podgrade_image"
	ImageID         = "podgrade_image_id"
	ImageDigest     = "podgrade_image_digest"
	Platform        = "podgrade_platform"
	ImageCreated    = "podgrade_image_created" // when, as the image itself says
	ImageOrigin     = "podgrade_image_origin"  // registry's name and digest, Dockerfile, or OriginLocal
	StateDiffID     = "podgrade_state_diff_id"
	PreRunState     = "podgrade_pre_run_state"         // one of the States, of when the agent started
	PreRunDiffID    = "podgrade_pre_run_state_diff_id" // of the layer that was kept of then
	StateChanges    = "podgrade_state_changes"         // paths, a line each, see docs/state-layers.md
	StateChanged    = "podgrade_state_changed"         // number of them
	StateNotCarried = "podgrade_state_not_carried"     // what no state layer holds, a line each
	TaskDigest      = "podgrade_task_digest"
	RunDigest       = "podgrade_run_digest"
	SpecSHA256      = "podgrade_spec_sha256"
	WorkspaceDigest = "podgrade_workspace_digest"
	WorkspaceTimes  = "podgrade_workspace_times" // digest of when files of it were changed last, or TimesNotKept
	LimitsEnforced  = "podgrade_limits_enforced"
	Runtime         = "podgrade_runtime"          // name and version
	Variables       = "podgrade_variables"        // of the host, that the agent's cell had; names
	Processes       = "podgrade_processes"        // that were alive when the agent had ended, with their ports
	State           = "podgrade_state"            // one of the States
	CaptureExcluded = "podgrade_capture_excluded" // entries that the capture of a working_dir left out
	BuildContext    = "podgrade_build_context_digest"
)

// Keys that podgrade writes to environment_info when it imports a row: where on
// this host that is what the row's own host had. Both directories are below
// ImportedDir of the run, and named from there.
const (
	Imported           = "podgrade_imported" // sha256 of the manifest of the archive
	TaskDir            = "podgrade_task_dir"
	TaskDirDigest      = "podgrade_task_dir_digest"
	ReferenceDir       = "podgrade_reference_dir"
	ReferenceDirDigest = "podgrade_reference_dir_digest"
)

// RowsNotRun is the key of environment_info in run.json that counts the rows which the
// run has not come to: while it goes on, and when it was interrupted. None: it came to
// all of them.
const RowsNotRun = "podgrade_rows_not_run"

// importFacts say where this host put what came with a row. No signature covers
// them.
var importFacts = []string{Imported, TaskDir, TaskDirDigest, ReferenceDir, ReferenceDirDigest}

// ImportFacts returns the keys of environment_info that an import sets.
func ImportFacts() []string { return append([]string{}, importFacts...) }

// OriginLocal is the origin of an image that was made or loaded on the host that
// executed the row.
const OriginLocal = "made or loaded on this host"

// TimesNotKept stands for the times of a workspace whose file system need not say
// the same ones later.
const TimesNotKept = "not kept by the file system"

// What became of changes outside of the workspace.
const (
	StateKept      = "kept"      // as the layer StateDiffID
	StateUnchanged = "unchanged" // there were none
	StateDropped   = "dropped"
)

// GradeState is the diff id of the state layer that a grade stands on: that of
// after the agent, else that of before it; "" where neither was kept, or nothing
// had changed in the end.
func GradeState(info *Object) string {
	if id := info.Text(StateDiffID); id != "" || info.Text(State) != StateDropped {
		return id
	}
	return info.Text(PreRunDiffID)
}

// StateLayers are the diff ids of all state layers that a row names.
func StateLayers(info *Object) []string {
	var ids []string
	for _, key := range []string{StateDiffID, PreRunDiffID} {
		if id := info.Text(key); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Keys that podgrade writes to environment_info when it grades a row.
const (
	WorkspaceView    = "podgrade_workspace_view"
	ViewReason       = "podgrade_workspace_view_reason"
	ViewHazards      = "podgrade_workspace_view_hazards"
	GradedByVersion  = "graded_by_podgrade"
	GradedByEngine   = "graded_by_podgrade_engine"
	GradedByRuntime  = "graded_by_podgrade_runtime"
	GradedImage      = "podgrade_graded_image"
	GradedImageID    = "podgrade_graded_image_id"
	GradedDigest     = "podgrade_graded_image_digest"
	GradedPlatform   = "podgrade_graded_platform"
	GradedSpecSHA256 = "podgrade_graded_spec_sha256"
	GradedWorkspace  = "podgrade_graded_workspace_digest"
	GradedTimes      = "podgrade_graded_workspace_times"
	GradedTaskDir    = "podgrade_graded_task_dir_digest"
	GradedReference  = "podgrade_graded_reference_digest"
	GradedLimits     = "podgrade_graded_limits_enforced"
	CleanRoom        = "podgrade_clean_room" // one of the CleanRooms
	CleanRoomStatus  = "podgrade_clean_room_status"
	CleanRoomScore   = "podgrade_clean_room_score"
)

// gradeFacts belong to one grade and are removed before the next.
var gradeFacts = []string{
	WorkspaceView, ViewReason, ViewHazards, GradedByVersion, GradedByEngine, GradedByRuntime,
	GradedImage, GradedImageID, GradedDigest, GradedPlatform, GradedSpecSHA256,
	GradedWorkspace, GradedTimes, GradedTaskDir, GradedReference, GradedLimits, GradingDuration, CleanRoom, CleanRoomStatus, CleanRoomScore,
}

// What a grade without the agent's changes to the system came to (--clean-room).
const (
	CleanRoomSame  = "same verdict"    // the same verdict, criterion by criterion
	CleanRoomOther = "another verdict" // another one: CleanRoomStatus and CleanRoomScore
)

// GradeFacts returns the keys of environment_info that describe one grade.
func GradeFacts() []string { return append([]string{}, gradeFacts...) }

// Keys of environment_info that upstream defines and podgrade reads or writes.
const (
	CommandBasePath   = "command_base_path"
	ReferenceDigest   = "reference_digest"
	GradingDuration   = "grading_duration_seconds"
	ContainerContract = "container_contract"
)

// Pin returns the identity of the image that the row ran in; it is not Known
// for a record that holds none, as every record of coder-eval.
func Pin(info *Object) oci.Pin {
	return oci.Pin{
		Reference: info.Text(Image),
		ID:        info.Text(ImageID),
		Digest:    info.Text(ImageDigest),
		Platform:  info.Text(Platform),
	}
}
