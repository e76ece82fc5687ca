package oci

import (
	"fmt"
	"runtime"
	"strings"
)

// Pin is an image's identity: never a tag (design: Identity).
type Pin struct {
	Reference string `json:"reference"` // the name that was used, for people
	ID        string `json:"id"`        // config digest, hexadecimal, no prefix
	Digest    string `json:"digest"`    // manifest digest, "sha256:..."; "" when the store has none
	Platform  string `json:"platform"`  // os/arch[/variant]
}

// Known tells whether the pin identifies an image at all.
func (p Pin) Known() bool { return p.ID != "" || p.Digest != "" }

// Same compares two pins: by config id where both have one, else by manifest
// digest and platform.
func (p Pin) Same(q Pin) bool {
	if p.ID != "" && q.ID != "" {
		return p.ID == q.ID
	}
	return p.Digest != "" && p.Digest == q.Digest && p.Platform == q.Platform
}

// String names the pin for a person.
func (p Pin) String() string {
	switch {
	case p.ID != "" && p.Digest != "":
		return fmt.Sprintf("%s (id %.12s, digest %s, %s)", p.Reference, p.ID, p.Digest, p.Platform)
	case p.ID != "":
		return fmt.Sprintf("%s (id %.12s, %s)", p.Reference, p.ID, p.Platform)
	case p.Digest != "":
		return fmt.Sprintf("%s (digest %s, %s)", p.Reference, p.Digest, p.Platform)
	}
	return p.Reference + " (not pinned)"
}

// HostPlatform is what the programs of this host run on, as os/arch.
func HostPlatform() string { return "linux/" + runtime.GOARCH }

// SamePlatform compares two platforms by system and architecture: a variant
// says how old a processor may be. What an image does not say is the same as any.
func SamePlatform(a, b string) bool {
	systemA, archA := parts(a)
	systemB, archB := parts(b)
	same := func(a, b string) bool { return a == "" || b == "" || a == b }
	return same(systemA, systemB) && same(archA, archB)
}

// parts are system and architecture of a platform.
func parts(platform string) (system, arch string) {
	system, rest, _ := strings.Cut(platform, "/")
	arch, _, _ = strings.Cut(rest, "/")
	return system, arch
}
