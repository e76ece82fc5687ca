package policy

import (
	"errors"
	"io"
	"slices"
	"testing"

	"podgrade/oci"
)

// An image is fetched only where the operator asked for it, never by a grade,
// and one that a record names only with consent.
func TestAnImageIsFetchedOnlyWithConsent(t *testing.T) {
	for name, c := range map[string]struct {
		phase                   oci.Phase
		planned, asked, allowed bool
		pulls, refused          bool
	}{
		"the operator's file":           {phase: oci.Execute, planned: true, asked: true, allowed: true, pulls: true},
		"nobody asked for it":           {phase: oci.Execute, planned: true, allowed: true},
		"a recorded image":              {phase: oci.Execute, asked: true, refused: true},
		"a recorded image with consent": {phase: oci.Execute, asked: true, allowed: true, pulls: true},
		"a grade":                       {phase: oci.Grade, asked: true, allowed: true},
	} {
		r := planned(t, c.phase, func(r *Request) { r.Planned, r.Pull = c.planned, c.asked })
		accepted, err := Consent(r, Answer{RecordedCommands: c.allowed}, io.Discard)
		var refusal *Refusal
		if errors.As(err, &refusal) != c.refused || accepted.Pulls() != c.pulls {
			t.Errorf("%s: fetched %v, %v", name, accepted.Pulls(), err)
			continue
		}
		asks := func(g Grant) bool { return g.Kind == Pull && g.Value == "image:1" }
		if c.refused && !slices.ContainsFunc(refusal.Grants, asks) || c.pulls != slices.ContainsFunc(accepted.Grants(), asks) {
			t.Errorf("%s: asked for %v, accepted %v", name, err, accepted.Grants())
		}
	}
	if (Accepted{}).Pulls() {
		t.Error("what nobody accepted is fetched")
	}
}
