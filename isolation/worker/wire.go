// Package worker is the bundle engine's worker: a process that podgrade starts
// once, in a user namespace of its own, as PID 1 of its own pid namespace, with
// private mount and cgroup namespaces. It mounts what cells need, starts crun
// or runc and Podman, and reports what it measured. When it ends, however it
// ends, the kernel ends every cell.
//
// It is a binary of its own, because it is executed three times at each start
// and a binary with the Podman bindings takes 14 ms each time before main.
package worker

import (
	"encoding/json"

	"podgrade/isolation/states"
	"podgrade/isolation/tree"
	"podgrade/oci"
)

// Op names what a request asks.
type Op string

// The operations.
const (
	OpExec    Op = "exec"    // run a program of the host inside the namespaces
	OpSignal  Op = "signal"  // end a program that OpExec started
	OpRoot    Op = "root"    // mount a cell's root file system
	OpView    Op = "view"    // make a view of a host tree
	OpHome    Op = "home"    // find a home that the image's user can write
	OpStart   Op = "start"   // start the runtime on a specification
	OpMeasure Op = "measure" // measure a started cell
	OpStopped Op = "stopped" // is a started cell's first process stopped?
	OpLayers  Op = "layers"  // are the cell's image layers still there?
	OpFinish  Op = "finish"  // end a cell and take its mounts away
	OpDiscard Op = "discard" // remove what is left of a finished cell
	OpSweep   Op = "sweep"   // remove the directory of a dead podgrade
	OpLook    Op = "look"    // read what is in an image
	OpNetwork Op = "network" // give a started cell a network
	OpEntrust Op = "entrust" // keep the specification of a container that Podman makes
	OpAdopt   Op = "adopt"   // take such a container for the cell
	OpCapture Op = "capture" // copy the working directory of an ended execute cell
	OpLay     Op = "lay"     // lay such a copy over the working directory of a cell
	OpRoom    Op = "room"    // is a disk full that commands write to?
	OpChanges Op = "changes" // tell what commands changed in their view of the workspace
	OpKeep    Op = "keep"    // keep the state layer of an ended execute cell
	OpBefore  Op = "before"  // keep the state layer of what an execute cell has changed so far
	OpApply   Op = "apply"   // put a state layer into a container that Podman mounted
	OpBack    Op = "back"    // take a lent workspace back, be its cell dead
	OpSurvey  Op = "survey"  // say what is in a workspace that was taken back
	OpStock   Op = "stock"   // take a state layer in that came from elsewhere
)

// MaxMessage is the largest message in bytes, either way.
const MaxMessage = 160 << 10

