package supervisor

import (
	"errors"
	"fmt"

	"podgrade/isolation/protocol"
)

// inbox is the input of one request on its way from the channel to the request.
// Handing it on may take as long as a disk takes, never as long as a command
// likes: what a command is to read is gathered first.
type inbox struct {
	chunks chan []byte // closed at the end
	void   bool        // the end says that all was for nothing; read it after that
	left   chan struct{}
}

// errVoid says that the host could not give the input to its end.
var errVoid = errors.New("the host broke its input off")

func newInbox() *inbox {
	return &inbox{chunks: make(chan []byte, 4), left: make(chan struct{})}
}

// input hands a chunk on.
func (s *supervisor) input(payload []byte) error {
	id, stream, data, err := protocol.ParseChunk(protocol.KindInput, payload)
	if err != nil {
		return err
	}
	s.mu.Lock()
	in := s.inboxes[id]
	if stream != protocol.Input {
		delete(s.inboxes, id)
	}
	s.mu.Unlock()
	if in == nil {
		return fmt.Errorf("%w: input for request %d, which takes none", protocol.ErrFrame, id)
	}
	if len(data) > 0 {
		select {
		case in.chunks <- append([]byte(nil), data...):
		case <-in.left:
		}
	}
	if stream != protocol.Input {
		in.void = stream == protocol.InputVoid
		close(in.chunks)
	}
	return nil
}

// leave: nobody reads the inbox any more, and what still comes is dropped.
func (in *inbox) leave() { close(in.left) }

// each hands every chunk to take, until it fails or the input ends.
func (in *inbox) each(take func([]byte) error) error {
	for chunk := range in.chunks {
		if err := take(chunk); err != nil {
			return err
		}
	}
	if in.void {
		return errVoid
	}
	return nil
}

// errTooMuch says that a command's input is above the limit.
var errTooMuch = fmt.Errorf("its input has more than %d MiB", protocol.MaxStdin>>20)

// gather returns the whole input of a command; nil when there is none.
func (in *inbox) gather() ([]byte, error) {
	if in == nil {
		return nil, nil
	}
	all := []byte{}
	err := in.each(func(chunk []byte) error {
		if len(all)+len(chunk) > protocol.MaxStdin {
			return errTooMuch
		}
		all = append(all, chunk...)
		return nil
	})
	return all, err
}
