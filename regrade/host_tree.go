package regrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"podgrade/isolation"
	"podgrade/isolation/protocol"
	"podgrade/tasks/criteria/python"
)

// hostTree is a tree of this host that the agent's cell gets a copy of. It is
// read through os.Root, so that nothing outside of it can be reached.
type hostTree struct {
	dir    string
	base   string // in the cell
	below  string // in base
	ignore []string
	// refuseLinks: a link that leads out of the tree, and what is no file, is an
	// error. Else it is left out.
	refuseLinks bool
	hidden      hidden
}

// badTree says what is wrong with a tree that the operator named.
type badTree struct{ text string }

func (b *badTree) Error() string { return b.text }

func badTreef(format string, args ...any) error { return &badTree{fmt.Sprintf(format, args...)} }

// Bounds of what is copied, as of what a grade is given.
const (
	mostTreeEntries = 100_000
	mostTreeBytes   = 4 << 30
)

// putTree puts a copy of the tree into the cell and counts its entries.
func (e *execution) putTree(ctx context.Context, t hostTree) (entries int, err error) {
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return 0, badTreef("cannot read %s: %v", t.dir, err)
	}
	defer root.Close()
	p := &treePutter{hostTree: t, cell: e.cell, root: root}
	if err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return p.visit(ctx, name, entry, err)
	}); err != nil {
		return p.entries, err
	}
	return p.entries, p.directories(ctx)
}

type treePutter struct {
	hostTree
	cell    isolation.Cell
	root    *os.Root
	entries int
	bytes   int64
	dirs    []string // in the order in which they were met
}

// visit puts one entry. A directory gets its mode last, since nothing could be
// put into one that cannot be written.
func (p *treePutter) visit(ctx context.Context, name string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return badTreef("cannot read %s: %v", path.Join(p.dir, name), err)
	case name == ".":
		return nil
	case p.skips(name, entry):
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if p.entries++; p.entries > mostTreeEntries {
		return badTreef("%s holds more than %d entries", p.dir, mostTreeEntries)
	}
	switch kind := entry.Type(); {
	case kind.IsDir():
		p.dirs = append(p.dirs, name)
		return p.put(ctx, name, isolation.Entry{Type: protocol.Directory, Mode: 0o755}, nil)
	case kind.IsRegular():
		return p.file(ctx, name)
	case kind&fs.ModeSymlink != 0:
		return p.link(ctx, name)
	case p.refuseLinks:
		return badTreef("%s is neither a file nor a directory nor a link", path.Join(p.dir, name))
	}
	return nil
}

// skips leaves out what is ignored by name, and what is hidden.
func (p *treePutter) skips(name string, entry fs.DirEntry) bool {
	return isIgnored(p.ignore, entry.Name()) || p.hidden.hides(p.root, name, entry.Type())
}

// isIgnored tells whether a pattern matches a base name.
func isIgnored(patterns []string, base string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return python.Fnmatch(pattern, base) })
}

func (p *treePutter) put(ctx context.Context, name string, entry isolation.Entry, content io.Reader) error {
	if err := p.cell.Put(ctx, p.base, path.Join(p.below, name), entry, content); err != nil {
		return fmt.Errorf("put %s into the cell: %w", path.Join(p.dir, name), err)
	}
	return nil
}

// file puts a regular file. What a fifo takes the place of meanwhile must not
// hold podgrade: hence O_NONBLOCK and the second look.
func (p *treePutter) file(ctx context.Context, name string) error {
	file, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return badTreef("cannot read %s: %v", path.Join(p.dir, name), err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it changed meanwhile")
	}
	if err != nil {
		return badTreef("cannot read %s: %v", path.Join(p.dir, name), err)
	}
	if p.bytes += info.Size(); p.bytes > mostTreeBytes {
		return badTreef("%s holds more than %d bytes", p.dir, int64(mostTreeBytes))
	}
	return p.put(ctx, name, isolation.Entry{Type: protocol.Regular, Mode: uint32(info.Mode().Perm()), ModTime: info.ModTime()}, file)
}

// link puts a link that stays inside of the tree, however it is followed.
func (p *treePutter) link(ctx context.Context, name string) error {
	target, err := p.root.Readlink(name)
	if err != nil {
		return badTreef("cannot read %s: %v", path.Join(p.dir, name), err)
	}
	if filepath.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		if p.refuseLinks {
			return badTreef("%s leads out of %s, to %s: put a copy there instead", path.Join(p.dir, name), p.dir, target)
		}
		return nil
	}
	return p.put(ctx, name, isolation.Entry{Type: protocol.Symlink, Target: target}, nil)
}

// directories gives the directories their modes and times, the deepest first.
func (p *treePutter) directories(ctx context.Context) error {
	for _, name := range slices.Backward(p.dirs) {
		info, err := p.root.Lstat(name)
		if err != nil || !info.IsDir() {
			return badTreef("%s changed meanwhile", path.Join(p.dir, name))
		}
		entry := isolation.Entry{Type: protocol.Directory, Mode: uint32(info.Mode().Perm()), ModTime: info.ModTime()}
		if err := p.put(ctx, name, entry, nil); err != nil {
			return err
		}
	}
	return nil
}