// Request is one message to the worker. Descriptors that belong to it travel
// beside it.
type Request struct {
	ID   uint64 `json:"id"`
	Op   Op     `json:"op"`
	Cell string `json:"cell,omitempty"` // the cell's name, for the operations on a cell

	Exec       *Exec           `json:"exec,omitempty"`        // OpExec, with three descriptors
	Of         uint64          `json:"of,omitempty"`          // OpSignal: id of the OpExec
	Root       *Root           `json:"root,omitempty"`        // OpRoot, with the image where it is given; OpKeep, OpBefore: what is below the upper directory of a container; OpApply: the state; OpLook: the layers, where there is no directory of them
	View       *View           `json:"view,omitempty"`        // OpView, with the source directory, and with what is shown of it where that is given
	User       *oci.User       `json:"user,omitempty"`        // OpHome
	Spec       json.RawMessage `json:"spec,omitempty"`        // OpStart, with three descriptors, and that of its control group where it has one; OpEntrust
	Profile    string          `json:"profile,omitempty"`     // OpStart: a name of the specification's seccomp profile, which it may leave out once its filter is known
	Filter     []byte          `json:"filter,omitempty"`      // OpStart: the profile's filter, compiled; none: the runtime compiles it, or it is known
	Enter      bool            `json:"enter,omitempty"`       // OpStart: the descriptors after the third are files of control groups of version 1 that a process enters by writing
	Dir        string          `json:"dir,omitempty"`         // OpLook: where the image is mounted
	PID        int             `json:"pid,omitempty"`         // OpAdopt: the container's first process; with a pipe's end, closed when that process ends
	Image      *RootFacts      `json:"image,omitempty"`       // OpAdopt: what OpLook found, without its files
	Kill       bool            `json:"kill,omitempty"`        // OpFinish: end PID 1 first
	Keep       bool            `json:"keep,omitempty"`        // OpFinish: the views are used again
	Hold       bool            `json:"hold,omitempty"`        // OpFinish: the root file system too
	Create     bool            `json:"create,omitempty"`      // OpHome: of an execute cell, which has an empty task directory
	WorkingDir string          `json:"working_dir,omitempty"` // OpHome: it is made when it is not there
	Capture    *Capture        `json:"capture,omitempty"`     // OpCapture, OpLay, with a directory of the host
	Changes    *Bound          `json:"changes,omitempty"`     // OpChanges, with the tree and what takes the changes; Capture where the workspace is in the image
	Upper      string          `json:"upper,omitempty"`       // OpAdopt, OpRoom: the container's upper directory, where an overlay has one; OpRoom with the workspace
	Mounted    string          `json:"mounted,omitempty"`     // OpCapture, OpApply: where Podman mounted the root of a container; "": the root is ours
	Pin        string          `json:"pin,omitempty"`         // OpKeep, OpBefore: of the image, for people
	SearchPath string          `json:"search_path,omitempty"` // OpKeep, OpBefore, OpRoot, OpLook: the image's own PATH
	Programs   []string        `json:"programs,omitempty"`    // OpRoot, OpLook: names that are looked for on it, or paths
	Look       bool            `json:"look,omitempty"`        // OpKeep: say what the layer would be, and keep none
	Owner      *tree.Owner     `json:"owner,omitempty"`       // OpBack, with the workspace (as OpSurvey): the image's user
	Network    []Forwarder     `json:"network,omitempty"`     // OpNetwork: tried in this order
	Sweep      string          `json:"sweep,omitempty"`       // OpSweep: a directory of the scratch
	Hosts      string          `json:"hosts,omitempty"`       // OpKeep, OpBefore: what the cell's /etc/hosts held at first
	Etc        string          `json:"etc,omitempty"`         // OpApply: where the container's files of /etc are
	Stock      *Stock          `json:"stock,omitempty"`       // OpStock, with the archive, Root or Mounted, SearchPath and Pin
}

// Stock is a state layer that came from elsewhere.
type Stock struct {
	DiffID string     `json:"diff_id"`
	Most   tree.Bound `json:"most"`
	// BeforeAgent: as states.Info says it, by the rows that it came with.
	BeforeAgent bool `json:"before_agent,omitempty"`
}

// Exec is a program of the host.
type Exec struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

// Root asks for the root file system of a new cell.
type Root struct {
	// Layers are the directories of the image's layers, top first, as Podman's
	// store lays them out: <store>/overlay/<id>/diff.
	Layers []string `json:"layers"`
	// Given: the image comes as one mount of its own, in place of its layers.
	// Who gave it looks whether they are still there.
	Given bool `json:"given,omitempty"`
	// State is the directory of a kept state layer that lies above them; "": none.
	State string `json:"state,omitempty"`
	// Create: of an execute cell, which keeps what changes.
	Create bool `json:"create,omitempty"`
}

// View asks for a view of the tree that the passed descriptor leads to.
type View struct {
	Name    string       `json:"name"` // a plain name, the directory in the cell's own
	Options tree.Options `json:"options"`
	// Most refuses a larger tree.
	Most tree.Bound `json:"most"`
	// ReadOnly: the view is made read-only before the cell starts.
	ReadOnly bool `json:"read_only"`
	// Kind is the view that is asked for.
	Kind ViewKind `json:"kind"`
	// Source is where the tree lies. The worker opens it again, because the
	// kernel mounts nothing of another mount namespace.
	Source string `json:"source"`
	// Given: the descriptors are mounts of their own, which can be put anywhere
	// once; the last one is what a mounted view shows, in which the caller's
	// files are the image user's already.
	Given bool `json:"given,omitempty"`
	// Digests is the directory of a cache for digests; "": the tree is read.
	Digests string `json:"digests,omitempty"`
	// Unmounted: the view is used outside of the worker's mount namespace.
	Unmounted bool `json:"unmounted,omitempty"`
}

// ViewKind is how a cell sees a tree.
type ViewKind string

