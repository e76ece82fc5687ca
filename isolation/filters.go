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
// The zero value keeps nothing.
type filters struct {
	dir   string // "": there is none
	maker string // what compiles filters: the runtime's file and the kernel

	mu   sync.Mutex
	used map[string]bool // given to our worker, which keeps them
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
	return &filters{dir: filepath.Join(cache, "podgrade", "filters"), maker: maker, used: map[string]bool{}}
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

// file is where the filter of a specification is kept; "": nowhere.
func (f *filters) file(spec *specs.Spec) string {
	if f.dir == "" || spec.Linux == nil || spec.Linux.Seccomp == nil {
		return ""
	}
	profile, err := json.Marshal(spec.Linux.Seccomp)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(profile, f.maker...))
	return filepath.Join(f.dir, hex.EncodeToString(sum[:]))
}

// find returns the filter for a cell, once: the worker keeps it then. None is
// found where the file is not as keep writes it.
func (f *filters) find(spec *specs.Spec) []byte {
	name := f.file(spec)
	if name == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used[name] {
		return nil
	}
	f.used[name] = true
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 || time.Since(info.ModTime()) > filterAge || info.Size() > worker.MaxFilter+sha256.Size {
		return nil
	}
	text, err := os.ReadFile(name)
	if err != nil || len(text) <= sha256.Size {
		return nil
	}
	filter := text[sha256.Size:]
	if sum := sha256.Sum256(filter); !bytes.Equal(sum[:], text[:sha256.Size]) {
		return nil
	}
	return filter
}

// keep writes the filter of a verified cell. That it cannot costs time only.
func (f *filters) keep(spec *specs.Spec, filter []byte) {
	name := f.file(spec)
	if name == "" || len(filter) == 0 || os.MkdirAll(f.dir, 0o700) != nil {
		return
	}
	f.removeOld()
	file, err := os.CreateTemp(f.dir, ".filter-") // of mode 0600
	if err != nil {
		return
	}
	sum := sha256.Sum256(filter)
	_, err = file.Write(append(sum[:], filter...))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		os.Remove(file.Name())
	}
}

// forget removes the filter of a cell that did not come to be: were it the
// filter's fault, every podgrade would meet it.
func (f *filters) forget(spec *specs.Spec) {
	if name := f.file(spec); name != "" {
		os.Remove(name)
	}
}

func (f *filters) removeOld() {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > filterAge {
			os.Remove(filepath.Join(f.dir, e.Name()))
		}
	}
}
