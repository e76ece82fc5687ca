package oci_test

import (
	"testing"

	"podgrade/oci"
)

func TestSamePlatform(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"linux/amd64", "linux/amd64", true},
		{"linux/arm64", "linux/arm64/v8", true},
		{"linux/amd64", "linux/arm64", false},
		{"linux/arm/v7", "linux/arm64/v8", false},
		{"linux/386", "linux/amd64", false},
		{"windows/amd64", "linux/amd64", false},
		{"", "linux/amd64", true},
		{"/", "linux/amd64", true},
		{"linux/", "linux/amd64", true},
	} {
		if oci.SamePlatform(test.a, test.b) != test.want || oci.SamePlatform(test.b, test.a) != test.want {
			t.Errorf("%q and %q: want %v", test.a, test.b, test.want)
		}
	}
	if !oci.SamePlatform(oci.HostPlatform(), oci.HostPlatform()) {
		t.Error("this host is another platform than itself")
	}
}
