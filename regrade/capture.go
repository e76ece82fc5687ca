package regrade

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"podgrade/tasks/criteria"
)

// keptHead and keptTail are the bytes of a stream that are kept: enough for
// every check of upstream's own tasks, and small enough that no command can
// make podgrade large.
const (
	keptHead = 512 << 10
	keptTail = 512 << 10
)

// capture keeps the head and the tail of one stream, and counts and digests
// all of it. It never holds more than keptHead + keptTail bytes.
type capture struct {
	head, tail []byte
	at         int // where the ring of the tail goes on, once it is full
	bytes      int64
	digest     hash.Hash
	open       func() io.Writer // nil: nobody keeps more than this
	whole      io.Writer        // what open gave
}

func newCapture() *capture { return &capture{digest: sha256.New()} }

// shortOutput is what a record holds of a stream, whatever it is, in bytes. Only
// of a longer one is all of it kept on the disk.
const shortOutput = 4000

// Write takes the next bytes of the stream; it never fails.
func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.keepWhole(p)
	c.bytes += int64(n)
	c.digest.Write(p)
	room := min(keptHead-len(c.head), len(p))
	c.head = append(c.head, p[:room]...)
	c.keepTail(p[room:])
	return n, nil
}

// keepWhole hands the stream on, once it is longer than what a record holds.
func (c *capture) keepWhole(p []byte) {
	if c.open == nil || c.bytes+int64(len(p)) <= shortOutput {
		return
	}
	if c.whole == nil {
		c.whole = c.open()
		c.whole.Write(c.head) // all of it: the head is longer
	}
	c.whole.Write(p)
}

func (c *capture) keepTail(p []byte) {
	if len(p) >= keptTail {
		c.tail, c.at = append(c.tail[:0], p[len(p)-keptTail:]...), 0
		return
	}
	room := min(keptTail-len(c.tail), len(p))
	c.tail = append(c.tail, p[:room]...)
	for p = p[room:]; len(p) > 0; {
		n := copy(c.tail[c.at:], p)
		c.at = (c.at + n) % keptTail
		p = p[n:]
	}
}

// output is what was captured: a marker counts the bytes that were dropped.
func (c *capture) output() criteria.Output {
	text := append([]byte{}, c.head...)
	dropped := c.bytes - int64(len(c.head)) - int64(len(c.tail))
	if dropped > 0 {
		text = fmt.Appendf(text, "\n[podgrade dropped %d bytes here]\n", dropped)
	}
	text = append(text, c.tail[c.at:]...)
	text = append(text, c.tail[:c.at]...)
	return criteria.Output{Text: text, Dropped: dropped, Bytes: c.bytes, SHA256: hex.EncodeToString(c.digest.Sum(nil))}
}
