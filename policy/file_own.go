package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// mostFile caps a policy file, in bytes.
const mostFile = 1 << 20

// FileFault is a policy file that is not read for what it is, whatever it holds.
type FileFault struct {
	Why error
	Do  string // what makes it one that is read
}

// Error says why it is not read.
func (f *FileFault) Error() string { return f.Why.Error() }

// Unwrap returns the cause.
func (f *FileFault) Unwrap() error { return f.Why }

// faultOf is a fault of a kind that no system call reports.
func faultOf(do, format string, args ...any) error {
	return &FileFault{Why: fmt.Errorf(format, args...), Do: do}
}

// unread is the failure of a system call on a policy file.
func unread(err error) error {
	if err == nil {
		return nil
	}
	do := "see to it that you can read it, or name another by --policy"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		do = "name one that is there"
	case errors.Is(err, fs.ErrPermission):
		do = "let yourself read it and search its directories (chmod u+r, chmod u+x)"
	}
	return &FileFault{Why: err, Do: do}
}

func readOwn(name string) ([]byte, error) {
	root, base, err := ownDirOf(name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(base, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unread(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, unread(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return nil, faultOf("name a regular file", "it is no regular file")
	case !ok || int(stat.Uid) != os.Geteuid():
		return nil, faultOf("make it yours (chown), or name one of your own by --policy", "another user owns it")
	case info.Mode().Perm()&0o022 != 0:
		return nil, faultOf("see that it says what you want, then make it yours alone (chmod go-w)", "others may write to it (mode %04o)", info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if err != nil {
		return nil, unread(err)
	}
	if len(text) > mostFile {
		return nil, faultOf("make it shorter", "it is larger than %d bytes", mostFile)
	}
	return text, nil
}

// ownDirOf opens the directory that a file lies in, every link followed, and
// returns the file's name in it. In that directory and in the one that it is named
// in nobody else may replace the file.
func ownDirOf(name string) (*os.Root, string, error) {
	named, err := os.Stat(filepath.Dir(name))
	if err != nil {
		return nil, "", unread(err)
	}
	if err := othersReplace(named); err != nil {
		return nil, "", err
	}
	resolved, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, "", unread(err)
	}
	root, err := os.OpenRoot(filepath.Dir(resolved))
	if err != nil {
		return nil, "", unread(err)
	}
	opened, err := root.Stat(".")
	if err == nil {
		err = othersReplace(opened)
	}
	if err != nil {
		root.Close()
		return nil, "", err
	}
	return root, filepath.Base(resolved), nil
}

// othersReplace tells by an error that others may put another file in the place
// of the user's own one in a directory. Root may everywhere, and in a sticky
// directory only root and who owns it or the file.
func othersReplace(dir fs.FileInfo) error {
	stat, ok := dir.Sys().(*syscall.Stat_t)
	switch {
	case !ok || stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return faultOf("move it into a directory of your own, or make that one yours (chown)", "another user owns its directory, and can put another file in its place")
	case dir.Mode().Perm()&0o022 != 0 && dir.Mode()&fs.ModeSticky == 0:
		return faultOf("see that it says what you want, then make the directory yours alone (chmod go-w)", "others may put another file in its place (its directory has mode %04o)", dir.Mode().Perm())
	}
	return nil
}

// danglingLink is the link that keeps a file from being there: the name itself or
// a directory of it; "" where none does.
func danglingLink(name string) string {
	for at := name; ; at = filepath.Dir(at) {
		if info, err := os.Lstat(at); err == nil {
			if info.Mode()&fs.ModeSymlink == 0 {
				return ""
			}
			if _, err := os.Stat(at); err == nil {
				return ""
			}
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}
