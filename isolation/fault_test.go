package isolation_test

import (
	"errors"
	"testing"

	"podgrade/isolation"
)

// faultKind is the kind of the fault in an error, -1 when there is none.
func faultKind(err error) isolation.FaultKind {
	var f *isolation.Fault
	if errors.As(err, &f) {
		return f.Kind
	}
	return -1
}

func TestAFaultSaysEverythingOnOneLine(t *testing.T) {
	cause := errors.New("no space left")
	for want, f := range map[string]*isolation.Fault{
		"make a view of /w: no space left (free some)": {Tried: "make a view of", On: "/w", Why: cause, Do: "free some"},
		"make a view: no space left":                   {Tried: "make a view", Why: cause},
		"make a view":                                  {Tried: "make a view"},
	} {
		if f.Error() != want {
			t.Errorf("got %q, want %q", f.Error(), want)
		}
		if f.Why != nil && !errors.Is(f, cause) {
			t.Errorf("%q lost its cause", want)
		}
	}
}
