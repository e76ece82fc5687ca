package isolation

import (
	"context"
	"errors"
	"fmt"

	"podgrade/isolation/protocol"
)

// Record implements Cell. A cell that is made again records again.
func (c *cell) Record(ctx context.Context, answer func(Call) Reply) error {
	client, err := c.live(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.answer = bounded(answer)
	answer = c.answer
	c.mu.Unlock()
	return record(ctx, client, answer)
}

// record makes the supervisor hand calls on.
func record(ctx context.Context, client *protocol.Client, answer func(Call) Reply) error {
	ctx, cancel := context.WithTimeout(ctx, pathGrace)
	defer cancel()
	client.Answer(answer)
	a, err := client.Do(ctx, protocol.Request{Op: protocol.OpRecord}, protocol.Sinks{})
	if err == nil && a.Failure != nil {
		err = errors.New(a.Failure.Message)
	}
	if err != nil {
		return &Fault{Tried: "record the calls of commands", Why: err, Do: "the row is unchanged: run it again"}
	}
	return nil
}

// bounded keeps a reply to what fits into a frame. Without its line it is still
// whole: the host has the log too.
func bounded(answer func(Call) Reply) func(Call) Reply {
	return func(call Call) Reply {
		r := answer(call)
		said := len(r.Stdout) + len(r.Stderr)
		if said+len(r.Line)+len(r.Log) > protocol.MaxReply {
			r.Line, r.Log = "", ""
		}
		if said > protocol.MaxReply {
			return Reply{Exit: 1, Stderr: fmt.Sprintf("podgrade: the reply to this call has %d bytes, the limit is %d\n", said, protocol.MaxReply)}
		}
		return r
	}
}
