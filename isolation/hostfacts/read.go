package hostfacts

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// tree reads the small files of a host: its root directory, or one of a test.
type tree struct{ fs.FS }

// maxFile caps what is read of one file, in bytes. The largest are subuid and
// subgid of a directory service's users.
const maxFile = 16 << 20

// text returns a file, "" when it cannot be read.
func (t tree) text(name string) string {
	file, err := t.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	content, _ := io.ReadAll(io.LimitReader(file, maxFile))
	return strings.TrimRight(string(content), "\x00\n")
}

func (t tree) has(name string) bool {
	_, err := fs.Stat(t, name)
	return err == nil
}

// number returns the number in a file, -1 when there is none.
func (t tree) number(name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(t.text(name)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func (t tree) system() System {
	s := System{Kernel: strings.TrimSpace(t.text("proc/sys/kernel/osrelease")), Systemd: t.has("run/systemd/system"), Like: []string{}}
	release := t.text("etc/os-release")
	if release == "" {
		release = t.text("usr/lib/os-release")
	}
	osRelease(release, &s)
	s.WSL = strings.Contains(strings.ToLower(s.Kernel), "microsoft")
	switch {
	case t.has("run/.containerenv"):
		s.Container = "podman"
	case t.has(".dockerenv") && slices.Contains(overlays, fileSystemOf(mounts(t.text("proc/self/mountinfo")), "/")):
		// The file alone may be in a machine that was made of an image.
		s.Container = "docker"
	case t.has("run/systemd/container"):
		s.Container = strings.TrimSpace(t.text("run/systemd/container"))
	}
	if s.Container == "wsl" { // systemd's name for it; the kernel is its own
		s.Container = ""
	}
	return s
}

// local tells whether the user is in the host's own list of users.
func (t tree) local(name string) bool {
	for line := range strings.Lines(t.text("etc/passwd")) {
		if known, _, _ := strings.Cut(line, ":"); known == name {
			return name != ""
		}
	}
	return false
}

func (t tree) namespaces() Namespaces {
	n := Namespaces{
		UnprivilegedClone: int(t.number("proc/sys/kernel/unprivileged_userns_clone")),
		AppArmorRestrict:  int(t.number("proc/sys/kernel/apparmor_restrict_unprivileged_userns")),
		MaxUser:           t.number("proc/sys/user/max_user_namespaces"),
		None:              []string{},
	}
	for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "uts"} {
		name := "max_" + kind + "_namespaces"
		if t.number("proc/sys/user/"+name) == 0 {
			n.None = append(n.None, "user."+name)
		}
	}
	return n
}

func (t tree) ids() IDs {
	return IDs{
		FirstFree: firstFree(t.text("etc/subuid"), t.text("etc/subgid")),
		Source:    subidSource(t.text("etc/nsswitch.conf")),
	}
}

// cgroups finds the group that is delegated to the user: that of the user's
// systemd, else our own where it may be written.
func (t tree) cgroups(uid int, writable func(dir string) bool) Cgroups {
	c := Cgroups{Layout: layout(mounts(t.text("proc/self/mountinfo"))), Delegated: []string{}}
	if c.Layout != LayoutUnified {
		return c
	}
	const root = "sys/fs/cgroup"
	manager := path.Join(root, t.systemdGroup(), fmt.Sprintf("user.slice/user-%d.slice/user@%[1]d.service", uid))
	if c.UserManager = t.has(manager); c.UserManager {
		c.Delegated = controllers(t.text(manager + "/cgroup.controllers"))
		return c
	}
	// One whose group lies elsewhere runs all the same: this is its own socket.
	c.UserManager = t.has(fmt.Sprintf("run/user/%d/systemd/private", uid))
	if own := path.Join(root, path.Clean("/"+ownGroup(t.text("proc/self/cgroup")))); writable("/" + own) {
		c.Delegated = controllers(t.text(own + "/cgroup.controllers"))
	}
	return c
}

// systemdGroup is the group that systemd has all of its own below: the root, or where
// a host has several systemds another one, as of WSL 2.9 on. Its own process is in the
// group init.scope there.
func (t tree) systemdGroup() string {
	group, found := strings.CutSuffix(ownGroup(t.text("proc/1/cgroup")), "/init.scope")
	if !found {
		return ""
	}
	return path.Clean("/" + group)
}

func (t tree) security() Security {
	s := Security{
		Seccomp:  strings.Contains(t.text("proc/sys/kernel/seccomp/actions_avail"), "errno"),
		AppArmor: strings.HasPrefix(t.text("sys/module/apparmor/parameters/enabled"), "Y"),
	}
	switch t.number("sys/fs/selinux/enforce") {
	case 1:
		s.SELinux = "enforcing"
	case 0:
		s.SELinux = "permissive"
	}
	label := strings.TrimSpace(t.text("proc/self/attr/current"))
	if s.SELinux != "" {
		s.Context = label
	} else if s.AppArmor {
		s.Profile = label
	}
	return s
}
