package policy

import (
	"bytes"
	"io"
)

// longestLine bounds how much of one line a NeutralWriter holds back, in bytes.
const longestLine = 64 << 10

// NeutralWriter returns a writer that passes text on line by line, each made
// safe to print. Its last line is passed on when it ends.
func NeutralWriter(w io.Writer) io.Writer { return &neutralWriter{w: w} }

type neutralWriter struct {
	w    io.Writer
	line []byte
}

func (n *neutralWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 && len(n.line)+len(p) < longestLine {
			n.line = append(n.line, p...)
			break
		}
		if end < 0 {
			end = len(p) - 1
		}
		n.line = append(n.line, p[:end+1]...)
		p = p[end+1:]
		if _, err := io.WriteString(n.w, NeutralText(string(n.line))); err != nil {
			return 0, err
		}
		n.line = n.line[:0]
	}
	return total, nil
}
