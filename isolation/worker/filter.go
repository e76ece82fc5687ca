package worker

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// filterAnnotation gives crun a seccomp filter that is compiled already.
const filterAnnotation = "run.oci.seccomp_bpf_data"

// seccompFilter keeps the compiled filters of this worker's life: libseccomp
// inside crun takes 25 to 35 ms for one, every time. crun leaves the filter of
// the first cell in its state directory; later cells with the same profile
// take it by annotation. Verify looks at the process, not at the JSON, so a
// cell without a filter is noticed.
type seccompFilter struct {
	mu       sync.Mutex
	compiled map[profileKey]string // base64 of the filter
}

type profileKey [sha256.Size]byte

// MaxFilter is above what the kernel takes (4096 instructions of 8 bytes).
const MaxFilter = 64 << 10

// use returns the specification to start the runtime with. A filter that the
// host gives is used as one that was compiled here.
func (f *seccompFilter) use(raw json.RawMessage, s *specs.Spec, given []byte) (json.RawMessage, error) {
	key, ok := keyOf(s)
	if !ok {
		return raw, nil
	}
	f.mu.Lock()
	if f.compiled[key] == "" {
		f.set(key, given)
	}
	filter := f.compiled[key]
	f.mu.Unlock()
	if filter == "" {
		return raw, nil
	}
	with := *s
	with.Annotations = map[string]string{filterAnnotation: filter}
	for name, value := range s.Annotations {
		with.Annotations[name] = value
	}
	return json.Marshal(with)
}

// keep takes the filter that the runtime left for a started cell, when there
// is one that is not known yet, and returns it: only crun leaves it.
func (f *seccompFilter) keep(run, name string, s *specs.Spec) []byte {
	key, ok := keyOf(s)
	if !ok {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.compiled[key] != "" {
		return nil
	}
	filter, err := os.ReadFile(filepath.Join(runtimeDir(run), name, "seccomp.bpf"))
	if err != nil || !f.set(key, filter) {
		return nil
	}
	return filter
}

// set notes a filter that can be one.
func (f *seccompFilter) set(key profileKey, filter []byte) bool {
	const instruction = 8 // bytes
	if len(filter) == 0 || len(filter) > MaxFilter || len(filter)%instruction != 0 {
		return false
	}
	if f.compiled == nil {
		f.compiled = map[profileKey]string{}
	}
	f.compiled[key] = base64.StdEncoding.EncodeToString(filter)
	return true
}

func keyOf(s *specs.Spec) (key profileKey, ok bool) {
	if s.Linux.Seccomp == nil {
		return key, false
	}
	profile, err := json.Marshal(s.Linux.Seccomp)
	return sha256.Sum256(profile), err == nil
}
