package regrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Only a signal to podgrade is exit 130: what gave up for another reason is a
// failure of the host.
func TestOnlyAnInterruptIsExit130(t *testing.T) {
	interrupted := &Interrupted{What: "the row is as it was"}
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, ExitPassed},
		{interrupted, ExitInterrupted},
		{fmt.Errorf("row 1: %w", interrupted), ExitInterrupted},
		{errors.Join(errors.New("another"), interrupted), ExitInterrupted},
		{context.Canceled, ExitFailed},
		{&Error{Kind: Infrastructure, Tried: "x", Why: context.Canceled}, ExitFailed},
		{&Error{Kind: Refused, Tried: "x", Why: context.Canceled}, ExitUsage},
	} {
		if got := ExitCode(test.err); got != test.want {
			t.Errorf("%v: exit %d, want %d", test.err, got, test.want)
		}
	}
	if kind := KindOf(fmt.Errorf("row 1: %w", interrupted)); kind != Interruption {
		t.Errorf("it is called %s", kind)
	}
	if !errors.Is(interrupted, context.Canceled) || strings.Contains(interrupted.Error(), "context") {
		t.Errorf("it says %q", interrupted)
	}
}
