package supervisor

import (
	"fmt"
	"path"
	"strings"
	"syscall"

	"podgrade/isolation/protocol"
)

// parentMode is the mode of a directory that is made to put something into it.
const parentMode = 0o755

// put carries OpPut out.
func (s *supervisor) put(p *protocol.Path, what *protocol.Put, in *inbox) protocol.Answer {
	d, failure := s.paths.parent(p, true)
	if failure != nil {
		return protocol.Answer{Failure: failure}
	}
	defer d.close()
	var err error
	switch {
	case what.Type == protocol.Directory:
		err = d.putDirectory(what)
	case d.name == ".":
		err = syscall.EISDIR
	case what.Type == protocol.Regular:
		err = d.putFile(what, in)
	default:
		err = d.putLink(what)
	}
	if err != nil {
		return failed(classifyPut(err), "put %q below %q: %v", p.Name, p.Base, err)
	}
	return protocol.Answer{}
}

// classifyPut sorts an error of a place that something was to be put at. That
// there is something else in the way is no lack of a file.
func classifyPut(err error) protocol.FailureKind {
	switch errno(err) {
	case syscall.EISDIR, syscall.EEXIST, syscall.ENOTDIR, syscall.ENOTEMPTY:
		return protocol.NotDir
	}
	return classify(err)
}

// place is an entry of a directory below a base. The descriptor only names the
// directory, so that it stays the same whatever is renamed.
type place struct {
	fd   int
	name string // of the entry; "." is the directory itself, which is the base
}

func (d *place) close() { syscall.Close(d.fd) }

// parent finds the directory of the entry that a request names, and makes what
// leads to it when make says so. Links are followed as long as they stay below
// the base, but not the last part of the name.
func (r *resolver) parent(p *protocol.Path, make bool) (*place, *protocol.Failure) {
	if !strings.HasPrefix(p.Base, "/") {
		return nil, failed(protocol.Broken, "resolve %q: its base %q is not absolute", p.Name, p.Base).Failure
	}
	if strings.ContainsRune(p.Name, 0) {
		return nil, failed(protocol.NotExist, "resolve %q: no file can have this name", p.Name).Failure
	}
	base, err := r.open(p.Base, oDirectory)
	if err != nil {
		return nil, failed(classify(err), "open the base %q: %v", p.Base, err).Failure
	}
	name, ok := relative(p.Base, p.Name)
	if !ok {
		base.close()
		return nil, failed(protocol.Escapes, "%q is not below %q", p.Name, p.Base).Failure
	}
	dir, last := path.Split(name)
	if dir == "" {
		return &place{fd: base.fd, name: last}, nil
	}
	defer base.close()
	fd, err := base.below(path.Clean(dir), make)
	if err == syscall.EXDEV {
		return nil, failed(protocol.Escapes, "%q leads out of %q", p.Name, p.Base).Failure
	}
	if err != nil {
		return nil, failed(classify(err), "open the directory of %q below %q: %v", p.Name, p.Base, err).Failure
	}
	return &place{fd: fd, name: last}, nil
}

// relative is a clean name as seen from base; false when it leads out of it.
func relative(base, name string) (string, bool) {
	if strings.HasPrefix(name, "/") {
		if name, base = path.Clean(name), path.Clean(base); !within(name, base) {
			return "", false
		}
		name = strings.TrimPrefix(strings.TrimPrefix(name, base), "/")
	}
	name = path.Clean(name)
	return name, name != ".." && !strings.HasPrefix(name, "../")
}

// below opens a directory below this one, with resolution held below it by the
// kernel, and makes it first when make says so.
func (t *target) below(name string, make bool) (int, error) {
	fd, err := t.openBelow(name)
	if err != syscall.ENOENT || !make {
		return fd, err
	}
	made, up := "", t.fd
	for _, part := range strings.Split(name, "/") {
		made = path.Join(made, part)
		err = syscall.Mkdirat(up, part, parentMode)
		if up != t.fd {
			syscall.Close(up)
		}
		if err != nil && err != syscall.EEXIST {
			return -1, err
		}
		if up, err = t.openBelow(made); err != nil {
			return -1, err
		}
	}
	return up, nil
}

