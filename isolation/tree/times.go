package tree

import "golang.org/x/sys/unix"

// setUtimes is the system's, which a test replaces by a file system's that keeps
// whole seconds.
var setUtimes = unix.UtimesNanoAt

// setTimes gives the copy the times of an entry. A file system that does not keep
// them so exactly, or so far from now, is a hazard and no error: what compares the
// times of files sees others than the tree has.
func (w *walker) setTimes(dst int, name string, flags int, src *directory, base string, st *unix.Stat_t) error {
	if err := setUtimes(dst, name, []unix.Timespec{st.Atim, st.Mtim}, flags); err != nil {
		return src.fault("set the times of", base, err)
	}
	kept, err := keptTime(dst, name, flags, st.Mtim)
	if err != nil {
		return src.fault("look at the times of", base, err)
	}
	if !kept {
		w.hazard("time of last change that the view's file system does not keep", src, base)
	}
	return nil
}

// keptTime tells whether what was set is there.
func keptTime(dst int, name string, flags int, set unix.Timespec) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dst, name, &st, flags)
	return st.Mtim == set, err
}

// KeepsTimes tells whether the file system of an open directory keeps when a file
// was changed last: the kernel of this machine writes it, once. One that is reached
// over a network, or a program's, may say another time later than it said first.
func KeepsTimes(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && timekeepers[int64(st.Type)]
}

// timekeepers are the types of these file systems.
var timekeepers = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true,
	unix.F2FS_SUPER_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true, 0x2fc12fc1: true, // ZFS
}
