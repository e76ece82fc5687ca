package supervisor_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"podgrade/isolation/protocol"
)

// frame is one frame as bytes.
func frame(kind byte, payload string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(1+len(payload)))
	return append(append(b, kind), payload...)
}

// greeting is the host's first frame, in the protocol's present version.
func greeting() []byte {
	return frame('H', fmt.Sprintf(`{"version":%d,"nonce":"n"}`, protocol.Version))
}

func TestHello(t *testing.T) {
	hello := greeting()
	for _, test := range []struct {
		name   string
		input  []byte
		code   int
		stderr string // part of it
	}{
		{"the host goes at once", nil, 0, ""},
		{"a greeting and no more", hello, 0, ""},
		{"another version", frame('H', `{"version":99,"nonce":"n"}`), 3, "version 99"},
		{"no greeting", frame('Q', `{"id":1,"op":"killall"}`), 4, "not a hello"},
		{"no JSON", frame('H', `{`), 4, "hello cannot be read"},
		{"a torn frame", hello[:10], 4, "ended inside a frame"},
		{"a torn header", hello[:3], 4, "ended inside a header"},
		{"no length", []byte{0, 0, 0, 0, 'H'}, 4, "length 0"},
		{"too long", []byte{0xff, 0xff, 0xff, 0xff, 'H'}, 4, "length 4294967295"},
		{"an answer from the host", append(hello[:len(hello):len(hello)], frame('A', `{}`)...), 4, `kind 'A'`},
		{"no request", append(hello[:len(hello):len(hello)], frame('Q', `[]`)...), 4, "request cannot be read"},
		{"an unknown operation", append(hello[:len(hello):len(hello)], frame('Q', `{"id":1,"op":"dance"}`)...), 4, "no operation"},
		{"no command", append(hello[:len(hello):len(hello)], frame('Q', `{"id":1,"op":"run"}`)...), 4, "runs nothing"},
		{"no path", append(hello[:len(hello):len(hello)], frame('Q', `{"id":1,"op":"read"}`)...), 4, "names no path"},
		{"twice the same id", append(hello[:len(hello):len(hello)], bytes.Repeat(frame('Q', `{"id":1,"op":"run","run":{"argv":["sleep","9"],"dir":"/"}}`), 2)...), 4, "already under way"},
	} {
		for _, k := range eitherPlace {
			t.Run(strings.ReplaceAll(test.name+" "+k.name, " ", "-"), func(t *testing.T) {
				cmd := launch(t, k)
				var stdout, stderr bytes.Buffer
				cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(test.input), &stdout, &stderr
				_ = cmd.Run() // the status is looked at
				if got := cmd.ProcessState.ExitCode(); got != test.code {
					t.Errorf("exit status %d, want %d", got, test.code)
				}
				if !strings.Contains(stderr.String(), test.stderr) || test.stderr == "" && stderr.Len() > 0 {
					t.Errorf("stderr %q, want %q", &stderr, test.stderr)
				}
				if strings.Count(stderr.String(), "\n") > 1 {
					t.Errorf("stderr is more than a line: %q", &stderr)
				}
				if !bytes.HasPrefix(test.input, hello) {
					if stdout.Len() > 0 {
						t.Errorf("it answered %q", &stdout)
					}
					return
				}
				kind, payload, err := protocol.NewReader(&stdout).Read()
				var h protocol.Hello
				if err != nil || kind != protocol.KindHello || json.Unmarshal(payload, &h) != nil || h != (protocol.Hello{Version: protocol.Version, Nonce: "n"}) {
					t.Errorf("it greeted %q with %q, %v", kind, payload, err)
				}
			})
		}
	}
}

// Started by hand, or as another process than PID 1, it ends nobody's
// processes.
func TestRefusesToBeAnyProcess(t *testing.T) {
	for _, test := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{nil, 5, "not PID 1"},
		{[]string{"--help"}, 2, "started by podgrade"},
		{[]string{"--host", "more"}, 2, "started by podgrade"},
		{[]string{"--command"}, 2, "started by podgrade"},
	} {
		var stderr bytes.Buffer
		cmd := exec.Command(built.init, test.args...)
		cmd.Stderr = &stderr
		_ = cmd.Run() // the status is looked at
		if got := cmd.ProcessState.ExitCode(); got != test.code || !strings.Contains(stderr.String(), test.stderr) {
			t.Errorf("%q: exit status %d, stderr %q", test.args, got, &stderr)
		}
	}
}

// A host that does not read holds the command up; it does not make the
// supervisor grow, and does not keep the time-out from ending the command.
func TestHostThatDoesNotRead(t *testing.T) {
	cmd := launch(t, sealed)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m := mark()
	w := protocol.NewWriter(stdin)
	if err := w.WriteJSON(protocol.KindHello, protocol.Hello{Version: protocol.Version}); err != nil {
		t.Fatal(err)
	}
	run := &protocol.Run{Argv: []string{"sh", "-c", "yes & exec " + built.attack + " sleep " + m + " 60 last"},
		Env: []string{"PATH=/usr/bin:/bin", "PODGRADE_ATTACK=yes"}, Dir: "/", Timeout: 1e9}
	if err := w.WriteJSON(protocol.KindRequest, protocol.Request{ID: 1, Op: protocol.OpRun, Run: run}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return processesWith(m) > 0 })
	waitFor(t, func() bool { return processesWith(m) == 0 })
	stdin.Close()
	go io.Copy(io.Discard, stdout)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if usage := cmd.ProcessState.SysUsage().(*syscall.Rusage); usage.Maxrss > 64<<10 {
		t.Errorf("the supervisor took %d KiB", usage.Maxrss)
	}
}

// The threads that the supervisor may need are there before the first command.
func TestThreadsAreThere(t *testing.T) {
	forEach(t, eitherPlace, func(t *testing.T, c *cell) {
		c.alive() // it answers, and could start a command
		tasks, err := os.ReadDir("/proc/" + c.pid() + "/task")
		if err != nil || len(tasks) < 8 {
			t.Errorf("%d threads, %v", len(tasks), err)
		}
	})
}
