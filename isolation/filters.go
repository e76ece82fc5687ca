package isolation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"podgrade/isolation/worker"
)

// filters keeps compiled seccomp filters from one podgrade to the next: the
// runtime takes 30 ms to compile one, half of what the only cell of a short
// podgrade takes. A filter is kept only once a cell with it was verified, and
// whatever filter a cell is given, it is verified again.
//
// The zero value keeps none on the disk.
type filters struct {
	dir   string // "": there is none
	maker string // what compiles filters: the runtime's file and the kernel

	mu    sync.Mutex
	state map[string]*filterState // by the profile's name
}

// filterState is how far the filter of one profile has come.
type filterState struct {
	given bool // to our worker, from the disk
	known bool // to our worker, and verified: it needs no profile any more
}

// filterAge is how long a filter is used: what compiles it is a library of the
// runtime's, which changes without it.
const filterAge = 7 * 24 * time.Hour

// newFilters keeps them in the user's cache; where there is none, nowhere.
func newFilters(runtime string) *filters {
	cache, err := os.UserCacheDir()
	maker, makerErr := makerOf(runtime)
	if errors.Join(err, makerErr) != nil || !worker.IsCrun(runtime) {
		return &filters{}
	}
	return &filters{dir: filepath.Join(cache, "podgrade", "filters"), maker: maker}
}

// makerOf tells one build of a runtime on one kernel from another.
func makerOf(runtime string) (string, error) {
	info, err := os.Stat(runtime)
	if err != nil {
		return "", err
	}
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		return "", err
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%s %d %d %d %d %s %s", runtime, st.Dev, st.Ino, st.Size, info.ModTime().UnixNano(),
		unix.ByteSliceToString(kernel.Release[:]), unix.ByteSliceToString(kernel.Machine[:])), nil
}

// of returns the name of a specification's profile and the state of its filter.
// f.mu is held.
func (f *filters) of(spec *specs.Spec) (string, *filterState) {
	profile, err := json.Marshal(spec.Linux.Seccomp)
	if spec.Linux.Seccomp == nil || err != nil {
		return "", &filterState{}
	}
	sum := sha256.Sum256(append(profile, f.maker...))
	name := hex.EncodeToString(sum[:])
	return name, f.named(name)
}

// named is the state of the filter of a profile of that name. f.mu is held.
func (f *filters) named(name string) *filterState {
	if name == "" {
		return &filterState{}
	}
	if f.state == nil {
		f.state = map[string]*filterState{}
	}
	if f.state[name] == nil {
		f.state[name] = &filterState{}
	}
	return f.state[name]
}

// start asks the worker to start a cell on a specification, whose text is raw.
func (f *filters) start(spec *specs.Spec, raw []byte) (worker.Request, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name, state := f.of(spec)
	r := worker.Request{Op: worker.OpStart, Spec: raw, Profile: name}
	if name == "" {
		return r, nil
	}
	if state.known {
		with, linux := *spec, *spec.Linux
		linux.Seccomp, with.Linux = nil, &linux
		var err error
		r.Spec, err = json.Marshal(with)
		return r, err
	}
	if !state.given {
		r.Filter = f.read(name)
		state.given = r.Filter != nil
	}
	return r, nil
}

// read returns a filter that was kept. None is found where the file is not as
// keep writes it.
func (f *filters) read(name string) []byte {
	if f.dir == "" {
		return nil
	}
	text, ok := readOwn(filepath.Join(f.dir, name), filterAge, worker.MaxFilter+sha256.Size)
	if !ok || len(text) <= sha256.Size {
		return nil
	}
	filter := text[sha256.Size:]
	if sum := sha256.Sum256(filter); !bytes.Equal(sum[:], text[:sha256.Size]) {
		return nil
	}
	return filter
}

// verified notes that a cell with a profile of that name is what its specification
// asks for. compiled is the filter that the runtime compiled for it, where it did.
func (f *filters) verified(name string, compiled []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.named(name)
	state.known = state.known || state.given || len(compiled) > 0
	if len(compiled) > 0 {
		f.keep(name, compiled)
	}
}

// keep writes a filter. That it cannot costs time only.
func (f *filters) keep(name string, filter []byte) {
	if f.dir == "" || os.MkdirAll(f.dir, 0o700) != nil {
		return
	}
	removeOlder(f.dir, filterAge)
	sum := sha256.Sum256(filter)
	replace(filepath.Join(f.dir, name), append(sum[:], filter...))
}

// forget removes the filter of a cell that did not come to be: were it the
// filter's fault, every podgrade would meet it.
func (f *filters) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name != "" {
		*f.named(name) = filterState{}
		if f.dir != "" {
			os.Remove(filepath.Join(f.dir, name))
		}
	}
}
