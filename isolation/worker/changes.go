package worker

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// What the commands of a grade changed in their view of the workspace is
// evidence of how they came to what they said. The worker finds it, where every
// file can be read, and hands on what is within bounds; nothing of it is put
// anywhere here.

// Bound is how much of the changes is handed on.
type Bound struct {
	Listed int   `json:"listed"` // changes that are told; the others are counted
	Files  int   `json:"files"`  // regular files whose bytes are handed on
	File   int64 `json:"file"`   // bytes of the largest of them
	Bytes  int64 `json:"bytes"`  // of all of them
}

// Changed counts what changed.
type Changed struct {
	Created  int `json:"created"`
	Modified int `json:"modified"`
	Deleted  int `json:"deleted"` // of a directory that is gone, only itself
	Untold   int `json:"untold,omitempty"`
}

// Total is the number of changes.
func (c Changed) Total() int { return c.Created + c.Modified + c.Deleted }

// viewed is what changes are found by: how the workspace of a cell came to be
// seen.
type viewed struct {
	kind    ViewKind
	dir     string // the view; "": it lies in the cell's own root
	upper   string // of an overlay
	since   unix.Timespec
	options tree.Options
	copied  bool // its files were there before the first command
}

// view keeps what a later look at the changes needs.
func (c *cell) viewedAs(v *viewing) (err error) {
	if v.ReadOnly {
		return nil
	}
	c.viewed = &viewed{kind: v.made.Kind, dir: v.dir, options: v.Options}
	switch v.made.Kind {
	case ViewOverlay:
		c.viewed.upper = v.dir + "-upper"
	case ViewCopy:
		c.viewed.copied = true
	case ViewNone:
		c.viewed.dir = ""
	case ViewBind, ViewLend:
		if err := errors.Join(c.noteScratch(), c.noteDisk(v.source, disk{at: v.Source})); err != nil {
			return err
		}
	}
	c.viewed.since, err = c.now()
	return errors.Join(err, c.noteScratch())
}

