package worker

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
	"podgrade/oci"
)

// The workspace of an execute cell is an empty directory of the caller's. It is
// lent: the image's user owns it, and what is made in it, until it is taken
// back.

// lend gives the directory to the image's user, and shows it as it is.
func (v *viewing) lend() error {
	if err := v.lendable(); err != nil {
		return &fault{err: err, refused: true}
	}
	user := v.Options.Give
	if err := unix.Fchown(v.source, int(user.UID), int(user.GID)); err != nil {
		return fmt.Errorf("give the workspace to the image's user: %w", err)
	}
	v.made = ViewMade{Kind: ViewLend, Reason: "the cell's own"}
	return v.show()
}

// lendable refuses what is not a fresh directory of the caller's: whatever is in
// a workspace belongs to the image's user.
func (v *viewing) lendable() error {
	var st unix.Stat_t
	if err := unix.Fstat(v.source, &st); err != nil {
		return err
	}
	if st.Uid != 0 {
		return errors.New("it belongs to somebody else than the caller")
	}
	empty, err := tree.IsEmpty(v.source)
	if err == nil && !empty {
		err = errors.New("it is not empty")
	}
	return err
}

// takeBack gives the caller what the user of an execute cell has in a lent
// workspace, and then says what is in it.
func takeBack(ctx context.Context, r Request, files []int, answer *Reply) error {
	if r.Owner == nil || len(files) != 1 {
		return errors.New("a workspace to take back needs an owner and one descriptor")
	}
	returned, err := tree.GiveBack(ctx, files[0], tree.Return{From: *r.Owner})
	if err != nil {
		return treeFault("give the workspace back to the caller", err)
	}
	answer.Returned = &returned
	return survey(ctx, files, answer)
}

// survey says what is in a workspace.
func survey(ctx context.Context, files []int, answer *Reply) error {
	if len(files) != 1 {
		return errors.New("a workspace to look at needs one descriptor")
	}
	dir, err := openHere(files[0])
	if err != nil {
		return treeFault("open the workspace", err)
	}
	defer unix.Close(dir)
	report, err := tree.Digest(ctx, dir, tree.Options{})
	if err != nil {
		return treeFault("walk the workspace", err)
	}
	if !tree.KeepsTimes(dir) {
		report.Times = ""
	}
	answer.Tree = &report
	return nil
}

// openHere opens for reading the directory that a descriptor only names.
func openHere(fd int) (int, error) {
	return unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// makeTaskDir makes the empty directory that pre_run finds its task's files in.
func makeTaskDir(root int, user *oci.User) error {
	return makeOwned(root, oci.TaskDirPath, 0o755, user)
}
