package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// lent is an execute cell's workspace, which belongs to the image's user until
// it is taken back. A note of it lies in the run directory meanwhile: when
// podgrade is killed, the next start or `podgrade gc` takes it back.
type lent struct {
	Path  string     `json:"path"`
	Which identity   `json:"which"` // another directory there is left alone
	Owner tree.Owner `json:"owner"`

	note string // its file
}

// identity tells a directory from any other that has been at its place. Inode
// numbers are given again at once, so the time of birth belongs to it, and the
// file system's own handle, which counts the generations of an inode: each where
// the file system has one.
type identity struct {
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
	Ino   uint64 `json:"ino"`
	Born  int64  `json:"born,omitempty"` // nanoseconds since 1970

	Handle string `json:"handle,omitempty"` // hexadecimal
}

// is tells whether both are of one directory, as far as both are known.
func (i identity) is(other identity) bool {
	return i.Major == other.Major && i.Minor == other.Minor && i.Ino == other.Ino &&
		(i.Born == other.Born || i.Born == 0 || other.Born == 0) &&
		(i.Handle == other.Handle || i.Handle == "" || other.Handle == "")
}

func identityOf(fd int) (identity, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	which := identity{Major: st.Dev_major, Minor: st.Dev_minor, Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		which.Born = st.Btime.Sec*int64(time.Second) + int64(st.Btime.Nsec)
	}
	if handle, _, unknown := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH); unknown == nil {
		which.Handle = fmt.Sprintf("%d:%x", handle.Type(), handle.Bytes())
	}
	return which, err
}

// lentDir is where the notes of a run are.
func lentDir(run string) string { return filepath.Join(run, "lent") }

// noteLent writes the note before the directory changes hands.
func (c *cell) noteLent(workspace string) error {
	path, err := filepath.Abs(workspace)
	var which identity
	if err == nil {
		which, err = identityAt(path)
	}
	if err != nil {
		return &Fault{Tried: "use the workspace", On: workspace, Why: err}
	}
	dir := lentDir(c.host.run.dir)
	l := &lent{Path: path, Which: which, Owner: tree.Owner{UID: c.user.UID, GID: c.user.GID}, note: filepath.Join(dir, c.name)}
	if err := errors.Join(os.MkdirAll(dir, 0o700), l.write()); err != nil {
		return &Fault{Tried: "note whose the workspace is", On: l.note, Why: err, Do: "check that there is space in the scratch directory"}
	}
	c.lent = l
	return nil
}

func identityAt(path string) (identity, error) {
	fd, err := openWorkspace(path)
	if err != nil {
		return identity{}, err
	}
	defer unix.Close(fd)
	return identityOf(fd)
}

// openWorkspace opens a workspace without reading it, which only its owner may
// do.
func openWorkspace(path string) (int, error) {
	return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

func (l *lent) write() error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(l.note, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

func (l *lent) open() (*os.File, error) {
	fd, err := openWorkspace(l.Path)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), l.Path)
	var found identity
	if found, err = identityOf(fd); err == nil && !found.is(l.Which) {
		err = errAnother
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// errAnother: what is at a workspace's place is not what was lent.
var errAnother = errors.New("it is another directory now")

// isGone tells whether nothing is at a workspace's place, or something else.
func isGone(err error) bool {
	for _, why := range []error{errAnother, unix.ENOENT, unix.ENOTDIR, unix.ELOOP} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}

// takeBack gives the caller what the image's user has in the workspace, and
// says what is in it.
func (h *Host) takeBack(ctx context.Context, l *lent) (worker.Reply, error) {
	if l == nil {
		return worker.Reply{}, nil
	}
	dir, err := l.open()
	if err == nil {
		defer dir.Close()
		var reply worker.Reply
		if reply, err = h.privilege.takeBack(ctx, h, dir, l.Owner); err == nil {
			return reply, os.Remove(l.note)
		}
	}
	return worker.Reply{}, &Fault{Tried: "give the workspace back to its owner", On: l.Path, Why: h.workerFault(err), Do: "run `podgrade gc`, which tries again"}
}

// takeBackAll takes back the workspaces that a run lent and never took back. One
// that is not there any more is nobody's concern; one that cannot be looked at
// now keeps its note.
func (h *Host) takeBackAll(ctx context.Context, run string) error {
	var errs []error
	for _, l := range lentBy(run) {
		dir, err := l.open()
		if isGone(err) {
			errs = append(errs, os.Remove(l.note))
			continue
		}
		if err == nil {
			dir.Close()
		}
		_, err = h.takeBack(ctx, l)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// returnAll gives back, with another worker, what could not be because ours is gone:
// workspaces to the caller, and to Podman the containers that it still has.
func (h *Host) returnAll(ctx context.Context) error {
	containers, err := notedContainers(h.run.dir)
	if err != nil || len(containers)+len(lentBy(h.run.dir)) == 0 {
		return err
	}
	other, err := trialHost(ctx, h.options)
	if err != nil {
		return err
	}
	other.podman = h.podman
	return errors.Join(other.sweepContainers(ctx, h.run.dir), other.takeBackAll(ctx, h.run.dir), other.leave())
}

// maxNote caps what is read of a note, in bytes.
const maxNote = 16 << 10

// lentBy reads the notes of a run.
func lentBy(run string) []*lent {
	entries, err := os.ReadDir(lentDir(run))
	if err != nil {
		return nil
	}
	var all []*lent
	for _, e := range entries {
		l := &lent{note: filepath.Join(lentDir(run), e.Name())}
		file, err := os.Open(l.note)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(file, maxNote))
		file.Close()
		// A note that is cut short was never followed by anything.
		if err == nil && json.Unmarshal(text, l) == nil && filepath.IsAbs(l.Path) {
			all = append(all, l)
		}
	}
	return all
}

// lendWorkspace makes the caller's empty directory the workspace of an execute
// cell.
func (c *cell) lendWorkspace(ctx context.Context) error {
	if err := c.noteLent(c.order.Workspace); err != nil {
		return err
	}
	reply, err := c.view(ctx, &worker.View{
		Name: "workspace", Kind: worker.ViewLend, Source: c.order.Workspace, Unmounted: c.made.Engine == EngineHost,
		Options: tree.Options{Give: c.lent.Owner},
	})
	if err != nil {
		return err
	}
	c.viewPaths = map[string]string{"workspace": reply.Path}
	c.binds = append(c.binds, oci.Bind{Source: reply.Path, Destination: oci.WorkspacePath})
	c.made.View = viewOf(*reply.View, tree.Report{})
	return nil
}