// openBelow opens a directory below this one only to name it. The kernel asks
// to be asked again when something was renamed meanwhile.
func (t *target) openBelow(name string) (int, error) {
	held := uint64(resolveBeneath)
	if t.path == "/" { // below it is everything, by absolute links too
		held = resolveInRoot
	}
	for tries := 0; ; tries++ {
		fd, err := openat2(t.fd, name, oPath|oDirectory, held|resolveNoMagiclinks)
		if err != syscall.EAGAIN || tries == maxTries {
			return fd, err
		}
	}
}

// maxTries bounds how often something is tried again that others may spoil.
const maxTries = 1000

// putFile writes the content beside the place, and moves it there when it is
// whole: what is read at the place is never half of it.
func (d *place) putFile(what *protocol.Put, in *inbox) error {
	fd, beside, err := d.create()
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	err = in.each(func(chunk []byte) error { return writeAll(fd, chunk) })
	if err == nil {
		err = syscall.Fchmod(fd, what.Mode)
	}
	if err == nil {
		err = setTime(d.fd, beside, what, atSymlinkNoFollow)
	}
	if err == nil {
		err = syscall.Renameat(d.fd, beside, d.fd, d.name)
	}
	if err != nil {
		_ = unlinkat(d.fd, beside, 0)
	}
	return err
}

// besideName is what a file is called while it is written, with a number.
const besideName = ".podgrade-put-"

// create makes an empty file beside the place, under a name that is free.
func (d *place) create() (fd int, name string, err error) {
	for i := range maxTries {
		name = fmt.Sprintf("%s%d", besideName, i)
		fd, err = syscall.Openat(d.fd, name, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_CLOEXEC, 0o600)
		if err != syscall.EEXIST {
			break
		}
	}
	return fd, name, err
}

// putLink makes the link beside the place, and moves it there.
func (d *place) putLink(what *protocol.Put) error {
	name, err := "", error(nil)
	for i := range maxTries {
		name = fmt.Sprintf("%s%d", besideName, i)
		if err = symlinkat(what.Target, d.fd, name); err != syscall.EEXIST {
			break
		}
	}
	if err != nil {
		return err
	}
	if err = setTime(d.fd, name, what, atSymlinkNoFollow); err == nil {
		err = syscall.Renameat(d.fd, name, d.fd, d.name)
	}
	if err != nil {
		_ = unlinkat(d.fd, name, 0)
	}
	return err
}

// putDirectory makes the directory, or takes the one that is there.
func (d *place) putDirectory(what *protocol.Put) error {
	if err := syscall.Mkdirat(d.fd, d.name, what.Mode); err != nil && err != syscall.EEXIST {
		return err
	}
	fd, err := syscall.Openat(d.fd, d.name, oPath|oDirectory|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := target{fd: fd}
	defer dir.close()
	if err := syscall.Fstat(fd, &dir.stat); err != nil {
		return err
	}
	if dir.stat.Mode&0o7777 != what.Mode { // a set-id bit needs a second call anyway
		if err := syscall.Chmod(dir.self(), what.Mode); err != nil {
			return err
		}
	}
	return setTime(atFDCWD, dir.self(), what, 0)
}

// setTime sets the time of what was made.
func setTime(dir int, name string, what *protocol.Put, flags int) error {
	if what.ModTime.IsZero() {
		return nil
	}
	return utimensat(dir, name, [2]syscall.Timespec{{Nsec: utimeOmit}, {Sec: what.ModTime.Unix(), Nsec: int64(what.ModTime.Nanosecond())}}, flags)
}

// writeAll writes all of data.
func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := syscall.Write(fd, data)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
