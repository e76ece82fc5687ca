package isolation

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// endless is a stream like /dev/zero that ends a context after some reads.
type endless struct {
	left int
	end  context.CancelFunc
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left--; e.left == 0 {
		e.end()
	}
	return len(p), nil
}

func TestAnArchiveIsReadWithinBounds(t *testing.T) {
	for size, fits := range map[int]bool{0: true, 99: true, 100: true, 101: false, 5000: false} {
		var to bytes.Buffer
		err := copyBounded(t.Context(), &to, iotest.OneByteReader(strings.NewReader(strings.Repeat("x", size))), "a.tar", 100)
		var refused *Fault
		if fits && (err != nil || to.Len() != size) || !fits && (!errors.As(err, &refused) || refused.Kind != Refusal || to.Len() > 100) {
			t.Errorf("%d bytes: %v, %d copied", size, err, to.Len())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := copyBounded(ctx, &bytes.Buffer{}, &endless{3, cancel}, "a.tar", MostArchive); !errors.Is(err, context.Canceled) {
		t.Errorf("an endless stream: %v", err)
	}
}

func TestWhatMayNotEndIsNoArchive(t *testing.T) {
	h := &Host{run: &run{dir: t.TempDir()}}
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	var refused *Fault
	if _, err := h.seekable(t.Context(), zero, 100); !errors.As(err, &refused) || !strings.Contains(err.Error(), "neither a regular file nor a pipe") {
		t.Errorf("/dev/zero: %v", err)
	}
	// Nobody writes to the pipe, and nobody closes it.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := h.seekable(ctx, read, 100)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a pipe without an end was read")
		}
	case <-time.After(10 * time.Second):
		t.Error("a pipe without a writer holds an import up")
	}
	if left, _ := os.ReadDir(h.run.dir); len(left) > 0 {
		t.Errorf("%v stays", left)
	}
}
