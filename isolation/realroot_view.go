package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
	"podgrade/isolation/worker"
)

// space is a user namespace with these maps. r.mu is held.
func (r *realRoot) space(users, groups []syscall.SysProcIDMap) (*os.File, error) {
	key := fmt.Sprint(users, groups)
	if known := r.spaces[key]; known != nil {
		return known, nil
	}
	file, err := r.makeSpace(users, groups)
	if err != nil {
		return nil, &Fault{Tried: "make a user namespace", Why: err, Do: "see what `podgrade doctor` says"}
	}
	r.spaces[key] = file
	return file, nil
}

// makeSpace starts a process that only waits, and keeps its namespace.
func (r *realRoot) makeSpace(users, groups []syscall.SysProcIDMap) (*os.File, error) {
	waits, goOn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer waits.Close()
	defer goOn.Close()
	a := attributes(users, groups)
	a.Pdeathsig = syscall.SIGKILL
	process, err := os.StartProcess(r.program, []string{workerName, worker.StageWait}, &os.ProcAttr{
		Env: []string{}, Files: []*os.File{nil, nil, nil, waits}, Sys: a,
	})
	if err != nil {
		return nil, err
	}
	defer process.Wait()
	defer process.Kill()
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", process.Pid))
}

// ownerMaps are the maps of a directory of the owner's: what is the owner's on
// the disk is as in the cell; what the cell's other ids have, they keep.
func (r *realRoot) ownerMaps(owner, as tree.Owner) (users, groups []syscall.SysProcIDMap) {
	return ownerMap(owner.UID, as.UID, r.given.Users, r.given.Count), ownerMap(owner.GID, as.GID, r.given.Groups, r.given.Count)
}

func ownerMap(owner, as, first, count uint32) []syscall.SysProcIDMap {
	if owner >= first && owner-first < count {
		return []syscall.SysProcIDMap{one(first, first, count)} // a cell's already
	}
	maps := []syscall.SysProcIDMap{one(owner, first+as, 1)}
	if as > 0 {
		maps = append(maps, one(first, first, as))
	}
	if rest := count - as - 1; as < count && rest > 0 {
		maps = append(maps, one(first+as+1, first+as+1, rest))
	}
	return maps
}

// source gives a mount in which the owner's files are the worker's root's, and
// where the view is one that is mounted, one in which they are the image
// user's. Only the latter of a view that is to change the tree can be written.
func (r *realRoot) source(v *worker.View) ([]*os.File, error) {
	dir, err := openPath(v.Source)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := bindable(v, dir); err != nil {
		return nil, err
	}
	v.Given = true
	read, err := r.readable(dir)
	if err != nil {
		return nil, r.mountFault(err)
	}
	var writable uint64 = unix.MOUNT_ATTR_RDONLY
	if v.Kind == worker.ViewBind {
		writable = 0
	}
	if v.Options.Give == (tree.Owner{}) && writable != 0 {
		return []*os.File{read}, nil
	}
	shown, err := r.copyWith(dir, v.Options.Give, writable)
	if err != nil {
		read.Close()
		return nil, r.mountFault(err)
	}
	return []*os.File{read, shown}, nil
}

// bindable refuses to let a cell write into root's own directory: what it makes
// there would be root's, a set-user-id program too.
func bindable(v *worker.View, dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil || v.Kind != worker.ViewBind || st.Uid != 0 {
		return err
	}
	return &Fault{Kind: Refusal, Tried: "bind the workspace", On: v.Source, Why: errors.New("it is root's, and so would be every program that a command makes in it"),
		Do: "use another --workspace-view: auto, copy or overlay"}
}

// readable is a mount of the directory in which the owner is the worker's root,
// to be read only.
func (r *realRoot) readable(dir *os.File) (*os.File, error) {
	return r.copyWith(dir, tree.Owner{}, unix.MOUNT_ATTR_RDONLY)
}

// copyWith is a mount of its own of the directory, in which its owner is another
// user of the cell.
func (r *realRoot) copyWith(dir *os.File, as tree.Owner, attributes uint64) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return nil, err
	}
	r.mu.Lock()
	ids, err := r.space(r.ownerMaps(tree.Owner{UID: st.Uid, GID: st.Gid}, as))
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	file, err := cloneTree(dir)
	if err != nil {
		return nil, err
	}
	if err := mapIDs(int(file.Fd()), ids, attributes); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// target gives root's empty directory to the worker's root, as the mount of its
// own that it is shown by.
func (r *realRoot) target(v *worker.View) (*os.File, error) {
	v.Given = true
	dir, err := openPath(v.Source)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return nil, err
	}
	if int(st.Uid) != os.Geteuid() && st.Uid != r.given.Users {
		return nil, errors.New("it belongs to somebody else than the caller")
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err == nil && len(entries) > 0 {
		err = errors.New("it is not empty")
	}
	if err == nil {
		err = unix.Fchownat(int(dir.Fd()), "", int(r.given.Users), int(r.given.Groups), unix.AT_EMPTY_PATH)
	}
	if err != nil {
		return nil, err
	}
	return cloneTree(dir)
}

// cloneTree is a mount of its own of a directory.
func cloneTree(dir *os.File) (*os.File, error) {
	fd, err := unix.OpenTree(int(dir.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir.Name()), nil
}

// takeBack gives root what the cell's ids have, and then has the worker look at
// it as a grade will see it. No process of the cell is left.
//
// A tree with a set-user-id file, or one with capabilities, stays with the first
// of the cell's ids, who is nobody: as root's, the file would make whoever can
// start it root, and without its bit it would not be what the agent left.
func (r *realRoot) takeBack(ctx context.Context, h *Host, dir *os.File, owner tree.Owner) (worker.Reply, error) {
	nobody := tree.Owner{UID: r.given.Users, GID: r.given.Groups}
	user := tree.Owner{UID: nobody.UID + owner.UID, GID: nobody.GID + owner.GID}
	returned, err := tree.GiveBack(ctx, int(dir.Fd()), tree.Return{From: user, Root: nobody, To: nobody, Arms: true})
	if err == nil && returned.Armed == 0 {
		root := tree.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
		_, err = tree.GiveBack(ctx, int(dir.Fd()), tree.Return{From: nobody, Root: nobody, To: root, Disarm: true})
	}
	if err != nil {
		return worker.Reply{}, err
	}
	shown, err := r.readable(dir)
	if err != nil {
		return worker.Reply{}, r.mountFault(err)
	}
	defer shown.Close()
	reply, err := h.worker.do(ctx, worker.Request{Op: worker.OpSurvey}, shown)
	reply.Returned = &returned
	return reply, err
}
