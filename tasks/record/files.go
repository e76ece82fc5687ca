package record

// The names of files in a row directory (spec/regrade.md 0). These are their
// only definitions.
const (
	TaskFile        = "task.json"           // the record
	ExecuteFile     = "task.execute.json"   // the record before its first grade, written once
	MalformedFile   = "task.json.malformed" // a record that could not be read
	TaskLog         = "task.log"            // the agent run's log; a grade never opens it
	GradeLog        = "grade.log"           // the grade's own log
	ContainerLog    = "docker.log"          // output of the executing container
	CriterionLogs   = "grade.logs"          // directory: all that the grade's commands printed, where the record cuts it
	GradeChanges    = "grade.changes"       // directory: what the grade's commands changed in their view of the workspace
	GradeCellLog    = "grade.docker.log"    // standard error of runtime and supervisor in a grade
	ExecuteCellFile = "cell.execute.json"   // what was made for the agent's cell
	GradeCellFile   = "cell.grade.json"     // what was made for the grading cell
	ExecuteEnvelope = "execute.dsse.json"   // who vouches for the row, as it was executed
	GradeEnvelope   = "grade.dsse.json"     // who vouches for its verdict
	ArtifactsDir    = "artifacts"           // parent of the preserved workspace
	RowPage         = "task.html"           // the record, to read
	WorkspaceDraft  = "workspace.tmp"       // parent of a workspace that is not preserved yet, or never
	ClaimFile       = "claim.tmp"           // locked by who grades the row, or runs rows of the run, where several hosts could
)

// The names of files in a run directory.
const (
	RunFile         = "run.json"                // the run's summary
	RunPage         = "run.md"                  // the same, to read
	VariantFile     = "variant.json"            // the aggregate of a variant, below its directory
	VariantPage     = "variant.md"              //
	ExperimentFile  = "experiment.json"         // the variants compared
	ExperimentPage  = "experiment.md"           //
	ExperimentLog   = "experiment.log"          // the logs of all rows
	SuiteFile       = "suite.json"              // the roll-up of a dataset task
	SuitePage       = "suite.md"                //
	JUnitFile       = "junit.xml"               // where a JUnit report goes by itself
	FingerprintFile = "resume_fingerprint.json" // what the run was configured with
	Latest          = "latest"                  // beside the runs: a link that leads to the newest
	ImportedDir     = "imported.podgrade"       // task directories and references of imported rows
)

// Sizes that reading is bounded by, in bytes, and the depth of nesting.
const (
	MaxRecord = 64 << 20 // of task.json
	MaxRun    = 64 << 20 // of run.json
	MaxDepth  = 500      // of nested arrays and objects

	MaxEnvelope = 1 << 20 // of a signature's file
)

// ofAgents tells whether a directory of that name holds what agents wrote, or a
// task's author, so that nothing below it is a record or a row.
func ofAgents(name string) bool {
	return name == ArtifactsDir || name == WorkspaceDraft || name == ImportedDir
}
