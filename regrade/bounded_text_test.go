package regrade

import (
	"bytes"
	"strings"
	"testing"
)

// What a build says is held in memory for the rows that wait for it, so it is
// bounded; the beginning and the end of it are kept.
func TestWhatABuildSaysIsBounded(t *testing.T) {
	for _, whole := range []string{"", "short\n", strings.Repeat("x", mostText+mostLast)} {
		var said boundedText
		var got bytes.Buffer
		said.Write([]byte(whole))
		if said.copyTo(&got); got.String() != whole {
			t.Errorf("%d bytes of %d", got.Len(), len(whole))
		}
	}
	var said boundedText
	said.Write([]byte("STEP 1\n"))
	for range 100 {
		said.Write(bytes.Repeat([]byte("yes\n"), 1<<18))
	}
	said.Write([]byte("why it failed\n"))
	var got bytes.Buffer
	said.copyTo(&got)
	if text := got.String(); len(text) > 2*mostText || !strings.HasPrefix(text, "STEP 1\nyes") || !strings.HasSuffix(text, "yes\nwhy it failed\n") || !strings.Contains(text, "bytes were dropped]") {
		t.Errorf("%d bytes, from %.20q to %.60q", len(text), text, text[max(0, len(text)-60):])
	}
	if held := cap(said.begin) + cap(said.end.kept); held > 8*mostText {
		t.Errorf("%d bytes are held", held)
	}
}
