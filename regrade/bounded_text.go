package regrade

import (
	"fmt"
	"io"
)

// boundedText keeps the beginning and the end of what is written to it: a build
// may say gigabytes, and why it failed comes last.
type boundedText struct {
	begin   []byte
	end     lastBytes
	written int64
}

// mostText is how much of the beginning is kept, in bytes.
const mostText = 1 << 20

// Write never fails.
func (b *boundedText) Write(p []byte) (int, error) {
	b.written += int64(len(p))
	n := min(len(p), mostText-len(b.begin))
	b.begin = append(b.begin, p[:n]...)
	b.end.write(p[n:])
	return len(p), nil
}

// copyTo writes what was kept, and how much is missing between.
func (b *boundedText) copyTo(w io.Writer) {
	end := b.end.bytes()
	w.Write(b.begin)
	if missing := b.written - int64(len(b.begin)+len(end)); missing > 0 {
		fmt.Fprintf(w, "\n[%d bytes were dropped]\n", missing)
	}
	w.Write(end)
}
