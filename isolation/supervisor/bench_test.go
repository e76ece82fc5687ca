package supervisor_test

import (
	"bytes"
	"testing"

	"podgrade/isolation/protocol"
)

// BenchmarkCommand is one /bin/true through the supervisor, trampoline and all.
func BenchmarkCommand(b *testing.B) {
	c := open(b, sealed)
	for b.Loop() {
		if got := c.run(protocol.Run{Argv: []string{"/bin/true"}}); got.Code != 0 {
			b.Fatalf("got %+v", got)
		}
	}
}

// BenchmarkStart is the supervisor's life without a command, on the host: from
// exec over the greeting to its end.
func BenchmarkStart(b *testing.B) {
	hello := greeting()
	for b.Loop() {
		cmd := launch(b, onHost)
		cmd.Stdin = bytes.NewReader(hello)
		if out, err := cmd.Output(); err != nil || len(out) == 0 {
			b.Fatalf("got %q, %v", out, err)
		}
	}
}
