package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"podgrade/isolation/protocol"
)

const oDirectory = syscall.O_DIRECTORY

// resolver opens what a name leads to, inside the cell. It needs openat2(2):
// without it, everything is Broken rather than checked less well.
type resolver struct {
	once    sync.Once
	missing error
}

// target is something found: a descriptor that only names it, so that what was
// checked is what is used, and where it lies.
type target struct {
	fd   int
	path string
	stat syscall.Stat_t
}

func (t *target) close() { syscall.Close(t.fd) }

// reopen opens the target itself for reading. It never blocks, not even on a
// FIFO that took the place of a file.
func (t *target) reopen(flags int) (*os.File, error) {
	fd, err := syscall.Open(t.self(), syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), t.path), nil
}

// self is a name of the target that no rename changes.
func (t *target) self() string { return fmt.Sprintf("/proc/self/fd/%d", t.fd) }

// errNoOpenat2 says that paths cannot be resolved safely.
var errNoOpenat2 = errors.New("the system call openat2 is not there or is refused (Linux 5.6 has it): grade on a newer kernel")

// open resolves an absolute name, following links but none of those in /proc
// that lead anywhere at all.
func (r *resolver) open(name string, flags int) (*target, error) {
	r.once.Do(func() {
		fd, err := openat2(atFDCWD, "/", oPath, resolveNoMagiclinks)
		if err != nil {
			r.missing = fmt.Errorf("%w: %v", errNoOpenat2, err)
			return
		}
		syscall.Close(fd)
	})
	if r.missing != nil {
		return nil, r.missing
	}
	if strings.ContainsRune(name, 0) {
		return nil, syscall.ENOENT // no file can have this name
	}
	fd, err := openat2(atFDCWD, name, oPath|flags, resolveNoMagiclinks)
	if err != nil {
		return nil, err
	}
	t := &target{fd: fd}
	if err := t.describe(); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// describe finds where the target lies and what it is.
func (t *target) describe() error {
	if err := syscall.Fstat(t.fd, &t.stat); err != nil {
		return err
	}
	real, err := os.Readlink(t.self())
	if err != nil {
		return errno(err)
	}
	if t.stat.Nlink == 0 && strings.HasSuffix(real, " (deleted)") {
		return syscall.ENOENT
	}
	t.path = real
	return nil
}

// within tells whether path is dir or lies below it; both are clean.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// resolve opens what a request names, if it lies below its base.
func (r *resolver) resolve(p *protocol.Path) (*target, *protocol.Failure) {
	if !strings.HasPrefix(p.Base, "/") {
		return nil, failed(protocol.Broken, "resolve %q: its base %q is not absolute", p.Name, p.Base).Failure
	}
	base, err := r.open(p.Base, oDirectory)
	if err != nil {
		return nil, failed(classify(err), "open the base %q: %v", p.Base, err).Failure
	}
	defer base.close()
	name := p.Name
	if !strings.HasPrefix(name, "/") {
		name = strings.TrimSuffix(p.Base, "/") + "/" + name
	}
	found, err := r.open(name, 0)
	if err != nil {
		return nil, failed(classify(err), "open %q below %q: %v", p.Name, p.Base, err).Failure
	}
	if !within(found.path, base.path) {
		found.close()
		return nil, failed(protocol.Escapes, "%q leads to %q, which is not below %q", p.Name, found.path, p.Base).Failure
	}
	return found, nil
}

// classify sorts an error of a path. What Python's Path.exists() takes for
// "not there" is NotExist, because criteria are written against it: ENOENT,
// ENOTDIR, a loop of links (ELOOP, also a link of /proc that resolve refuses)
// and a name that no file can have (a NUL byte, or ENAMETOOLONG).
func classify(err error) protocol.FailureKind {
	if errors.Is(err, errNoOpenat2) {
		return protocol.Broken
	}
	switch errno(err) {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG:
		return protocol.NotExist
	case syscall.EACCES, syscall.EPERM:
		return protocol.Denied
	case syscall.ENOSPC, syscall.EDQUOT:
		return protocol.NoSpace
	}
	return protocol.Broken
}

// lastPart is the last part of a name as it was asked.
func lastPart(name string) string { return path.Base(name) }
