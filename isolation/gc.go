package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"podgrade/isolation/process"
)

// Leftover is something that a podgrade that is no more left behind.
type Leftover struct {
	Kind string `json:"kind"` // one of those below
	Name string `json:"name"` // path of the directory, id of the container or image
	// PID of the podgrade that made it, 0 when it is not known.
	PID int `json:"pid,omitempty"`
	// Made is when, the zero time when it is not known.
	Made time.Time `json:"made,omitzero"`
	// Removed: it is gone now, a workspace that it is the caller's again. It
	// never is in a dry run.
	Removed bool   `json:"removed"`
	Problem string `json:"problem,omitempty"` // why it could not be removed
}

// The kinds of leftovers.
const (
	LeftoverRun       = "run"       // directory of a podgrade in the scratch
	LeftoverWorkspace = "workspace" // directory of a row that is still an image user's
	LeftoverHolder    = "holder"    // container that kept an image from being pruned
	LeftoverCell      = "cell"      // container of the Podman engine
	LeftoverImage     = "image"     // image without a manifest, whichever Podman was killed
)

// Swept is what a sweep found.
type Swept struct {
	Scratch string     `json:"scratch"`
	Left    []Leftover `json:"left"`
	// Living are the podgrades that work in this scratch directory now, but
	// for the one that sweeps.
	Living int `json:"living"`
}

// Failed tells whether something could not be removed.
func (s Swept) Failed() bool {
	for _, l := range s.Left {
		if l.Problem != "" {
			return true
		}
	}
	return false
}

// Sweep removes what podgrades that were killed left behind: their directories
// in the scratch, whoever owns the files in them, and their holders and half-made
// images in Podman's store. The workspaces of their execute cells it gives back to the
// caller, with all that is in them. It decides by held locks, and for a holder by process id,
// start time and boot id, so nothing of a living podgrade is touched. In a dry
// run nothing at all is.
//
// Start removes the directories too; holders it leaves, since asking Podman
// for them takes 50 ms.
func Sweep(ctx context.Context, o Options, dryRun bool) (swept Swept, err error) {
	h, err := startSweeper(ctx, o)
	if err != nil {
		return Swept{}, err
	}
	defer func() { err = errors.Join(err, h.leave()) }()
	swept = Swept{Scratch: h.options.Scratch, Left: []Leftover{}}
	var containers, images []Leftover
	if h.podman != "" { // before the runs, which take theirs along
		var noContainers, noImages error
		containers, noContainers = h.deadContainers(ctx)
		images, noImages = h.halfMadeImages(ctx)
		err = errors.Join(noContainers, noImages)
	}
	for _, dead := range deadRuns(h.options.Scratch) {
		left := dead.leftovers()
		if !dryRun {
			err := h.sweepRun(ctx, dead)
			for i := range left {
				left[i].done(err)
			}
		}
		dead.lock.Close()
		swept.Left = append(swept.Left, left...)
	}
	swept.Living = h.living()
	remove := func(left []Leftover, how func(context.Context, string) error) {
		for _, l := range left {
			if !dryRun {
				l.done(how(ctx, l.Name))
			}
			swept.Left = append(swept.Left, l)
		}
	}
	remove(containers, h.removeContainer)
	remove(images, h.removeHalfMade)
	return swept, err
}

func (l *Leftover) done(err error) {
	l.Removed = err == nil
	if err != nil {
		l.Problem = err.Error()
	}
}

// startSweeper starts a worker, and nothing that a sweep does not need.
func startSweeper(ctx context.Context, o Options) (*Host, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h, err := trialHost(ctx, o)
	if err != nil {
		return nil, err
	}
	// Without Podman there are no holders to look for.
	h.podman = program(ctx, "podman").Path
	return h, nil
}

// living counts the other run directories that are left when the dead ones
// have been found.
func (h *Host) living() int {
	unlock, err := lockScratch(h.options.Scratch)
	if err != nil {
		return 0
	}
	defer unlock()
	entries, err := os.ReadDir(h.options.Scratch)
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		dir := filepath.Join(h.options.Scratch, e.Name())
		if e.IsDir() && strings.HasPrefix(e.Name(), runPrefix) && dir != h.run.dir && locked(dir) {
			n++
		}
	}
	return n
}

// locked tells whether somebody holds the lock of a run directory. The scratch
// must be locked: a podgrade that starts could not take its own meanwhile.
func locked(dir string) bool {
	r := &run{dir: dir}
	if r.takeLock() != nil {
		return true
	}
	r.lock.Close()
	return false
}

// maxOwner caps what is read of a lock file, in bytes.
const maxOwner = 4 << 10

// leftovers are a dead run, and the workspaces that it never gave back.
func (r *run) leftovers() []Leftover {
	own := r.leftover()
	var all []Leftover
	for _, l := range lentBy(r.dir) {
		all = append(all, Leftover{Kind: LeftoverWorkspace, Name: l.Path, PID: own.PID, Made: own.Made})
	}
	return append(all, own)
}

// leftover describes a dead run by what it wrote into its lock file.
func (r *run) leftover() Leftover {
	l := Leftover{Kind: LeftoverRun, Name: r.dir}
	var o owner
	text, err := io.ReadAll(io.LimitReader(r.lock, maxOwner))
	if err == nil && json.Unmarshal(text, &o) == nil {
		l.PID, l.Made = o.PID, o.Started
	}
	return l
}

// containerState is the part of `podman ps` that we use.
type containerState struct {
	ID      string            `json:"Id"`
	Labels  map[string]string `json:"Labels"`
	Created int64             `json:"Created"` // seconds since 1970
}

// deadContainers are the containers whose podgrade is gone: the holders, and the cells
// of which no run directory has a note any more, because it is gone too.
func (h *Host) deadContainers(ctx context.Context) ([]Leftover, error) {
	const tried = "list podgrade's containers"
	out, said, code, err := h.runPodman(ctx, "ps", "--all", "--filter", "name=^podgrade-", "--format", "json")
	if err == nil && code != 0 {
		err = &Fault{Tried: tried, Why: podmanFailed(said, code), Do: "see what `podgrade doctor` says"}
	}
	if err != nil {
		return nil, err
	}
	var all []containerState
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, &Fault{Tried: tried, Why: fmt.Errorf("read podman's answer: %w", err)}
	}
	boot, err := process.BootID()
	if err != nil {
		return nil, &Fault{Tried: tried, Why: err}
	}
	var dead []Leftover
	for _, c := range all {
		l := Leftover{Kind: LeftoverHolder, Name: c.ID, Made: time.Unix(c.Created, 0).UTC()}
		label := c.Labels[labelHolder]
		if cell := c.Labels[labelCell]; cell != "" {
			if _, err := os.Lstat(c.Labels[labelRun]); !errors.Is(err, os.ErrNotExist) {
				continue // whoever sweeps that directory removes it
			}
			l.Kind, label = LeftoverCell, cell
		}
		owner, err := process.Parse(label)
		if err != nil || owner.Lives(boot) {
			continue // what we do not understand, another version may
		}
		l.PID = owner.PID
		dead = append(dead, l)
	}
	return dead, nil
}

// removeContainer removes a container.
func (h *Host) removeContainer(ctx context.Context, id string) error { return h.forceRemove(ctx, id) }
