package isolation_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"podgrade/isolation"
)

// stream is a piece of a container's stream as Podman's service sends it.
func stream(kind byte, content string) []byte {
	header := make([]byte, 8, 8+len(content))
	header[0] = kind
	binary.BigEndian.PutUint32(header[4:], uint32(len(content)))
	return append(header, content...)
}

func TestStreamsOfAContainerAreTakenApart(t *testing.T) {
	for name, c := range map[string]struct {
		in             []byte
		stdout, stderr string
		end            error // nil: of some other kind
	}{
		"nothing":                  {nil, "", "", io.EOF},
		"both":                     {bytes.Join([][]byte{stream(1, "a"), stream(2, "b"), stream(0, "c"), stream(1, "")}, nil), "ac", "b", io.EOF},
		"a word of the service":    {stream(3, "it failed"), "", "it failed", io.EOF},
		"cut in a header":          {append(stream(1, "a"), 1, 0), "a", "", io.ErrUnexpectedEOF},
		"cut in its content":       {stream(1, "abc")[:10], "ab", "", io.EOF},
		"a stream that is unknown": {append(stream(1, "a"), stream(9, "b")...), "a", "", nil},
	} {
		var stdout, stderr bytes.Buffer
		err := isolation.Demultiplex(bytes.NewReader(c.in), &stdout, &stderr)
		if stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%s: stdout %q, stderr %q", name, stdout.String(), stderr.String())
		}
		if err == nil || c.end != nil && !errors.Is(err, c.end) {
			t.Errorf("%s: it ended with %v, want %v", name, err, c.end)
		}
	}
}

func FuzzDemultiplex(f *testing.F) {
	f.Add(bytes.Join([][]byte{stream(1, "a"), stream(2, "b")}, nil))
	f.Add(stream(1, "abc")[:9])
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'})
	f.Fuzz(func(t *testing.T, in []byte) {
		var stdout, stderr bytes.Buffer
		if err := isolation.Demultiplex(bytes.NewReader(in), &stdout, &stderr); err == nil {
			t.Error("it ended without an error")
		}
		if stdout.Len()+stderr.Len() > len(in) {
			t.Errorf("%d bytes became %d", len(in), stdout.Len()+stderr.Len())
		}
	})
}
