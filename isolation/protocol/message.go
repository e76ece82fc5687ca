package protocol

import "time"

// Hello is the first frame in both directions. The host sends a fresh nonce,
// the supervisor gives it back: so a frame left over from another cell, or a
// program that is not our supervisor, is noticed at once.
type Hello struct {
	Version int    `json:"version"`
	Nonce   string `json:"nonce"`
}

// Op names what a request asks.
type Op string

// The operations.
const (
	OpRun     Op = "run"     // run a command, streaming its output
	OpStat    Op = "stat"    // describe what a path leads to
	OpRead    Op = "read"    // send the bytes of a regular file
	OpList    Op = "list"    // list a directory
	OpPut     Op = "put"     // make a file, a directory or a symbolic link
	OpRemove  Op = "remove"  // remove a file, or a directory with all below it
	OpKillAll Op = "killall" // end every process but the supervisor
	OpRecord  Op = "record"  // hand the calls of recorded commands to the host from now on
	OpOpen    Op = "open"    // try system calls that must be refused
	OpResize  Op = "resize"  // say how large the terminal of the cell is now
)

// Request is one question of the host. IDs are chosen by the host and are not
// reused while the request is under way; several may be under way at once.
type Request struct {
	ID   uint32 `json:"id"`
	Op   Op     `json:"op"`
	Run  *Run   `json:"run,omitempty"`
	Path *Path  `json:"path,omitempty"`
	Put  *Put   `json:"put,omitempty"` // what OpPut makes at Path
	// Input: bytes follow in KindInput frames, until one of them ends them: the
	// standard input of OpRun, at most MaxStdin, or the content of OpPut. They
	// follow even when the answer comes first.
	Input bool `json:"input,omitempty"`
	// Size is what OpResize says.
	Size *Size `json:"size,omitempty"`
	// Calls are the names of the system calls to try, of OpOpen.
	Calls []string `json:"calls,omitempty"`
}

// MaxStdin is the most standard input that a command can be given, in bytes: the
// supervisor holds it until the command has read it.
const MaxStdin = 4 << 20

// Run describes a command. It runs in a session of its own, with a pipe that
// holds its input or /dev/null as its standard input, no controlling terminal
// and no other inherited descriptor.
type Run struct {
	Argv    []string      `json:"argv"`
	Env     []string      `json:"env"`
	Dir     string        `json:"dir"`
	Umask   uint32        `json:"umask"`
	Timeout time.Duration `json:"timeout"` // 0: none
	// Limits are set on the command itself, after the fork: so they may be
	// lower than the supervisor's own.
	Limits []Limit `json:"limits,omitempty"`
	// Landlock gives the command a Landlock domain of its own where the kernel
	// has it, so that what one command left behind cannot trace the next.
	Landlock bool `json:"landlock"`
	// Live hands the input on as it comes, while the command runs: it is of any
	// length, but no more than MaxStdin of it waits for the command.
	Live bool `json:"live,omitempty"`
	// Terminal makes all three streams a terminal of this size, the controlling
	// one of the command's session; what is printed arrives as Stdout. nil: none.
	Terminal *Size `json:"terminal,omitempty"`
}

// Size is that of a terminal.
type Size struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// Limit is one resource limit, soft and hard alike. Resource is the Linux
// number (RLIMIT_NPROC is 6).
type Limit struct {
	Resource int    `json:"resource"`
	Value    uint64 `json:"value"`
}

// Path names a file. Name is joined to Base when it is not absolute; what it
// resolves to must be Base or lie below it. Names may be any bytes.
type Path struct {
	Base string `json:"base"`
	Name string `json:"name"`
	// Limit caps the bytes that a read sends, or the entries that a list sends;
	// what is larger is TooLarge. 0 allows nothing but an empty file or directory.
	Limit int64 `json:"limit,omitempty"`
}

// Put is what OpPut makes. It belongs to the supervisor's user. A regular file
// or a link takes the place of what is there, unless that is a directory.
type Put struct {
	Type    FileType  `json:"type"` // Regular, Directory or Symlink
	Mode    uint32    `json:"mode"` // permission bits with setuid, setgid, sticky; none of a link
	Target  string    `json:"target,omitempty"`
	ModTime time.Time `json:"-"` // zero: now; on the wire as numbers
}