// now is the time that the kernel gives a file that is changed now: its clock
// for files is not the one that programs read.
func (c *cell) now() (unix.Timespec, error) {
	file, err := os.CreateTemp(c.dir, "now-")
	if err != nil {
		return unix.Timespec{}, fmt.Errorf("note when the view was made: %w", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	var st unix.Stat_t
	err = unix.Fstat(int(file.Fd()), &st)
	return st.Ctim, err
}

// changes hands on what the commands of a cell changed, to the second passed
// descriptor; the first is the tree.
func (s *server) changes(ctx context.Context, c *cell, r Request, files []int, answer *Reply) error {
	if r.Changes == nil || len(files) != 2 {
		return errors.New("changes need their bounds and two descriptors")
	}
	if c.viewed == nil || c.viewed.kind == ViewBind || c.viewed.kind == ViewLend {
		return &fault{err: errors.New("the commands worked in the workspace itself, and nothing tells what they changed"), refused: true}
	}
	was, err := openHere(files[0])
	if err != nil {
		return treeFault("open the tree", err)
	}
	defer unix.Close(was)
	how := tree.Compare{Since: c.viewed.since, Give: c.viewed.options.Give, Skip: c.viewed.options.Skip}
	is, err := c.openViewed(r, &how)
	if err != nil {
		return treeFault("open the view", err)
	}
	defer unix.Close(is)
	if c.viewed.upper != "" {
		if how.Upper, err = openDirectory(c.viewed.upper); err != nil {
			return err
		}
		defer unix.Close(how.Upper)
	}
	to, err := again(files[1])
	if err != nil {
		return err
	}
	defer to.Close() // whoever reads waits for this
	t := &teller{to: bufio.NewWriter(to), bound: *r.Changes}
	err = tree.Changes(ctx, was, is, how, t.tell)
	answer.Changed = &t.changed
	if err != nil {
		return treeFault("compare the view with the workspace", errors.Join(err, t.to.Flush()))
	}
	return t.to.Flush()
}

// again is a descriptor as a file of its own: the passed one is closed by who
// passed it on.
func again(fd int) (*os.File, error) {
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(copied), "passed"), nil
}

// openViewed opens the view of the workspace, as it is now.
func (c *cell) openViewed(r Request, how *tree.Compare) (int, error) {
	if c.viewed.dir != "" {
		return openDirectory(c.viewed.dir)
	}
	if r.Capture == nil {
		return -1, errors.New("nobody says where in the cell it is")
	}
	root, err := c.openRoot()
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	how.Give, how.Ignore = r.Capture.Owner, r.Capture.Ignore
	how.Skip = append(how.Skip, ourOwn(root)...)
	return openInRoot(root, r.Capture.Dir, unix.O_RDONLY|unix.O_DIRECTORY)
}

// TheChange is what is told of one change.
type TheChange struct {
	tree.Change
	Follows bool // its bytes follow, at most Size of them
}

// teller writes changes: each a length and JSON; then, where bytes follow, parts
// of a length and bytes, the last one empty.
type teller struct {
	to      *bufio.Writer
	bound   Bound
	changed Changed
	listed  int
	files   int
	bytes   int64
}

// longestPart is the most bytes between two lengths.
const longestPart = 256 << 10

func (t *teller) tell(c tree.Change, open func() (int, error)) error {
	switch c.What {
	case tree.Created:
		t.changed.Created++
	case tree.Modified:
		t.changed.Modified++
	case tree.Deleted:
		t.changed.Deleted++
	}
	if t.listed++; t.listed > t.bound.Listed {
		t.changed.Untold++
		return nil
	}
	said := TheChange{Change: c}
	file := -1
	if c.Type == tree.RegularFile && c.What != tree.Deleted && c.Size <= t.bound.File && t.files < t.bound.Files && t.bytes+c.Size <= t.bound.Bytes {
		fd, err := open()
		if err == nil {
			defer unix.Close(fd)
			file, said.Follows = fd, true
			t.files++
			t.bytes += c.Size
		} // what cannot be opened any more is told without its bytes
	}
	text, err := json.Marshal(said)
	if err == nil {
		err = t.part(text)
	}
	if err != nil || file < 0 {
		return err
	}
	return t.content(file, c.Size)
}

func (t *teller) part(p []byte) error {
	if err := binary.Write(t.to, binary.BigEndian, uint32(len(p))); err != nil {
		return err
	}
	_, err := t.to.Write(p)
	return err
}

// content writes at most size bytes of a file, whatever it is now.
func (t *teller) content(fd int, size int64) error {
	buf := make([]byte, min(longestPart, size))
	for at := int64(0); at < size; {
		n, err := unix.Pread(fd, buf[:min(int64(len(buf)), size-at)], at)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			break // the last part says where it ended
		}
		if err := t.part(buf[:n]); err != nil {
			return err
		}
		at += int64(n)
	}
	return t.part(nil)
}

// ReadChanges reads what a worker tells, until its end. take gets each change,
// and its bytes where they follow; it need not read them all.
func ReadChanges(from io.Reader, take func(TheChange, io.Reader) error) error {
	in := bufio.NewReader(from)
	for {
		size, err := readLength(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text := make([]byte, size)
		if _, err := io.ReadFull(in, text); err != nil {
			return err
		}
		var c TheChange
		if err := json.Unmarshal(text, &c); err != nil {
			return fmt.Errorf("read a change: %w", err)
		}
		if !c.Follows {
			if err := take(c, nil); err != nil {
				return err
			}
			continue
		}
		content := &parts{from: in}
		if err := take(c, content); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return err
		}
	}
}

func readLength(in io.Reader) (uint32, error) {
	var size uint32
	err := binary.Read(in, binary.BigEndian, &size)
	if err == nil && size > mostToldText {
		err = fmt.Errorf("read a change: a part of %d bytes", size)
	}
	return size, err
}

// mostToldText is above every part: a path may be as long as a tree is deep.
const mostToldText = 64 << 20

// parts read the bytes that follow a change.
type parts struct {
	from io.Reader
	left uint32
	over bool
}

func (p *parts) Read(to []byte) (int, error) {
	if p.left == 0 && !p.over {
		var err error
		if p.left, err = readLength(p.from); errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		p.over = p.left == 0
	}
	if p.over {
		return 0, io.EOF
	}
	n, err := p.from.Read(to[:min(uint32(len(to)), p.left)])
	p.left -= uint32(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// laidInto keeps that a captured workspace lies in the cell's own root.
func (c *cell) laidInto() (err error) {
	c.viewed = &viewed{kind: ViewNone, copied: true}
	c.viewed.since, err = c.now()
	return errors.Join(err, c.noteScratch())
}
