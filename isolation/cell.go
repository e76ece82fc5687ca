package isolation

import (
	"context"
	"errors"
	"io"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/isolation/protocol"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// Cell is one container of one row and one phase, from open to close. Its
// methods may be called from several goroutines. An error of Run, Stat, Read
// or List that is none of the Err values means that the cell is lost.
type Cell interface {
	// Run runs a command. A command that fails, or is ended by its time-out,
	// is an Exit, not an error.
	Run(ctx context.Context, command Command) (Exit, error)
	// Stat describes what name leads to. What it resolves to must lie below base.
	Stat(ctx context.Context, base, name string) (protocol.File, error)
	// Read copies the regular file that name leads to into w, at most limit
	// bytes (ErrTooLarge when it is larger; nothing is written then).
	Read(ctx context.Context, base, name string, limit int64, w io.Writer) (protocol.File, error)
	// List returns the entries of a directory, sorted by name.
	List(ctx context.Context, base, name string, limit int64) ([]protocol.File, error)
	// Put makes what name says below base, owned by the image's user, with the
	// directories that lead to it (0755). A regular file or a link takes the
	// place of what is there, unless that is a directory; a directory that is
	// there gets the mode and the time. It follows no link out of base. content
	// is read to its end for a regular file, else nil.
	Put(ctx context.Context, base, name string, entry Entry, content io.Reader) error
	// Remove removes what name says below base, and all below that, following
	// no link; "." removes what base holds, and leaves base. What is not there
	// is no error.
	Remove(ctx context.Context, base, name string) error
	// EndProcesses ends every process but the supervisor, and says which were
	// alive besides it and the commands under way, capped as protocol says.
	// With ErrAlive one of them could not be ended from inside.
	EndProcesses(ctx context.Context) ([]Process, error)
	// Record lets answer answer each call of a recorded command from now on: of
	// the program that Recorder of Places leads to, under another name. It may
	// be called from several goroutines.
	Record(ctx context.Context, answer func(Call) Reply) error
	// Changes tells take what commands changed in the view of the workspace, and
	// hands it the bytes of files within the bound; take need not read them. It
	// is untrusted, all of it. Commands may still run. The view bind, which is
	// the workspace itself, has nothing to compare with: ErrNoChanges.
	Changes(ctx context.Context, bound Bound, take func(Change, io.Reader) error) (Changed, error)
	// Room tells whether a disk is full that commands write to, and whether what
	// they wrote would have filled it alone: then a command that fails for it
	// fails by its row's own doing.
	Room(ctx context.Context) (Room, error)
	// CheckImage tells whether the image's layers are all still there. It comes
	// after the last criterion and before any verdict is written. The error
	// wraps ErrNoImage when one is gone.
	CheckImage(ctx context.Context) error
	// Places says where a command finds things.
	Places() Places
	// Made says what was really made; it is known from Open on.
	Made() Made
	// KeepBefore keeps, as a state layer, what an execute cell has changed outside
	// of its workspace so far. The cell goes on; what runs in it stands still
	// meanwhile.
	KeepBefore(ctx context.Context) (StateLayer, error)
	// Settle ends the processes and the container of an execute cell, gives its
	// workspace back to the caller and takes what else is asked for. The cell
	// cannot be used afterwards; Close is still due.
	Settle(ctx context.Context, s Settle) (Settled, error)
	// Close ends every process of the cell and takes its mounts away. It is
	// safe to call it twice. The workspace of an execute cell that was not
	// settled is given back to the caller.
	Close() error
}

// Errors of Cell.Stat, Cell.Read, Cell.List, Cell.Put and Cell.Remove, of
// Cell.Run for ErrNoProgram and ErrTooLarge, of Cell.EndProcesses for ErrAlive.
// They are wrapped.
var (
	ErrNotExist   = errors.New("no such file or directory")
	ErrEscapes    = errors.New("path leads outside of its base")
	ErrNotRegular = errors.New("not a regular file")
	ErrNotDir     = errors.New("not a directory")
	ErrTooLarge   = errors.New("file is too large")
	ErrDenied     = errors.New("permission denied")
	ErrBroken     = errors.New("input/output error")
	ErrNoProgram  = errors.New("no such program in the cell")
	ErrAlive      = errors.New("a process cannot be ended from inside the cell")
)

// ErrNoSpace is wrapped when the disk is full: a fault of the host.
var ErrNoSpace = errors.New("no space left on the disk")

// Entry is what Put makes.
type Entry struct {
	Type    protocol.FileType // protocol.Regular, Directory or Symlink
	Mode    uint32            // permission bits; those of a link are not looked at
	Target  string            // of a link
	ModTime time.Time         // zero: now
}

// Call is a call of a recorded command, Reply what the command then does.
type (
	Call  = protocol.Call
	Reply = protocol.Reply
)

// Process is a process that was alive in a cell.
type Process = protocol.Process

// Port is a port that such a process had.
type Port = protocol.Port

// Change is how an entry of a view of the workspace differs from the workspace;
// Changed counts them, and Bound is how much of them is told.
type (
	Change  = worker.TheChange
	Changed = worker.Changed
	Bound   = worker.Bound
)

// Room is what Cell.Room tells.
type Room = worker.Room

// Places are the directories of a cell as its commands see them: fixed paths
// in a container, the private views' own on the host.
type Places struct {
	Workspace, TaskDir, Reference string
	// Recorder is the program that stands in for recorded commands: a link to it
	// under a command's name is that command.
	Recorder string
}

// Order is what Open needs to make a cell: the plan, and the places on the
// host that the plan's mounts come from.
type Order struct {
	// Plan says what the cell needs. Open fills in what only the image knows
	// (user, home, environment) before it makes the specification.
	Plan oci.Plan
	// Engine is the engine to use; "": that of Options.
	Engine string
	// Image is the pinned image, as found in Podman's store.
	Image Image
	// Workspace is the host tree that the cell gets a view of at
	// oci.WorkspacePath.
	Workspace string
	// Create makes an execute cell: Workspace is an empty directory of the
	// caller's, and is the workspace itself. The image's user owns it, and what
	// is made in it, until Settle or Close. There is no task directory and no
	// reference, but an empty directory of the user's at oci.TaskDirPath.
	Create bool
	// WorkingDir is where the image has the workspace: nothing is mounted there,
	// and Places says so. In an execute cell there is no Workspace then: what
	// is there is captured when the cell is settled. In a grade it is there in
	// the state layer; without one what was captured, Workspace, is laid over
	// the image's directory. "": the workspace is mounted at
	// oci.WorkspacePath.
	WorkingDir string
	// Ignore are the base names that the capture left out (path.Match
	// patterns): what the image has of them stays when it is laid over.
	Ignore []string
	// Programs are looked for in the image itself, by name on its PATH or by path:
	// Made says where it has them, whatever an agent left of them.
	Programs []string
	// State is the diff id of a kept state layer, which lies above the image; "": none.
	State string
	// Row is the row directory, which is noted where its state layer is kept; "":
	// nothing is.
	Row string
	// BeforeAgent: State is of before the agent worked. The workspace is not in
	// it, also where WorkingDir has one.
	BeforeAgent bool
	// View is one of Views; "": ViewAuto.
	View string
	// TaskDir is given read-only, without .git and links that lead out, at
	// oci.TaskDirPath; empty: none.
	TaskDir string
	// Reference is given like TaskDir at oci.ReferencesPath; empty: none.
	Reference string
	// Hidden are directories that no view shows wherever they lie: the run
	// directory above all.
	Hidden []string
	// RequireLimits refuses a cell whose limits nothing would enforce.
	RequireLimits bool
	// Log receives what the runtime and the supervisor wrote to standard
	// error; nil: it is dropped.
	Log io.Writer
}

// MaxStdin is the most standard input that a command can be given, in bytes.
const MaxStdin = protocol.MaxStdin

// Command is one command of a cell.
type Command struct {
	Argv    []string
	Env     []string // complete
	Dir     string
	Timeout time.Duration // 0: none
	// Stdin is the whole standard input, at most MaxStdin bytes; nil: /dev/null.
	Stdin []byte
	// Live is standard input that is handed on as it comes, in place of Stdin; a
	// Read that waits must end when it is closed. nil: none.
	Live io.ReadCloser
	// Terminal makes the three streams a terminal of that size, whose output is
	// Stdout; nil: none. Resized tells how large it is from then on.
	Terminal *Size
	Resized  <-chan Size
	// Stdout and Stderr receive the streams as they come; nil: dropped.
	Stdout, Stderr io.Writer
}

// Size is that of a terminal.
type Size = protocol.Size

// Exit is how a command ended.
type Exit struct {
	Code            int
	Signal          int
	TimedOut        bool
	Held            bool // background process held the output until the time-out
	CellEnded       bool // the cell ended with the command, by the command's doing
	NetworkAttempts uint64
	Duration        time.Duration
}

// Made is what was really made for a cell, for the record's cell file.
type Made struct {
	Engine       string      `json:"engine"`
	EngineReason string      `json:"engine_reason"`
	Runtime      string      `json:"runtime"` // name and version
	Pin          oci.Pin     `json:"pin"`
	Spec         *specs.Spec `json:"spec,omitempty"` // nil on the host
	SpecSHA256   string      `json:"spec_sha256,omitempty"`
	Verified     bool        `json:"verified"` // the started cell was compared with its specification
	View         View        `json:"workspace_view"`
	// TaskDirDigest and ReferenceDigest are of what the cell shows of both; "": it has
	// none.
	TaskDirDigest   string `json:"task_dir_digest,omitempty"`
	ReferenceDigest string `json:"reference_digest,omitempty"`

	HostIDs       *oci.HostIDs       `json:"host_ids,omitempty"` // of root's cells; nil: the caller's own and its subordinate ones
	Network       string             `json:"network,omitempty"`  // program that serves it; "": the cell is sealed
	LimitsAsked   oci.Limits         `json:"limits_asked"`
	LimitsKept    []string           `json:"limits_enforced"`
	LimitsNotKept []string           `json:"limits_not_enforced"`
	ReplacedTools []string           `json:"replaced_tools,omitempty"` // programs of the image that the state layer replaces, deletes or hides
	Programs      map[string]string  `json:"-"`                        // those of Order.Programs that the image has, and where
	StateProblem  string             `json:"-"`                        // why an execute cell can keep no state layer; "": it can
	Shell         string             `json:"shell,omitempty"`          // "" when the image has none
	Home          string             `json:"home"`
	TimingsMS     map[string]float64 `json:"timings_ms"`
}

// View is how the cell sees the workspace.
type View struct {
	Kind    string   `json:"kind"` // one of Views, not ViewAuto
	Reason  string   `json:"reason"`
	Entries int      `json:"entries"`
	Bytes   int64    `json:"bytes"`
	Digest  string   `json:"digest"` // of the evidence, see docs/grading.md
	Times   string   `json:"times"`  // digest of when what is in it was changed last
	Hazards []string `json:"hazards"`
}

// Image is an image as Podman's store has it.
type Image struct {
	Pin        oci.Pin
	References []string // names that lead to it now
	Env        []string
	WorkingDir string
	User       string   // as the image configuration says it: "", name, uid, uid:gid
	Volumes    []string // paths, sorted
	Driver     string   // Podman's storage driver
	Layers     []string // lower directories, top first; none where the driver is not overlay
	Labels     map[string]string
	Created    time.Time // as its configuration says
	Digests    []string  // names with a digest, as registries and archives gave them
}