// Answer ends a request. Failure is set when the question could not be
// answered; a command that ran and failed is no failure.
//
// What was read arrives as Content chunks before the answer, and File.Size is
// then the number of bytes sent. When Failure is set after some were sent (the
// file grew beyond the limit, or broke), they are void.
//
// A long list comes in several answers to one request, all but the last with
// More set; File is then the directory itself, in the last one.
type Answer struct {
	ID      uint32     `json:"id"`
	More    bool       `json:"more,omitempty"`
	Failure *Failure   `json:"failure,omitempty"`
	Exit    *Exit      `json:"exit,omitempty"`
	File    *File      `json:"file,omitempty"`
	Files   []File     `json:"files,omitempty"`
	Kill    *KillCount `json:"kill,omitempty"`
	// Open are those of Request.Calls that were not refused, each with what
	// became of it.
	Open []string `json:"open,omitempty"`
}

// Exit is how a command ended.
type Exit struct {
	Code   int `json:"code"`   // exit status, 128+Signal when a signal ended it
	Signal int `json:"signal"` // 0 when it exited by itself
	// TimedOut: the time-out passed, and everything in the cell but the
	// supervisor was ended.
	TimedOut bool `json:"timed_out"`
	// Held: the command itself had ended, and a background process held its
	// output open until the time-out.
	Held bool `json:"held"`
	// Stuck: after a time-out some process could not be ended from inside. The
	// host must end the whole cell.
	Stuck bool `json:"stuck"`
	// NoRoutes counts the packets that found no route while the command ran
	// (IPv4 and IPv6): the command tried to reach a network.
	NoRoutes uint64        `json:"no_routes"`
	Duration time.Duration `json:"duration"`
}

// File describes what a path leads to, every link followed. An entry of a list
// is described itself: a link in it is not followed.
type File struct {
	Name    string    `json:"name"` // last part of the name as asked or listed
	Path    string    `json:"path"` // where it really lies, absolute; not sent for entries, Client fills it in
	Type    FileType  `json:"type"` // of the target; of the entry itself in a list
	Link    bool      `json:"link"` // the name itself is a symbolic link (list only)
	Mode    uint32    `json:"mode"` // permission bits with setuid, setgid, sticky
	Size    int64     `json:"size"` // bytes
	UID     uint32    `json:"uid"`  // as the cell sees it
	GID     uint32    `json:"gid"`  // as the cell sees it
	ModTime time.Time `json:"-"`    // nanoseconds kept, UTC; on the wire as numbers
}

// FileType is the kind of a file.
type FileType string

// The kinds of files.
const (
	Regular   FileType = "regular"
	Directory FileType = "directory"
	Symlink   FileType = "symlink" // only in a list, and to be made
	Fifo      FileType = "fifo"
	Socket    FileType = "socket"
	CharDev   FileType = "chardev"
	BlockDev  FileType = "blockdev"
)

// KillCount is the outcome of OpKillAll.
type KillCount struct {
	Stuck bool `json:"stuck"` // some process is still alive
	// Ended are the processes that were alive, but for the supervisor and the
	// commands under way, by number; at most MaxProcesses.
	Ended []Process `json:"ended,omitempty"`
}

// What a list of processes holds at most.
const (
	MaxProcesses   = 200
	MaxPorts       = 32  // of one process
	MaxCommandLine = 400 // bytes
)

// Process is a process that was alive.
type Process struct {
	// PID is 0 for ports that belong to no process that the supervisor can look
	// into.
	PID int `json:"pid"`
	// Name and Command are empty for a process that it cannot look into.
	Name    string `json:"name"`
	Command string `json:"command"` // the arguments, with spaces between them
	Ports   []Port `json:"ports,omitempty"`
}

// Port is a TCP port that is listened on, or a bound UDP port.
type Port struct {
	Protocol string `json:"protocol"` // tcp, tcp6, udp, udp6
	Port     uint16 `json:"port"`
}

// Failure says why a question could not be answered.
type Failure struct {
	Kind    FailureKind `json:"kind"`
	Message string      `json:"message"`
}

// FailureKind classifies a Failure; the host turns it into a typed error.
type FailureKind string

// The kinds of failures.
const (
	NotExist   FailureKind = "not_exist"   // nothing is there
	Escapes    FailureKind = "escapes"     // it exists, and lies outside of Base
	NotRegular FailureKind = "not_regular" // asked to read what is no regular file
	NotDir     FailureKind = "not_dir"     // asked to list what is no directory
	TooLarge   FailureKind = "too_large"   // larger than Limit
	Denied     FailureKind = "denied"      // EACCES or EPERM
	NoSpace    FailureKind = "no_space"    // the disk is full, or the user's share of it
	NoProgram  FailureKind = "no_program"  // Argv[0] is not in the cell or cannot be executed
	Broken     FailureKind = "broken"      // any other error (EIO, ESTALE, ENOMEM ...)
)
