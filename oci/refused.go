package oci

import (
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Call is a system call that the supervisor of a started cell tries, to prove
// that the cell's filter is the one asked for: what a filter does cannot be
// read back from outside, only that there is one.
type Call string

// The calls. Each is made with arguments that change nothing, and that a
// kernel without the filter refuses in another way, or not at all. Those are not
// among them that the kernel refuses to everybody in a user namespace with the very
// error of the filter (kexec_load, init_module): nothing could be told from it.
const (
	CallMount         Call = "mount"
	CallUnmount       Call = "umount2"
	CallUnshare       Call = "unshare" // a new user namespace
	CallSetns         Call = "setns"
	CallClone         Call = "clone" // a new user namespace
	CallClone3        Call = "clone3"
	CallOpenTree      Call = "open_tree"
	CallKeyctl        Call = "keyctl"
	CallAddKey        Call = "add_key"
	CallRequestKey    Call = "request_key"
	CallBPF           Call = "bpf"
	CallPerfEventOpen Call = "perf_event_open"
	CallPrlimit       Call = "prlimit64" // of the supervisor
	CallOpenByHandle  Call = "open_by_handle_at"
	CallIOUring       Call = "io_uring_setup"
)

// Calls are all of them.
func Calls() []Call {
	return []Call{
		CallMount, CallUnmount, CallUnshare, CallSetns, CallClone, CallClone3, CallOpenTree, CallKeyctl, CallAddKey, CallRequestKey,
		CallBPF, CallPerfEventOpen, CallPrlimit, CallOpenByHandle, CallIOUring,
	}
}

// RefusedCalls are those that the filter of a specification refuses: all of
// them but what the capabilities of the cell bring with them.
func RefusedCalls(s *specs.Spec) []Call {
	if s.Linux == nil || s.Linux.Seccomp == nil {
		return Calls() // there should have been a filter
	}
	return slices.DeleteFunc(Calls(), func(c Call) bool {
		return slices.ContainsFunc(s.Linux.Seccomp.Syscalls, func(rule specs.LinuxSyscall) bool {
			return rule.Action == specs.ActAllow && len(rule.Args) == 0 && slices.Contains(rule.Names, string(c))
		})
	})
}
