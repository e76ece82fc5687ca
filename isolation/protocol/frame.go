// Package protocol is what the host and the supervisor of a cell say to each
// other over the supervisor's inherited standard input and output.
//
// It is a stream of frames: four bytes of length (big endian, of all that
// follows), one byte of kind, the payload. Commands in the cell never hold a
// descriptor of this channel, so nothing that a command prints can look like a
// frame. The package uses the standard library only: it is part of PID 1 of
// every cell.
package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Version of the protocol. Host and supervisor are installed together and must
// agree exactly.
const Version = 3

// MaxFrame is the largest frame either side accepts, in bytes.
const MaxFrame = 1 << 20

// ChunkSize is the most file or output bytes that one frame carries.
const ChunkSize = 64 << 10

// Kind tells what a frame's payload is.
type Kind byte

// The kinds of frames.
const (
	KindHello   Kind = 'H' // JSON Hello, first frame in both directions
	KindRequest Kind = 'Q' // JSON Request, host to cell
	KindAnswer  Kind = 'A' // JSON Answer, cell to host, ends a request unless More is set
	KindOutput  Kind = 'O' // chunk header (request id, stream), then bytes; cell to host
	KindInput   Kind = 'I' // the same; host to cell
	KindCall    Kind = 'C' // JSON Call, cell to host, and to the supervisor in the cell
	KindReply   Kind = 'R' // JSON Reply, the other way
)

// Stream says which stream of a request a chunk belongs to.
type Stream byte

// The streams of a request.
const (
	Stdout  Stream = 1
	Stderr  Stream = 2
	Content Stream = 3 // bytes of a file that was read

	Input     Stream = 4 // bytes for a command or a file; more follow
	InputEnd  Stream = 5 // the last bytes, possibly none
	InputVoid Stream = 6 // there will be no end: what was sent is worth nothing
)

// ErrFrame is wrapped by every error about a frame that breaks the protocol.
var ErrFrame = errors.New("broken frame")

const chunkHeader = 5

// Writer writes frames. It is safe for several goroutines: a frame is never
// torn by another one.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// errTooLarge: what we would write is more than a frame holds.
var errTooLarge = fmt.Errorf("%w", ErrFrame)

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes one frame in one call of the underlying writer.
func (w *Writer) Write(kind Kind, payload ...[]byte) error {
	n := 1
	for _, p := range payload {
		n += len(p)
	}
	if n > MaxFrame {
		return fmt.Errorf("%w: %d bytes to write, the limit is %d", errTooLarge, n, MaxFrame)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = binary.BigEndian.AppendUint32(w.buf[:0], uint32(n))
	w.buf = append(w.buf, byte(kind))
	for _, p := range payload {
		w.buf = append(w.buf, p...)
	}
	_, err := w.w.Write(w.buf)
	return err
}

// WriteChunk writes one chunk of a request's stream, at most ChunkSize bytes.
// The stream tells which way it goes.
func (w *Writer) WriteChunk(id uint32, stream Stream, data []byte) error {
	var head [chunkHeader]byte
	binary.BigEndian.PutUint32(head[:], id)
	head[4] = byte(stream)
	kind := KindOutput
	if stream >= Input {
		kind = KindInput
	}
	return w.Write(kind, head[:], data)
}

// Reader reads frames. The payload it returns is valid until the next call.
type Reader struct {
	r    io.Reader
	head [5]byte
	buf  []byte
}

// NewReader returns a Reader on r.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Read returns the next frame. It returns io.EOF only between two frames.
func (r *Reader) Read() (Kind, []byte, error) {
	if _, err := io.ReadFull(r.r, r.head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, nil, fmt.Errorf("%w: the stream ended inside a header", ErrFrame)
		}
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(r.head[:4])
	if n < 1 || n > MaxFrame {
		return 0, nil, fmt.Errorf("%w: length %d is not between 1 and %d", ErrFrame, n, MaxFrame)
	}
	if cap(r.buf) < int(n-1) {
		r.buf = make([]byte, n-1)
	}
	r.buf = r.buf[:n-1]
	if _, err := io.ReadFull(r.r, r.buf); err != nil {
		return 0, nil, fmt.Errorf("%w: the stream ended inside a frame of %d bytes: %v", ErrFrame, n, err)
	}
	return Kind(r.head[4]), r.buf, nil
}

// ParseChunk splits the payload of a KindOutput or KindInput frame.
func ParseChunk(kind Kind, payload []byte) (id uint32, stream Stream, data []byte, err error) {
	if len(payload) < chunkHeader {
		return 0, 0, nil, fmt.Errorf("%w: a chunk of %d bytes has no header", ErrFrame, len(payload))
	}
	first, last := Stdout, Content
	if kind == KindInput {
		first, last = Input, InputVoid
	}
	if stream = Stream(payload[4]); stream < first || stream > last {
		return 0, 0, nil, fmt.Errorf("%w: stream %d is unknown", ErrFrame, stream)
	}
	return binary.BigEndian.Uint32(payload), stream, payload[chunkHeader:], nil
}
