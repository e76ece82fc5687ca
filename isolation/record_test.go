package isolation_test

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/protocol"
)

// A recorded command is answered outside of the cell, on every engine, and still
// is after a command ended its cell.
func TestACallOfARecordedCommandIsAnswered(t *testing.T) {
	overPlaces(t, func(t *testing.T, c isolation.Cell) {
		var mu sync.Mutex
		var calls []string
		err := c.Record(ctx(t), func(call isolation.Call) isolation.Reply {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprintf("%s %q", call.Tool, call.Argv))
			line := fmt.Sprintf("call %d", len(calls))
			return isolation.Reply{Exit: 3, Stdout: "answer\n", Log: path.Join(c.Places().Workspace, "mocks/calls.jsonl"), Line: line}
		})
		if err != nil {
			t.Fatal(err)
		}
		link := isolation.Entry{Type: protocol.Symlink, Target: c.Places().Recorder}
		if err := c.Put(ctx(t), c.Places().Workspace, "mocks/uip", link, nil); err != nil {
			t.Fatal(err)
		}
		want(t, c, "PATH=$PWD/mocks:$PATH; uip a b; echo $?; cat mocks/calls.jsonl", "answer\n3\ncall 1\n")
		isolation.EndBy(c)
		want(t, c, "cd mocks; ./uip; echo $?; cat calls.jsonl", "answer\n3\ncall 1\ncall 2\n")
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(calls, ", "); got != `uip ["a" "b"], uip []` {
			t.Errorf("calls are %s", got)
		}
	})
}

// A reply that is too long for a frame costs the call its answer, not the cell.
func TestAReplyThatIsTooLong(t *testing.T) {
	c := open(t, as(t, ""), nil)
	long := strings.Repeat("\xff", protocol.MaxReply)
	reply := isolation.Reply{Stdout: long, Line: "x", Log: "/work/workspace/log"}
	if err := c.Record(ctx(t), func(isolation.Call) isolation.Reply { return reply }); err != nil {
		t.Fatal(err)
	}
	sh(t, c, "ln -s "+c.Places().Recorder+" uip")
	if got := sh(t, c, "./uip; ls log 2>&1"); !strings.HasPrefix(got.out, long) || !strings.Contains(got.out, "No such file") {
		t.Errorf("%d bytes came: %+v", len(got.out), got.Exit)
	}
	reply.Stdout += "x"
	if got := sh(t, c, "./uip"); got.Code != 1 || !strings.Contains(got.out, "the limit is") {
		t.Errorf("got %d, %.200q", got.Code, got.out)
	}
}
