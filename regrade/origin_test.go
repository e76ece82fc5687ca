package regrade

import (
	"testing"

	"podgrade/isolation"
	"podgrade/tasks/record"
)

func TestTheOriginOfAnImage(t *testing.T) {
	for want, digests := range map[string][]string{
		record.OriginLocal:                     {"localhost/a@sha256:1"},
		"registry.example.org:5000/a@sha256:2": {"localhost/a@sha256:1", "registry.example.org:5000/a@sha256:2"},
	} {
		e := &execution{image: isolation.Image{Digests: digests}}
		if got := e.origin(); got != want {
			t.Errorf("%v: %s, want %s", digests, got, want)
		}
	}
}
