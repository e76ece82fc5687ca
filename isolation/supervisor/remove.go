package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"podgrade/isolation/protocol"
)

// remove carries OpRemove out.
func (s *supervisor) remove(p *protocol.Path) protocol.Answer {
	d, failure := s.paths.parent(p, false)
	if failure != nil {
		if failure.Kind == protocol.NotExist {
			return protocol.Answer{}
		}
		return protocol.Answer{Failure: failure}
	}
	defer d.close()
	var r remover
	var err error
	if d.name == "." {
		err = r.empty(d.fd, 0)
	} else {
		err = r.remove(d.fd, d.name, 0)
	}
	if err != nil {
		return failed(classifyPut(err), "remove %q below %q: %v", p.Name, p.Base, err)
	}
	return protocol.Answer{}
}

// deepestOpen is how many directories are held open below each other. What lies
// deeper is moved up first: a tree may be deeper than there are descriptors.
const deepestOpen = 100

// remover removes trees that others may still be changing.
type remover struct {
	top   int // directory that what lies too deep is moved to
	moved int // numbers that were tried for its names
}

// remove removes one entry of a directory, following no link.
func (r *remover) remove(dir int, name string, depth int) error {
	var refused error
	for range maxTries {
		refused = unlinkat(dir, name, 0)
		if refused == nil || refused == syscall.ENOENT {
			return nil
		}
		if refused != syscall.EISDIR && refused != syscall.EPERM {
			return refused
		}
		err := r.removeDirectory(dir, name, depth)
		switch err {
		case nil, syscall.ENOENT:
			return nil
		case syscall.ENOTDIR: // another thing by now, or it was never one
		case syscall.ENOTEMPTY: // filled again
			refused = err
		default:
			return err
		}
	}
	return refused
}

// removeDirectory empties a directory and removes it.
func (r *remover) removeDirectory(dir int, name string, depth int) error {
	if err := unlinkat(dir, name, atRemoveDir); err != syscall.ENOTEMPTY && err != syscall.EACCES {
		return err
	}
	fd, err := openToEmpty(dir, name)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if depth == 0 { // what is moved up goes into what is removed
		r = &remover{top: fd}
	}
	if err := r.empty(fd, depth+1); err != nil {
		return err
	}
	return unlinkat(dir, name, atRemoveDir)
}

// openToEmpty opens a directory that is to be emptied. Its owner may have shut
// it.
func openToEmpty(dir int, name string) (int, error) {
	named, err := syscall.Openat(dir, name, oPath|oDirectory|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	t := target{fd: named}
	defer t.close()
	if err := syscall.Fstat(named, &t.stat); err != nil {
		return -1, err
	}
	if t.stat.Mode&0o700 != 0o700 {
		_ = syscall.Chmod(t.self(), 0o700) // or the next step says why not
	}
	return syscall.Open(t.self(), syscall.O_RDONLY|oDirectory|syscall.O_CLOEXEC, 0)
}

// empty removes all that a directory holds.
func (r *remover) empty(dir, depth int) error {
	for range maxTries {
		names, err := namesOf(dir)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if depth < deepestOpen {
				err = r.remove(dir, name, depth)
			} else {
				err = r.moveUp(dir, name)
			}
			if err != nil {
				return err
			}
		}
	}
	return syscall.ENOTEMPTY
}

// moveUp removes an entry, or moves it up when it is a directory with something
// in it.
func (r *remover) moveUp(dir int, name string) error {
	err := unlinkat(dir, name, 0)
	if err == syscall.EISDIR || err == syscall.EPERM {
		err = unlinkat(dir, name, atRemoveDir)
	}
	if err == syscall.ENOTEMPTY || err == syscall.EACCES {
		for err = syscall.EEXIST; err == syscall.EEXIST; {
			r.moved++
			err = renameNoReplace(dir, name, r.top, fmt.Sprintf("removed-%d", r.moved))
		}
	}
	if err == syscall.ENOENT {
		return nil
	}
	return err
}

// namesOf reads some names of a directory, from its beginning.
func namesOf(dir int) ([]string, error) {
	fd, err := syscall.Openat(dir, ".", syscall.O_RDONLY|oDirectory|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	names, err := f.Readdirnames(listPart)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}
