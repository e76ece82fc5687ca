package oci_test

import (
	"slices"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/oci"
)

// A filter refuses every call of the list, but for what a capability brings.
func TestRefusedCallsAreThoseOfTheFilter(t *testing.T) {
	for _, test := range []struct {
		capabilities []string
		allowed      []oci.Call
	}{
		{nil, nil},
		{oci.DockerCapabilities(), nil},
		{[]string{"CAP_DAC_READ_SEARCH"}, []oci.Call{oci.CallOpenByHandle}},
		{[]string{"CAP_BPF", "CAP_PERFMON"}, []oci.Call{oci.CallBPF, oci.CallPerfEventOpen}},
	} {
		s, err := oci.Spec(oci.Plan{Capabilities: test.capabilities}, oci.Facts{IDs: oci.MapSize})
		if err != nil {
			t.Fatal(err)
		}
		var allowed []oci.Call
		refused := oci.RefusedCalls(s)
		for _, call := range oci.Calls() {
			if !slices.Contains(refused, call) {
				allowed = append(allowed, call)
			}
		}
		if !slices.Equal(allowed, test.allowed) {
			t.Errorf("with %v these are allowed: %v, want %v", test.capabilities, allowed, test.allowed)
		}
	}
}

// Without a filter all of them are tried, so that none is missed.
func TestWithoutAFilterEveryCallIsTried(t *testing.T) {
	for _, s := range []*specs.Spec{{}, {Linux: &specs.Linux{}}} {
		if got := oci.RefusedCalls(s); !slices.Equal(got, oci.Calls()) {
			t.Errorf("tried: %v", got)
		}
	}
}
