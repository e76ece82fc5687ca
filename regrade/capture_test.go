package regrade

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

func TestCapture(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, keptHead - 1, keptHead, keptHead + 1, keptHead + keptTail, keptHead + keptTail + 1, 3*keptTail + 12345} {
		whole := make([]byte, size)
		for i := range whole {
			whole[i] = byte(random.Uint32())
		}
		c := newCapture()
		for rest := whole; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(100_000))
			c.Write(rest[:n])
			rest = rest[n:]
		}
		out := c.output()
		sum := sha256.Sum256(whole)
		if out.Bytes != int64(size) || out.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%d bytes: counted %d, sha256 %s", size, out.Bytes, out.SHA256)
		}
		want := whole
		if dropped := size - keptHead - keptTail; dropped > 0 {
			marker := fmt.Sprintf("\n[podgrade dropped %d bytes here]\n", dropped)
			want = bytes.Join([][]byte{whole[:keptHead], whole[size-keptTail:]}, []byte(marker))
			if out.Dropped != int64(dropped) {
				t.Errorf("%d bytes: dropped %d", size, out.Dropped)
			}
		}
		if !bytes.Equal(out.Text, want) {
			t.Errorf("%d bytes: the kept text is wrong", size)
		}
	}
}

func TestCaptureIsBounded(t *testing.T) {
	chunk := []byte(strings.Repeat("x", 1<<20))
	var before, after runtime.MemStats
	c := newCapture()
	runtime.ReadMemStats(&before)
	for range 256 {
		c.Write(chunk)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if out := c.output(); out.Bytes != 256<<20 || len(out.Text) > keptHead+keptTail+100 {
		t.Errorf("%d bytes, %d kept", out.Bytes, len(out.Text))
	}
	if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 8<<20 {
		t.Errorf("%d bytes were allocated for a stream of 256 MiB", grown)
	}
}
