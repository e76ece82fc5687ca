package isolation

import (
	"errors"
	"fmt"
	"strings"
)

// Fault is an error of this package: what we tried, on what, why it failed,
// and one thing to do about it.
type Fault struct {
	Kind  FaultKind
	Tried string // "start a cell"
	On    string // what it was tried on; may be empty
	Why   error
	Do    string // one thing to do; may be empty
}

// FaultKind says whose fault it is, which decides how podgrade exits.
type FaultKind int

// The kinds of faults.
const (
	// Infrastructure: the host, Podman or the runtime. A row is not to blame.
	Infrastructure FaultKind = iota
	// Refusal: it could be done, and must not be, or the host cannot do what
	// was asked for.
	Refusal
	// Evidence: the tree that was to be graded is at fault.
	Evidence
)

// Error gives all parts on one line.
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.Tried)
	if f.On != "" {
		fmt.Fprintf(&b, " %s", f.On)
	}
	if f.Why != nil {
		fmt.Fprintf(&b, ": %v", f.Why)
	}
	if f.Do != "" {
		fmt.Fprintf(&b, " (%s)", f.Do)
	}
	return b.String()
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Why }

// ErrNoImage is wrapped by errors about an image that Podman's store does not
// have, or no longer has.
var ErrNoImage = errors.New("no such image in Podman's store")

// ErrCellLost is wrapped by errors about a cell that ended and was not ended
// by its own command.
var ErrCellLost = errors.New("the cell ended")

// ErrClosed is wrapped when the worker is gone.
var ErrClosed = errors.New("podgrade's worker is gone")
