package isolation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
)

// What the store knows of a layer beside what it is: when it was last used,
// which is the time of its description, and the rows that need it, each a file
// with the path of a row directory. Both are the caller's own files, so that no
// worker is needed.

func stateRows(dir string) string { return filepath.Join(dir, "rows") }

// mostNoted bounds the rows that are read of one layer, longestNoted each path.
const (
	mostNoted    = 10_000
	longestNoted = 4096
)

// NoteState notes that a row needs a state layer, which counts as a use of it.
// Whether it still does is for its record to say.
func (h *Host) NoteState(diffID, row string) error {
	dir := h.stateDir(diffID)
	if _, err := readState(dir); err != nil {
		return err
	}
	if err := touch(states.InfoFile(dir)); err != nil {
		return err
	}
	if len(row) > longestNoted {
		return fmt.Errorf("the path of the row has %d bytes", len(row))
	}
	if err := os.Mkdir(stateRows(dir), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	sum := sha256.Sum256([]byte(row))
	note := filepath.Join(stateRows(dir), hex.EncodeToString(sum[:16]))
	if err := os.WriteFile(note, []byte(row), 0o600); err != nil {
		return err
	}
	return h.privilege.own(stateRows(dir), note)
}

// notedRows are the rows that were noted, sorted.
func notedRows(dir string) []string {
	entries, err := os.ReadDir(stateRows(dir))
	if err != nil {
		return nil
	}
	var rows []string
	for _, e := range entries[:min(len(entries), mostNoted)] {
		if text, err := readStart(filepath.Join(stateRows(dir), e.Name()), longestNoted); err == nil {
			rows = append(rows, string(text))
		}
	}
	slices.Sort(rows)
	return rows
}

func readStart(path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

// HoldState keeps a state layer from being pruned until it is released, and counts
// as a use of it. ErrNoState where there is none, or where it is being removed.
func (h *Host) HoldState(id string) (release func(), err error) {
	dir := h.stateDir(id)
	if dir == "" {
		return nil, ErrNoState
	}
	file, err := os.Open(states.InfoFile(dir))
	if err != nil {
		return nil, ErrNoState
	}
	if err = flockState(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); err == nil && !stillNamed(file) {
		err = ErrNoState
	} else if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrNoState // it is being removed
	} else if states.HasNoLocks(err) {
		err = nil
	}
	if err == nil {
		err = touch(file.Name())
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return func() { file.Close() }, nil
}

// holdState keeps the order's state layer from being pruned until the cell is
// closed, and notes which row uses it.
func (c *cell) holdState() error {
	release, err := c.host.HoldState(c.order.State)
	if err != nil {
		return err
	}
	c.stateHold = release
	if c.order.Row != "" {
		return c.host.NoteState(c.order.State, c.order.Row)
	}
	return nil
}

// touch notes that a layer is used now.
func touch(info string) error {
	now := time.Now()
	return os.Chtimes(info, now, now)
}

// stillNamed tells whether an open description is that of a layer that is there.
func stillNamed(file *os.File) bool {
	var opened, now unix.Stat_t
	return unix.Fstat(int(file.Fd()), &opened) == nil && unix.Lstat(file.Name(), &now) == nil && opened.Ino == now.Ino && opened.Dev == now.Dev
}

func (c *cell) releaseState() {
	if c.stateHold != nil {
		c.stateHold()
		c.stateHold = nil
	}
}

// StatePrune says which state layers are removed: never one that a cell stands
// on now.
type StatePrune struct {
	UnusedFor time.Duration // those that no grade used for as long; 0: no such bound
	Most      int64         // those used longest ago, until the others have at most so many bytes; negative: no such bound
	Since     time.Time     // those that were used since then stay; zero: none does
	DryRun    bool
}

// Pruned is a state layer that was removed, or would be.
type Pruned struct {
	State
	Removed bool   `json:"removed"`
	Problem string `json:"problem,omitempty"` // why it could not be removed
}

// PruneStates removes state layers, those first that were used longest ago. What
// a podgrade began to remove goes too.
func PruneStates(ctx context.Context, o Options, p StatePrune) ([]Pruned, error) {
	all, err := States(o)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b State) int { return a.Used.Compare(b.Used) })
	space := SpaceOfStates(all)
	var pruned []Pruned
	for _, s := range all {
		old := p.UnusedFor > 0 && time.Since(s.Used) >= p.UnusedFor
		over := p.Most >= 0 && space.Bytes() > p.Most
		young := !p.Since.IsZero() && !s.Used.Before(p.Since)
		if half := s.Made.IsZero(); !half && (young || !old && !over) {
			continue
		}
		gone := Pruned{State: s}
		switch unlock, used := lockState(s); {
		case used:
			continue
		case p.DryRun:
			unlock()
		default:
			if err := RemoveState(ctx, o, s.DiffID); err != nil && !errors.Is(err, ErrNoState) {
				gone.Problem = err.Error()
			}
			gone.Removed = gone.Problem == ""
			unlock()
		}
		if gone.Problem == "" {
			space.Remove(s.Path)
		}
		pruned = append(pruned, gone)
	}
	return pruned, nil
}

// SpaceOfStates says how much room state layers take together.
func SpaceOfStates(all []State) *states.Space {
	var dirs []string
	for _, s := range all {
		dirs = append(dirs, s.Path)
	}
	return states.SpaceOf(dirs)
}

// lockState keeps new cells from standing on a layer; used tells that one does,
// or that nobody can tell.
func lockState(s State) (unlock func(), used bool) {
	file, err := os.Open(states.InfoFile(s.Path))
	if err != nil {
		return func() {}, false // half removed
	}
	if err := flockState(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil && !states.HasNoLocks(err) {
		file.Close()
		return nil, true
	}
	return func() { file.Close() }, false
}

// flockState is the system's, which a test replaces by one that fails.
var flockState = unix.Flock
