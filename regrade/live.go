package regrade

import (
	"bytes"
	"io"
	"strings"
)

// mostLine bounds a line of an agent's output that is told while it works, in
// bytes: what is longer comes in parts.
const mostLine = 8 << 10

// lines tells each line that is written to it, and at the end what is left.
type lines struct {
	tell func(line string)
	rest []byte
}

// Write never fails: nobody who watches is in an agent's way.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, after, whole := bytes.Cut(p, []byte("\n"))
		if room := mostLine - len(l.rest); len(line) > room {
			line, after, whole = line[:room], p[room:], true
		}
		l.rest, p = append(l.rest, line...), after
		if whole {
			l.flush()
		}
	}
	return n, nil
}

func (l *lines) flush() {
	l.tell(strings.ToValidUTF8(string(bytes.TrimSuffix(l.rest, []byte("\r"))), "\ufffd"))
	l.rest = l.rest[:0]
}

// end tells the last line, which no line feed ended.
func (l *lines) end() {
	if len(l.rest) > 0 {
		l.flush()
	}
}

// live adds to where the agent's output goes whoever watches it; ended is due
// when the agent has ended.
func (e *execution) live(o order, stdout, stderr io.Writer) (out, err io.Writer, ended func()) {
	if !o.agent || e.options.Output == nil {
		return stdout, stderr, func() {}
	}
	watch := func(stream string) *lines {
		return &lines{tell: func(line string) { e.options.Output(stream, line) }}
	}
	outLines, errLines := watch(streamStdout), watch(streamStderr)
	return io.MultiWriter(stdout, outLines), io.MultiWriter(stderr, errLines), func() {
		outLines.end()
		errLines.end()
	}
}
