package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
)

// ErrNoState is wrapped when a state layer is not in the scratch directory.
var ErrNoState = errors.New("there is no such state layer")

// State is a kept state layer.
type State struct {
	states.Info
	Path string    `json:"path"`           // its directory
	Used time.Time `json:"used,omitzero"`  // by a grade or an import, last; when it was made, as long as none did
	Rows []string  `json:"rows,omitempty"` // that were noted to need it
}

// diffID is what names of state layers look like.
var diffID = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// stateDir is where a state layer is kept; "" when that is no name of one.
func stateDir(scratch, id string) string {
	if !diffID.MatchString(id) {
		return ""
	}
	return filepath.Join(states.StoreDir(scratch), strings.TrimPrefix(id, "sha256:"))
}

func (h *Host) stateDir(id string) string { return stateDir(h.options.Scratch, id) }

// HasState tells whether a state layer is there.
func (h *Host) HasState(id string) bool {
	_, err := readState(h.stateDir(id))
	return err == nil
}

func readState(dir string) (State, error) {
	s := State{Path: dir}
	if dir == "" {
		return s, ErrNoState
	}
	var err error
	s.Info, s.Used, err = states.ReadInfo(dir)
	if errors.Is(err, os.ErrNotExist) {
		return s, ErrNoState
	}
	if err == nil && stateDir(filepath.Dir(filepath.Dir(dir)), s.DiffID) != dir {
		err = fmt.Errorf("it says that it is %q", s.DiffID)
	}
	return s, err
}

// States lists the kept state layers of a scratch directory, oldest first.
func States(o Options) ([]State, error) {
	o, err := o.withScratch()
	if err != nil {
		return nil, err
	}
	store := states.StoreDir(o.Scratch)
	entries, err := os.ReadDir(store)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, &Fault{Tried: "list the state layers", On: store, Why: err}
	}
	var all []State
	for _, e := range entries {
		// What is half removed describes itself no more: its name is left.
		s, err := readState(filepath.Join(store, e.Name()))
		if err != nil {
			s.Info = states.Info{DiffID: "sha256:" + e.Name()}
		}
		s.Rows = notedRows(s.Path)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b State) int { return a.Made.Compare(b.Made) })
	return all, nil
}

// RemoveState removes a state layer. Rows that were executed with it can be
// graded in the image alone afterwards. Whether a cell stands on it now is not
// asked: such a cell notices, and is not judged.
func RemoveState(ctx context.Context, o Options, id string) error {
	o, err := o.withScratch()
	if err != nil {
		return err
	}
	dir := stateDir(o.Scratch, id)
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() { // "" is none
		return &Fault{Kind: Refusal, Tried: "remove the state layer", On: id, Why: ErrNoState, Do: "`podgrade state ls` lists those that there are"}
	}
	if err = giveUpState(ctx, o, dir); err == nil {
		err = removeStateDir(ctx, o, dir)
	}
	if err != nil {
		return &Fault{Tried: "remove the state layer", On: id, Why: err}
	}
	return nil
}

// giveUpState makes a layer none, and moves what others need of it.
func giveUpState(ctx context.Context, o Options, dir string) error {
	unlock, err := states.Lock(ctx, o.Scratch)
	if errors.Is(err, states.ErrNoLocks) {
		unlock, err = func() {}, nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	// Without its description it is no layer any more, whatever happens next.
	if err := os.Remove(states.InfoFile(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err = states.Release(dir)
	if errors.Is(err, os.ErrPermission) { // they lie below a directory of a subordinate id
		err = releaseInside(ctx, o, dir)
	}
	return err
}

func removeStateDir(ctx context.Context, o Options, dir string) error {
	open, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer open.Close()
	if err := RemoveTree(ctx, o, open); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil {
		return err
	}
	// The last one takes the store along.
	if err := os.Remove(filepath.Dir(dir)); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

// lostState is what can be done for a row whose state layer is gone.
const lostState = "use the --scratch that the row was executed with, import the row's archive (podgrade import), or execute the row again"

// damagedState is the fault of a layer that cannot be read any more.
func damagedState(id string, err error) error {
	return &Fault{Tried: "read the state layer", On: id, Why: err, Do: "remove it (podgrade state rm), and import the row's archive or execute the row again"}
}

// findState looks for the state layer of the order, and notes what it replaces.
// It refuses an order for one that is not there.
func (c *cell) findState() error {
	id := c.order.State
	if id == "" {
		return nil
	}
	state, err := readState(c.host.stateDir(id))
	if err == nil {
		err = c.holdState()
	}
	if err != nil {
		return &Fault{Kind: Refusal, Tried: "grade with the state layer", On: id, Why: fmt.Errorf("%w in %s", err, c.host.options.Scratch),
			Do: lostState}
	}
	if c.order.BeforeAgent && state.BeforeAgent {
		return nil // the task's own doing, and not the agent's
	}
	c.made.ReplacedTools = state.Replaced
	if state.ReplacedMore > 0 {
		c.made.ReplacedTools = append(c.made.ReplacedTools, fmt.Sprintf("and %d more", state.ReplacedMore))
	}
	return nil
}
