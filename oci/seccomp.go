package oci

import (
	"fmt"
	"slices"

	"github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// seccompProfile is moby's default profile for the capabilities of s, with our
// extra rules, for the native architecture only.
//
// Only one architecture, because libseccomp compiles the filter once for each:
// that is most of the time that a cell takes to start (measured: 61 ms against
// 26 ms a cell).
func seccompProfile(s *specs.Spec) (*specs.LinuxSeccomp, error) {
	profile, err := seccomp.GetDefaultProfile(s)
	if err != nil {
		return nil, fmt.Errorf("make the seccomp profile: %w", err)
	}
	if len(profile.Architectures) > 1 {
		profile.Architectures = profile.Architectures[:1]
	}
	own := []string{"prlimit64"}
	for i := range profile.Syscalls {
		rule := &profile.Syscalls[i]
		if rule.Action == specs.ActAllow {
			rule.Names = slices.DeleteFunc(slices.Clone(rule.Names), func(name string) bool {
				return slices.Contains(own, name)
			})
		}
	}
	profile.Syscalls = slices.DeleteFunc(profile.Syscalls, func(rule specs.LinuxSyscall) bool {
		return len(rule.Names) == 0
	})
	// A command may change its own limits only. The kernel checks nothing but
	// the uid here, and RLIMIT_CPU 0 on the supervisor ends the cell. The pid
	// is an int: only its low half is looked at. Thread ids count as pids, so
	// "not 1" would not do.
	profile.Syscalls = append(profile.Syscalls, specs.LinuxSyscall{
		Names:  own,
		Action: specs.ActAllow,
		Args:   []specs.LinuxSeccompArg{{Index: 0, Value: 0xffffffff, ValueTwo: 0, Op: specs.OpMaskedEqual}},
	})
	return profile, nil
}
