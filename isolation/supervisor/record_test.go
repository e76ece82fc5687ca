package supervisor_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"podgrade/isolation/protocol"
)

// recording makes a cell record calls of the links that it has in its
// directory; what was called is what the returned function says.
func recording(c *cell, reply func(protocol.Call) protocol.Reply) (calls func() []string) {
	c.t.Helper()
	var mu sync.Mutex
	var list []string
	c.Answer(func(call protocol.Call) protocol.Reply {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, fmt.Sprintf("%s %q %s", call.Tool, call.Argv, call.Fault))
		return reply(call)
	})
	for range 2 { // once more changes nothing
		if a, err := c.feed(protocol.Request{Op: protocol.OpRecord}, nil); err != nil || a.Failure != nil {
			c.t.Fatalf("%+v, %v", a, err)
		}
	}
	if got := c.sh("umask 0; mkdir mocks && ln -s "+built.init+" mocks/uip && ln -s "+built.init+" mocks/kubectl", 0); got.Code != 0 {
		c.t.Fatalf("%+v", got)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), list...)
	}
}

func TestRecordedCommands(t *testing.T) {
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		long := strings.Repeat("answer\n", 10_000)
		calls := recording(c, func(call protocol.Call) protocol.Reply {
			r := protocol.Reply{Exit: len(call.Argv), Stdout: "out\xff\n", Stderr: "err\n", Log: c.dir + "/mocks/calls.jsonl", Line: call.Tool}
			if call.Tool == "kubectl" {
				r.Stdout = long
			}
			return r
		})
		got := c.sh(`PATH=$PWD/mocks:$PATH; echo unread | uip a 'b c' "$(printf '\377')"; echo $?; cd /; (uip; echo $?) 2>&1; uip </dev/full >&- 2>&-; cat`, 10*time.Second)
		if got.stdout != "out\xff\n3\nout\xff\nerr\n0\n" || got.stderr != "err\n" {
			t.Errorf("got %+v", got)
		}
		if got := c.sh("mocks/kubectl get; cat mocks/calls.jsonl", 0); got.stdout != long+"uip\nuip\nuip\nkubectl\n" {
			t.Errorf("%d bytes of output", len(got.stdout))
		}
		want := []string{`uip ["a" "b c" "\xff"] `, `uip [] `, `uip [] `, `kubectl ["get"] `}
		if got := calls(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("calls are %q, want %q", got, want)
		}
	})
}

// A call whose process detached from everything is recorded; calls at once are
// all recorded; arguments that do not fit are told.
func TestRecordedCommandsFromAnywhere(t *testing.T) {
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		calls := recording(c, func(protocol.Call) protocol.Reply { return protocol.Reply{} })
		c.sh("(setsid mocks/uip detached &) ; for i in $(seq 40); do mocks/uip $i & done; wait", 20*time.Second)
		waitFor(t, func() bool { return len(calls()) == 41 })
		got := c.sh(`x=$(head -c 100000 /dev/zero | tr '\0' '\377'); mocks/uip "$x" "$x" "$x"; echo $?`, 20*time.Second)
		list := calls()
		if last := list[len(list)-1]; got.stdout != "0\n" || last != "uip [] its arguments are too long to be recorded" {
			t.Errorf("%+v, the last call is %.200s", got, last)
		}
	})
}

// A recorded command can tell when it could not write its log, and a log that
// is a link or no file is not written through.
func TestRecordedCommandWithoutALog(t *testing.T) {
	c := open(t, sealed)
	recording(c, func(protocol.Call) protocol.Reply {
		return protocol.Reply{Log: c.dir + "/mocks/calls.jsonl", Line: "line"}
	})
	for _, way := range []string{"echo kept > target; ln -s ../target mocks/calls.jsonl", "mkdir mocks/calls.jsonl", "mkfifo mocks/calls.jsonl"} {
		got := c.sh(way+"; ln -s ../target mocks/calls.jsonl.error; mocks/uip; rm mocks/calls.jsonl.error; mocks/uip; echo $?; test -s mocks/calls.jsonl.error && cat target; rm -r mocks/calls.jsonl*", 10*time.Second)
		if got.stdout != "0\nkept\n" {
			t.Errorf("%s: %+v", way, got)
		}
	}
}

// Before anybody asked for calls, and for a binary outside of every cell, a
// recorded command says that nobody answers.
func TestRecordedCommandThatNobodyAnswers(t *testing.T) {
	forEach(t, eitherPlace, func(t *testing.T, c *cell) {
		got := c.sh("ln -s "+built.init+" uip; ./uip x", 10*time.Second)
		if got.Code != 127 || !strings.Contains(got.stderr, "nobody answers") {
			t.Errorf("got %+v", got)
		}
	})
}

// Who speaks to the socket without being a recorded command gets nowhere: the
// cell answers, and serves other callers.
func TestRecordedCallsFromAHostileClient(t *testing.T) {
	c := open(t, sealed)
	calls := recording(c, func(protocol.Call) protocol.Reply { return protocol.Reply{} })
	got := c.run(protocol.Run{Argv: []string{built.attack, "calls", "@podgrade-calls-1"}, Timeout: 20 * time.Second})
	if got.Code != 0 || !strings.Contains(got.stdout, "calls: permitted") {
		t.Fatalf("%+v", got)
	}
	if got := c.sh("mocks/uip still; echo $?", 30*time.Second); got.stdout != "0\n" {
		t.Errorf("got %+v", got)
	}
	if list := calls(); len(list) == 0 || list[len(list)-1] != `uip ["still"] ` {
		t.Errorf("calls are %.300q", list)
	}
	c.alive()
}
