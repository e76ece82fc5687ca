package worker

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"podgrade/oci"
)

// maxUserFile caps what is read of /etc/passwd and /etc/group of an image, in
// bytes: both together stay below the size of a message.
const maxUserFile = 48 << 10

// factsOf reads what the specification needs to know of the image, resolving
// every path inside it.
func factsOf(dir string) (*RootFacts, error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the image's root: %w", err)
	}
	defer unix.Close(root)
	f := &RootFacts{Path: dir}
	f.Passwd = readInRoot(root, "etc/passwd")
	f.Group = readInRoot(root, "etc/group")
	f.Shell = programInRoot(root, "bin/sh")
	f.Mtab = existsInRoot(root, "etc/mtab")
	f.Work = existsInRoot(root, oci.WorkPath)
	return f, nil
}

// existsInRoot tells whether there is anything at a path, were it a link that
// leads nowhere.
func existsInRoot(root int, path string) bool {
	fd, err := openInRoot(root, path, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// openInRoot opens a path as a process whose root is the given directory
// would, links and all.
func openInRoot(root int, path string, flags uint64) (int, error) {
	return unix.Openat2(root, path, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// readInRoot returns a file's first bytes, none when it cannot be read: an
// image without users is no error.
func readInRoot(root int, path string) []byte {
	fd, err := openInRoot(root, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(file, maxUserFile))
	return text
}

func programInRoot(root int, path string) bool {
	fd, err := openInRoot(root, path, unix.O_PATH)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0
}

// programsInRoot finds programs of an image by name on its PATH, or by path.
func programsInRoot(root int, searchPath string, names []string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		places := []string{name}
		if !path.IsAbs(name) {
			places = nil
			for _, dir := range strings.Split(cmp.Or(searchPath, usualPath), ":") {
				if path.IsAbs(dir) {
					places = append(places, path.Join(dir, name))
				}
			}
		}
		for _, place := range places {
			if programInRoot(root, place) {
				found[name] = place
				break
			}
		}
	}
	return found
}

// home finds the directory that commands get as HOME: the user's own when it
// can write there, else one that we make.
func (c *cell) home(r Request, answer *Reply) error {
	user := r.User
	if user == nil {
		return errors.New("a home needs a user")
	}
	root, err := c.openRoot()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := makeWork(root); err != nil {
		return err
	}
	if r.Create {
		c.create = true
		if err := makeTaskDir(root, user); err != nil {
			return err
		}
	}
	if r.WorkingDir != "" {
		if err := makeWorkingDir(root, r.WorkingDir, user); err != nil {
			return err
		}
	}
	if filepath.IsAbs(user.Home) && writableInRoot(root, user.Home, user) {
		answer.Path = user.Home
		return nil
	}
	answer.Path = oci.FallbackHomePath
	return makeOwned(root, oci.FallbackHomePath, 0o700, user)
}

// writableInRoot asks by mode bits alone: the cell's user has no capability
// that would override them.
func writableInRoot(root int, path string, user *oci.User) bool {
	fd, err := openInRoot(root, path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	const writeAndEnter = 0o3
	bits := st.Mode
	switch {
	case st.Uid == user.UID:
		bits >>= 6
	case st.Gid == user.GID || slices.Contains(user.Groups, st.Gid):
		bits >>= 3
	}
	return bits&writeAndEnter == writeAndEnter
}

// makeWork makes the parent of all that is mounted for tasks. The runtime would
// make it too, crun with a sticky bit.
func makeWork(root int) error {
	if err := unix.Mkdirat(root, strings.Trim(oci.WorkPath, "/"), 0o755); err != nil && err != unix.EEXIST {
		return fmt.Errorf("make %s: %w", oci.WorkPath, err)
	}
	return nil
}

// makeOwned makes a directory of the user's own in an existing one.
func makeOwned(root int, path string, mode uint32, user *oci.User) error {
	parent, name := filepath.Split(path)
	dir, err := openInRoot(root, parent, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer unix.Close(dir)
	if err := unix.Mkdirat(dir, name, mode); err != nil && err != unix.EEXIST {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return unix.Fchownat(dir, name, int(user.UID), int(user.GID), unix.AT_SYMLINK_NOFOLLOW)
}
