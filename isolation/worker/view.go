package worker

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// copyBound is how large a tree may be for auto to copy it: what takes about a
// second. Where the file system shares blocks bytes cost nothing.
var copyBound = tree.Bound{Entries: 20_000, Bytes: 512 << 20}

// view makes a view of the tree behind the passed descriptor.
func (s *server) view(ctx context.Context, r Request, files []int, answer *Reply) error {
	c, err := s.cellOrNew(r.Cell)
	if err != nil {
		return err
	}
	if r.View == nil || len(files) == 0 || len(files) > 2 || !plainName.MatchString(r.View.Name) {
		return errors.New("a view needs a plain name and one descriptor")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The host may only name the tree: its root may be closed to the caller.
	source, err := openHere(files[0])
	if err != nil {
		return treeFault("open the tree", err)
	}
	defer unix.Close(source)
	v := &viewing{View: *r.View, ctx: ctx, server: s, cell: c, source: source, shown: files[len(files)-1], dir: c.viewDir(r.View.Name)}
	if err := v.make(); err != nil {
		return err
	}
	if err := c.viewedAs(v); err != nil {
		return err
	}
	answer.Path, answer.Tree, answer.View = v.path, &v.report, &v.made
	return nil
}

// viewing is a view that is being made.
type viewing struct {
	View
	ctx    context.Context // of the whole view
	server *server
	cell   *cell
	source int    // the tree
	shown  int    // where it is given: what a mounted view shows
	dir    string // of the view

	path   string
	report tree.Report
	made   ViewMade
}

func (v *viewing) make() error {
	if v.Most != (tree.Bound{}) {
		exceeds, err := tree.Exceeds(v.ctx, v.source, v.Options, v.Most)
		if err != nil {
			return treeFault("measure the tree", err)
		}
		if exceeds != "" {
			return &fault{err: errors.New("it has " + exceeds), refused: true}
		}
	}
	if err := os.Mkdir(v.dir, 0o700); err != nil {
		return fmt.Errorf("make the view: %w", err)
	}
	v.path = v.dir
	switch v.Kind {
	case ViewCopy:
		return v.copy("asked for")
	case ViewOverlay:
		return v.overlayOrCopy("asked for")
	case ViewBind:
		return v.bind()
	case ViewNone:
		return v.onlyRead()
	case ViewLend:
		return v.lend()
	case ViewAuto:
		return v.choose()
	}
	return fmt.Errorf("unknown kind of view %q", v.Kind)
}

// choose copies small trees, because a copy is the one view that behaves as
// the tree whatever a command does, and makes overlays of large ones.
func (v *viewing) choose() error {
	exceeds, err := tree.Exceeds(v.ctx, v.source, v.Options, copyBound)
	if err == nil && exceeds != "" && v.sharesBlocks() {
		exceeds, err = tree.Exceeds(v.ctx, v.source, v.Options, tree.Bound{Entries: copyBound.Entries})
	}
	if err != nil {
		return treeFault("measure the tree", err)
	}
	if exceeds == "" {
		return v.copy("a tree of this size is copied")
	}
	return v.overlayOrCopy("the tree has " + exceeds)
}

func (v *viewing) sharesBlocks() bool {
	dir, err := openDirectory(v.dir)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	return tree.SharesBlocks(v.source, dir)
}

// copy makes a copy of the tree, for the reason given.
func (v *viewing) copy(reason string) error {
	dst, err := openDirectory(v.dir)
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	if v.report, err = tree.Copy(v.ctx, v.source, dst, v.Options); err != nil {
		return treeFault("copy the tree", err)
	}
	v.made = ViewMade{Kind: ViewCopy, Reason: reason}
	mount := bind
	if v.ReadOnly {
		mount = bindReadOnly
	}
	if err := mount(v.dir); err != nil {
		return err
	}
	v.cell.views = append(v.cell.views, v.dir)
	return nil
}

// overlayOrCopy makes an overlay where it shows the tree as it is, else a copy,
// and says why not.
func (v *viewing) overlayOrCopy(reason string) error {
	if v.Unmounted {
		return v.copy(reason + ", but outside of a cell there is no overlay")
	}
	var err error
	if v.report, err = v.digest(); err != nil {
		return treeFault("walk the tree", err)
	}
	if len(v.report.Hazards) > 0 {
		return v.copy(reason + ", but an overlay would not show all as it is: " + v.report.Hazards[0])
	}
	how, err := v.overlay()
	if err != nil { // also of a full disk, which then the copy meets too
		return v.copy(fmt.Sprintf("%s, but there is no overlay: %v", reason, err))
	}
	v.made = ViewMade{Kind: ViewOverlay, Reason: reason + how}
	return nil
}

// bind shows the tree itself: what commands write stays in it.
func (v *viewing) bind() error {
	if v.Options.Give.UID != 0 && !v.Given {
		return &fault{err: errors.New("the image's user is not root, and would not own the tree"), refused: true}
	}
	var err error
	if v.report, err = v.digest(); err != nil {
		return treeFault("walk the tree", err)
	}
	if v.report.Skipped > 0 {
		return &fault{err: errors.New("the tree holds a directory that no cell may see"), refused: true}
	}
	v.made = ViewMade{Kind: ViewBind, Reason: "asked for"}
	return v.show()
}

// onlyRead says what is in the tree: the cell has it already.
func (v *viewing) onlyRead() (err error) {
	if v.report, err = v.digest(); err != nil {
		return treeFault("walk the tree", err)
	}
	v.made = ViewMade{Kind: ViewNone, Reason: "the agent worked inside the image, and its state layer has the workspace"}
	return nil
}

// show mounts the tree itself, writable.
func (v *viewing) show() error {
	if v.Unmounted {
		v.path = v.Source
		return nil
	}
	if err := v.mountTree(v.dir); err != nil {
		return err
	}
	return remount(v.dir, 0)
}

// mountTree puts the tree itself at a directory.
func (v *viewing) mountTree(dir string) error {
	if v.Given {
		if err := attach(v.shown, dir); err != nil {
			return treeFault("mount the tree", err)
		}
		v.cell.views = append(v.cell.views, dir)
		return nil
	}
	fd, err := v.again()
	if err != nil {
		return treeFault("open the tree again", err)
	}
	defer unix.Close(fd)
	if err := unix.Mount(descriptorPath(fd), dir, "", unix.MS_BIND, ""); err != nil {
		return treeFault("bind the tree", err)
	}
	v.cell.views = append(v.cell.views, dir)
	return nil
}

// again opens the tree by its place: what came by the channel is of the host's
// mount namespace, and cannot be mounted in ours.
func (v *viewing) again() (int, error) {
	fd, err := openDirectory(v.Source)
	if err != nil {
		return -1, err
	}
	var passed, found unix.Stat_t
	if err := errors.Join(unix.Fstat(v.source, &passed), unix.Fstat(fd, &found)); err != nil {
		unix.Close(fd)
		return -1, err
	}
	if passed.Dev != found.Dev || passed.Ino != found.Ino {
		unix.Close(fd)
		return -1, fmt.Errorf("%s is another directory now", v.Source)
	}
	return fd, nil
}

// openDirectory opens without waiting for the other end of what is none.
func openDirectory(path string) (int, error) {
	return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
}

// descriptorPath is a path without any character that mount options would
// need escaped, whatever the descriptor's own is.
func descriptorPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// treeFault blames the tree, but for a full disk and the like.
func treeFault(tried string, err error) error {
	return &fault{err: fmt.Errorf("%s: %w", tried, err), workspace: !isOurs(err)}
}
