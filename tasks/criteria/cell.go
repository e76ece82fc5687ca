package criteria

import (
	"context"
	"errors"
	"time"
)

// Cell is what a criterion may ask of the place where a row is graded. All
// names are relative to the sandbox root (the workspace) or absolute; links
// are followed, and what a name resolves to must lie inside the sandbox root.
//
// An error that is none of the Err values below means that the place itself
// is lost: no criterion result may be made of it.
type Cell interface {
	Files
	// Run runs a command line with the cell's shell in the sandbox root. Of the
	// Err values it returns those of NotStarted.
	Run(ctx context.Context, command Command) (Exit, error)
}

// Files is a tree that can be read, with names relative to its root or
// absolute: the sandbox as part of a Cell, the reference directory.
type Files interface {
	// Stat describes what name leads to.
	Stat(ctx context.Context, name string) (File, error)
	// Read returns the bytes of the regular file that name leads to.
	Read(ctx context.Context, name string, limit int64) ([]byte, error)
	// List returns the entries of the directory that name leads to, sorted by
	// name; links are not followed for the entries themselves.
	List(ctx context.Context, name string) ([]File, error)
}

// Errors of Cell that a criterion turns into a result. They are wrapped.
var (
	ErrNotExist   = errors.New("no such file or directory")
	ErrEscapes    = errors.New("path leads outside of the sandbox")
	ErrNotRegular = errors.New("not a regular file")
	ErrNotDir     = errors.New("not a directory")
	ErrTooLarge   = errors.New("file is too large")
	ErrDenied     = errors.New("permission denied")
	ErrIO         = errors.New("input/output error")
	ErrNoLine     = errors.New("not a command line that can be run")
)

// NotStarted tells whether err says that a command was not started through its
// own line, or through what commands before it made of the sandbox root. The
// place is whole then.
func NotStarted(err error) bool {
	return errors.Is(err, ErrNoLine) || errors.Is(err, ErrNotExist) || errors.Is(err, ErrDenied)
}

// Command is one command line of a criterion.
type Command struct {
	Line    string        // given to the shell as it is
	Timeout time.Duration // 0: none
	// Label names the command in logs, for example "criterion 3".
	Label string
}

// Exit is how a command ended. A time-out is an Exit, not an error.
type Exit struct {
	Code     int  // exit status; 128+n when signal n ended it; -1 after a time-out
	TimedOut bool // ended by its time-out, with all that ran in the cell
	// Held: the command itself had ended before its time-out; a process that it
	// left in the background held its output open.
	Held bool
	// CellEnded: the command ended its own cell (or the host had to end it
	// because of the command). The next command finds a new cell.
	CellEnded bool
	// NoShell: the cell has no shell that could run the line.
	NoShell bool
	// NetworkAttempts counts the packets that found no network.
	NetworkAttempts uint64
	Stdout, Stderr  Output
	Duration        time.Duration
}

// Output is one captured stream of a command.
type Output struct {
	// Text is the kept part: all of it up to the cap of the capture, else head
	// and tail with a marker that counts what was dropped. Any bytes are legal.
	Text []byte
	// Dropped is the number of bytes that Text leaves out; 0: it is whole.
	Dropped int64
	Bytes   int64  // of the whole stream
	SHA256  string // of the whole stream, hexadecimal
}

// FileType is the kind of a file.
type FileType string

// The kinds of files that criteria tell apart.
const (
	Regular   FileType = "regular"
	Directory FileType = "directory"
	Symlink   FileType = "symlink"
	Other     FileType = "other" // fifo, socket, device
)

// File describes a file.
type File struct {
	Name string   // as asked, or the entry's name
	Path string   // where it really lies, relative to the sandbox root
	Type FileType // of the target for Stat; of the entry itself for List
	Size int64    // bytes
}
