package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
	"podgrade/isolation/tree"
)

// A cell's /etc/hosts is a file of ours, mounted over that of its root: so what a
// command wrote into it is not in the upper directory. A state layer has it all
// the same, as the file that it looked like, and the cell of a grade on that layer
// begins with it.
const hostsName = "hosts"

// maxHosts is the largest such file that is carried, in bytes.
const maxHosts = 1 << 20

// carryHosts puts the cell's /etc/hosts into a directory of the upper's kind,
// when it holds something else than at first. lost tells that it does, and that
// there is no place for it.
func (c *cell) carryHosts(ctx context.Context, upper int, first string) (lost bool, err error) {
	ours, err := openDirectory(filepath.Join(c.dir, "etc"))
	if err != nil {
		return false, err
	}
	defer unix.Close(ours)
	size, err := sizeIn(ours, hostsName)
	if err != nil || size > maxHosts {
		return true, nil
	}
	if same, err := holdsIn(ours, hostsName, first); err != nil || same {
		return false, err
	}
	etc, err := c.etcOf(upper)
	if err != nil {
		return true, nil // the agent, or the image, has something else there
	}
	defer unix.Close(etc)
	var before unix.Stat_t
	if err := unix.Fstat(etc, &before); err != nil {
		return false, err
	}
	if err := tree.CopyFile(ctx, ours, etc, hostsName); err != nil {
		return false, err
	}
	return false, unix.UtimesNanoAt(etc, "", []unix.Timespec{before.Atim, before.Mtim}, unix.AT_EMPTY_PATH)
}

// etcOf opens /etc of an upper directory, which is made like the image's where
// nothing in it has changed.
func (c *cell) etcOf(upper int) (int, error) {
	etc, err := openDirectoryAt(upper, "etc")
	if err != unix.ENOENT {
		return etc, err
	}
	err = c.withLower(func(lower int) error {
		image, err := openDirectoryAt(lower, "etc")
		if err != nil {
			return err
		}
		defer unix.Close(image)
		var st unix.Stat_t
		if err := unix.Fstat(upper, &st); err != nil {
			return err
		}
		if err := unix.Mkdirat(upper, "etc", 0o700); err != nil {
			return err
		}
		if etc, err = openDirectoryAt(upper, "etc"); err != nil {
			return err
		}
		err = tree.Like(image, etc, tree.Options{})
		return errors.Join(err, unix.UtimesNanoAt(upper, "", []unix.Timespec{st.Atim, st.Mtim}, unix.AT_EMPTY_PATH))
	})
	return etc, err
}

// giveHosts gives the cell of a grade the /etc/hosts that a state layer has, in
// place of the one in the directory etc.
func giveHosts(ctx context.Context, layer int, etc string) error {
	from, err := openDirectoryAt(layer, "etc")
	if err != nil {
		return nil // it has none
	}
	defer unix.Close(from)
	if size, err := sizeIn(from, hostsName); err != nil || size > maxHosts {
		return nil
	}
	to, err := openDirectory(etc)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	return tree.CopyFile(ctx, from, to, hostsName)
}

// giveHosts does so for a cell on a state layer.
func (c *cell) giveHosts(ctx context.Context) error {
	for _, l := range c.layers {
		if l.ours && l.link == states.InfoFile(filepath.Dir(l.dir)) {
			return inDirectory(l.dir, func(layer int) error { return giveHosts(ctx, layer, filepath.Join(c.dir, "etc")) })
		}
	}
	return nil
}

// withoutHosts are files that may be hollow: /etc/hosts is read from the layer.
func withoutHosts(sums []tree.FileSum) (left []tree.FileSum) {
	for _, sum := range sums {
		hosts := false
		for _, path := range sum.Paths {
			hosts = hosts || path == "etc/"+hostsName
		}
		if !hosts {
			left = append(left, sum)
		}
	}
	return left
}

func openDirectoryAt(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// sizeIn is the size of a regular file in a directory.
func sizeIn(dir int, name string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, errors.New("it is no regular file")
	}
	return st.Size, nil
}

// holdsIn tells whether a file in a directory holds that and nothing else.
func holdsIn(dir int, name, text string) (bool, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	held, err := io.ReadAll(io.LimitReader(file, int64(len(text))+1))
	return string(held) == text, err
}
