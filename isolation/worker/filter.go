package worker

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// filterAnnotation gives crun a seccomp filter that is compiled already.
const filterAnnotation = "run.oci.seccomp_bpf_data"

// seccompFilter keeps the compiled filters of this worker's life, by the names
// of their profiles: libseccomp inside crun takes 25 to 35 ms for one, every
// time. crun leaves the filter of the first cell in its state directory; later
// cells with the same profile take it by annotation. Verify looks at the
// process, not at the JSON, so a cell without a filter is noticed.
type seccompFilter struct {
	mu       sync.Mutex
	compiled map[string]string // base64 of the filter
}

// MaxFilter is above what the kernel takes (4096 instructions of 8 bytes).
const MaxFilter = 64 << 10

// use returns the specification to start the runtime with, and whether the
// filter in it is compiled. A filter that the host gives is used as one that
// was compiled here.
func (f *seccompFilter) use(raw json.RawMessage, s *specs.Spec, profile string, given []byte) (_ json.RawMessage, compiled bool, err error) {
	f.mu.Lock()
	if f.compiled[profile] == "" {
		f.set(profile, given)
	}
	filter := f.compiled[profile]
	f.mu.Unlock()
	switch {
	case filter != "":
	case s.Linux.Seccomp == nil && profile != "":
		return nil, false, errors.New("the specification has no seccomp profile, and its filter is not known")
	default:
		return raw, false, nil
	}
	// The profile is most of the text, and nobody would look at it.
	with, linux := *s, *s.Linux
	linux.Seccomp, with.Linux = nil, &linux
	with.Annotations = map[string]string{filterAnnotation: filter}
	for name, value := range s.Annotations {
		with.Annotations[name] = value
	}
	raw, err = json.Marshal(with)
	return raw, true, err
}

// keep takes the filter that the runtime left for a started cell, when there
// is one that is not known yet, and returns it: only crun leaves it.
func (f *seccompFilter) keep(run, name, profile string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.compiled[profile] != "" {
		return nil
	}
	filter, err := os.ReadFile(filepath.Join(runtimeStateDir(run), name, "seccomp.bpf"))
	if err != nil || !f.set(profile, filter) {
		return nil
	}
	return filter
}

// set notes a filter that can be one.
func (f *seccompFilter) set(profile string, filter []byte) bool {
	const instruction = 8 // bytes
	if profile == "" || len(filter) == 0 || len(filter) > MaxFilter || len(filter)%instruction != 0 {
		return false
	}
	if f.compiled == nil {
		f.compiled = map[string]string{}
	}
	f.compiled[profile] = base64.StdEncoding.EncodeToString(filter)
	return true
}