// The kinds of views. Only ViewAuto is a question; the others are answers too.
const (
	ViewAuto    ViewKind = "auto"    // a copy of a small tree, an overlay of a large one
	ViewCopy    ViewKind = "copy"    // a copy that shows all that the tree has
	ViewOverlay ViewKind = "overlay" // an overlay, where it shows all that the tree has
	ViewBind    ViewKind = "bind"    // the tree itself
	ViewNone    ViewKind = "state"   // none: the state layer has it, the tree is only read
	ViewLend    ViewKind = "lend"    // the tree itself, empty, as the image user's own: for an execute cell alone
)

// ViewMade says what kind of view was made, and why this one.
type ViewMade struct {
	Kind   ViewKind `json:"kind"`
	Reason string   `json:"reason"`
}

// Reply answers a request, exactly one each; the first message of a worker is
// a reply with ID 0 and Hello set.
type Reply struct {
	ID    uint64 `json:"id"`
	Error *Error `json:"error,omitempty"`

	Hello     *Hello         `json:"hello,omitempty"`
	ExitCode  int            `json:"exit_code,omitempty"` // OpExec
	Rootfs    *RootFacts     `json:"rootfs,omitempty"`    // OpRoot, OpLook
	Path      string         `json:"path,omitempty"`      // OpView, OpEntrust: where it lies; OpHome: in the cell
	Tree      *tree.Report   `json:"tree,omitempty"`      // OpView, OpBack, OpSurvey
	View      *ViewMade      `json:"view,omitempty"`      // OpView
	Measured  *oci.Measured  `json:"measured,omitempty"`  // OpMeasure
	Filter    []byte         `json:"filter,omitempty"`    // OpMeasure: the seccomp filter that the runtime compiled for this cell, when it had none before
	End       *End           `json:"end,omitempty"`       // OpFinish
	Forwarder string         `json:"forwarder,omitempty"` // OpNetwork: the path of the one that serves the cell
	Missing   string         `json:"missing,omitempty"`   // OpLayers: a layer that is gone
	Stopped   bool           `json:"stopped,omitempty"`   // OpStopped
	State     *StateMade     `json:"state,omitempty"`     // OpKeep, OpBefore
	Returned  *tree.Returned `json:"returned,omitempty"`  // OpBack
	Changed   *Changed       `json:"changed,omitempty"`   // OpChanges
	Room      *Room          `json:"room,omitempty"`      // OpRoom
}

// StateMade is a state layer that was kept, or looked at; without a DiffID
// nothing had changed.
type StateMade struct {
	states.Info
	sums []tree.FileSum // of the files that can be shared
	// HostsLost: /etc/hosts was written to, and the layer cannot have it.
	HostsLost bool        `json:"hosts_lost,omitempty"`
	Changed   []string    `json:"changed,omitempty"`
	Deleted   []string    `json:"deleted,omitempty"`
	More      int         `json:"more,omitempty"`   // paths beyond the cap of these
	Pruned    tree.Pruned `json:"pruned,omitempty"` // changes that no layer holds
}

// Error is why a request failed.
type Error struct {
	Message string `json:"message"`
	// Image: the image's layers, or the state layer, are not there (any more).
	Image bool `json:"image,omitempty"`
	// Workspace: the tree that was to be viewed is at fault.
	Workspace bool `json:"workspace,omitempty"`
	// Damaged: the state layer cannot be read any more.
	Damaged bool `json:"damaged,omitempty"`
	// Refused: it could be done, and must not be.
	Refused bool `json:"refused,omitempty"`
}

// Hello is what the worker found at its start.
type Hello struct {
	PID     int                   `json:"pid"` // 1
	IDs     uint32                `json:"ids"` // of its user namespace
	Rlimits map[string]oci.Rlimit `json:"rlimits"`
}

// RootFacts are what the mounted root file system shows.
type RootFacts struct {
	Path   string `json:"path"`
	Passwd []byte `json:"passwd,omitempty"` // at most maxUserFile bytes
	Group  []byte `json:"group,omitempty"`  // at most maxUserFile bytes
	Shell  bool   `json:"shell"`            // /bin/sh leads to a program
	Mtab   bool   `json:"mtab"`             // there is an /etc/mtab
	Work   bool   `json:"work"`             // there is an oci.WorkPath
	// Programs are those asked for that the image itself has, by name: a state
	// layer has no say.
	Programs map[string]string `json:"programs,omitempty"`
}

// End is how a cell ended.
type End struct {
	// Code is the runtime's exit code: 128+n when signal n ended PID 1.
	Code int `json:"code"`
	// Killed: we ended it.
	Killed bool `json:"killed"`
}
