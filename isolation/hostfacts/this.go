package hostfacts

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ReadThis reads the facts of this host that need no program to be started:
// all but those of Podman, of the runtimes' versions, of the store and of the
// worker. scratch is podgrade's scratch directory.
func ReadThis(scratch string) Facts {
	root := tree{os.DirFS("/")}
	f := Facts{
		System:     root.system(),
		User:       thisUser(),
		Namespaces: root.namespaces(),
		IDs:        root.ids(),
		Scratch:    ReadPlace(scratch),
		Cgroups:    root.cgroups(os.Getuid(), writable),
		Network:    network(),
		Security:   root.security(),
	}
	f.System.Arch = runtime.GOARCH
	f.User.Local = root.local(f.User.Name)
	f.System.Openat2 = hasOpenat2()
	f.IDs.NewUIDMap, f.IDs.NewGIDMap = mapper("newuidmap"), mapper("newgidmap")
	if f.IDs.Source != "" {
		f.IDs.GetSubIDs, _ = exec.LookPath("getsubids")
	}
	f.Security.Landlock = landlock()
	f.Install.Program, _ = os.Executable()
	return f
}

// SubordinateSource is what nsswitch.conf of this host names for subordinate ids, "" for
// the files.
func SubordinateSource() string {
	return subidSource(tree{os.DirFS("/")}.text("etc/nsswitch.conf"))
}

func thisUser() User {
	u := User{UID: os.Getuid(), Name: os.Getenv("USER"), Home: os.Getenv("HOME")}
	if known, err := user.LookupId(strconv.Itoa(u.UID)); err == nil {
		u.Name = known.Username
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		u.RuntimeDir = ReadPlace(dir)
		var st unix.Stat_t
		switch err := unix.Stat(dir, &st); {
		case err != nil:
			u.RuntimeDir.Problem = err.Error()
		case int(st.Uid) != u.UID:
			u.RuntimeDir.Problem = "it belongs to another user"
		}
	}
	nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	u.NoNewPrivs = err == nil && nnp == 1
	return u
}

// noFileLimit stands for the free files of a file system that does not count
// them, as btrfs does not.
const noFileLimit = 1 << 31

// ReadPlace describes the directory, or the nearest one above it that exists.
func ReadPlace(dir string) Place {
	p := Place{Path: dir}
	at, err := existing(dir)
	if err != nil {
		p.Problem = reason(err)
		return p
	}
	p.FileSystem = fileSystemOf(mounts(tree{os.DirFS("/")}.text("proc/self/mountinfo")), at)
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		p.Problem = err.Error()
		return p
	}
	p.NoExec, p.ReadOnly = st.Flags&unix.ST_NOEXEC != 0, st.Flags&unix.ST_RDONLY != 0
	p.FreeBytes, p.FreeFiles = st.Bavail*uint64(st.Bsize), st.Ffree
	if st.Files == 0 {
		p.FreeFiles = noFileLimit
	}
	var info unix.Stat_t
	if unix.Stat(at, &info) == nil {
		p.Device = info.Dev
	}
	if !p.ReadOnly && !writable(at) {
		p.Problem = at + " cannot be written"
	}
	p.Label = attribute(at, "security.selinux")
	return p
}

// ReadStore describes the directory of Podman's images.
func ReadStore(root string) Place {
	p := ReadPlace(root)
	// The label that counts is that of what images are made of.
	if label := attribute(filepath.Join(root, "overlay"), "security.selinux"); label != "" {
		p.Label = label
	}
	return p
}

// existing resolves the path, or the nearest directory above it.
func existing(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", errors.New("it is no absolute path")
	}
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		at, err := filepath.EvalSymlinks(dir)
		if err == nil || !errors.Is(err, os.ErrNotExist) || dir == "/" {
			return at, err
		}
	}
}

// reason is an error without the path, which the place names already.
func reason(err error) string {
	var failed *os.PathError
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return err.Error()
}

func writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }

func attribute(path, name string) string {
	value := make([]byte, 256)
	n, err := unix.Getxattr(path, name, value)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(value[:n]), "\x00")
}

func hasOpenat2() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

func mapper(name string) Mapper {
	path, err := exec.LookPath(name)
	if err != nil {
		return Mapper{}
	}
	m := Mapper{Path: path, Capability: attribute(path, "security.capability") != ""}
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil {
		m.SetUID = st.Mode&unix.S_ISUID != 0 && st.Uid == 0
	}
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) == nil {
		m.NoSUID = fs.Flags&unix.ST_NOSUID != 0
	}
	return m
}

func network() Network {
	var n Network
	n.Pasta, _ = exec.LookPath("pasta")
	n.Slirp, _ = exec.LookPath("slirp4netns")
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		n.Tun = err.Error()
		return n
	}
	unix.Close(fd)
	return n
}

// landlock asks the kernel for the version of its interface.
func landlock() int {
	const askVersion = 1
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, askVersion)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// MountPoints are the directories on which something is mounted, but for the
// root directory.
func MountPoints() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var points []string
	for _, m := range mounts(string(text)) {
		if m.point != "/" {
			points = append(points, m.point)
		}
	}
	return points, nil
}
