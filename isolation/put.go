package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"podgrade/isolation/protocol"
)

// removeGrace bounds a removal: a tree may have any number of entries.
const removeGrace = 10 * time.Minute

// Put implements Cell.
func (c *cell) Put(ctx context.Context, base, name string, entry Entry, content io.Reader) error {
	q := protocol.Request{Op: protocol.OpPut, Path: &protocol.Path{Base: base, Name: name}, Put: &protocol.Put{
		Type: entry.Type, Mode: entry.Mode & 0o7777, Target: entry.Target, ModTime: entry.ModTime,
	}}
	switch {
	case entry.Type == protocol.Regular && content == nil, entry.Type != protocol.Regular && content != nil:
		return fmt.Errorf("put %q: %w: only a regular file has content", name, errors.ErrUnsupported)
	case entry.Type == protocol.Symlink:
		q.Put.Mode = 0
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(pathGrace, cancel)
	defer late.Stop()
	if content != nil {
		content = &taking{r: content, late: late}
	}
	_, err := c.question(ctx, waiting, q, content, nil)
	return noSpace(err, "put a file", name)
}

// taking is a content of any size: as long as the cell takes it, it is not late.
type taking struct {
	r    io.Reader
	late *time.Timer
}

func (t *taking) Read(p []byte) (int, error) {
	t.late.Stop() // the reader's own time does not count
	defer t.late.Reset(pathGrace)
	return t.r.Read(p)
}

// Remove implements Cell.
func (c *cell) Remove(ctx context.Context, base, name string) error {
	waiting, cancel := context.WithTimeout(ctx, removeGrace)
	defer cancel()
	_, err := c.question(ctx, waiting, protocol.Request{Op: protocol.OpRemove, Path: &protocol.Path{Base: base, Name: name}}, nil, nil)
	return noSpace(err, "remove a file", name)
}

// noSpace makes a full disk what it is, a fault of the host.
func noSpace(err error, tried, on string) error {
	if !errors.Is(err, ErrNoSpace) {
		return err
	}
	return &Fault{Tried: tried, On: fmt.Sprintf("%q in the cell", on), Why: err, Do: "make room on the disk of podgrade's scratch directory"}
}

// EndProcesses implements Cell.
func (c *cell) EndProcesses(ctx context.Context) ([]Process, error) {
	waiting, cancel := context.WithTimeout(ctx, pathGrace)
	defer cancel()
	answer, err := c.question(ctx, waiting, protocol.Request{Op: protocol.OpKillAll}, nil, nil)
	if err != nil || answer.Kill == nil {
		return nil, err
	}
	if answer.Kill.Stuck {
		return answer.Kill.Ended, fmt.Errorf("end the cell's processes: %w", ErrAlive)
	}
	return answer.Kill.Ended, nil
}
