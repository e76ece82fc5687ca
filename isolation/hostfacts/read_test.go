package hostfacts

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func files(texts map[string]string) tree {
	m := fstest.MapFS{}
	for name, text := range texts {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree{m}
}

// Lines of mountinfo(5) as hosts have them.
const (
	rootExt4   = "20 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
	rootLayers = "20 1 0:51 / / rw,relatime - overlay overlay rw,lowerdir=x\n"
	homeNFS    = "30 20 0:41 / /home rw,relatime shared:1 - nfs4 server:/home rw\n"
	cgroupV1   = "34 33 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	cgroupV2   = "35 33 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	spaced     = `36 20 8:1 / /mnt/a\040b rw - xfs /dev/sda1 rw` + "\n"
)

func TestSystem(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  System
	}{
		"ubuntu": {
			map[string]string{"proc/sys/kernel/osrelease": "6.8.0-60-generic\n", "run/systemd/system/x": "",
				"etc/os-release": "PRETTY_NAME=\"Ubuntu 24.04.2 LTS\"\nID=ubuntu\nID_LIKE=debian\n"},
			System{Kernel: "6.8.0-60-generic", Name: "Ubuntu 24.04.2 LTS", ID: "ubuntu", Like: []string{"debian"}, Systemd: true},
		},
		"wsl": {
			map[string]string{"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n", "run/systemd/container": "wsl\n"},
			System{Kernel: "5.15.167.4-microsoft-standard-WSL2", WSL: true, Like: []string{}},
		},
		"docker": {
			map[string]string{".dockerenv": "", "proc/self/mountinfo": rootLayers},
			System{Container: "docker", Like: []string{}},
		},
		"a machine made of an image": {
			map[string]string{".dockerenv": "", "proc/self/mountinfo": rootExt4},
			System{Like: []string{}},
		},
		"podman": {
			map[string]string{"run/.containerenv": "", "usr/lib/os-release": "ID='fedora'\n"},
			System{Container: "podman", ID: "fedora", Like: []string{}},
		},
		"nspawn": {map[string]string{"run/systemd/container": "systemd-nspawn\n"}, System{Container: "systemd-nspawn", Like: []string{}}},
	} {
		if got := files(test.files).system(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	got := files(map[string]string{
		"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
		"proc/sys/user/max_user_namespaces":                     "28633\n",
		"proc/sys/user/max_net_namespaces":                      "0\n",
	}).namespaces()
	want := Namespaces{UnprivilegedClone: -1, AppArmorRestrict: 1, MaxUser: 28633, None: []string{"user.max_net_namespaces"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestIDsAndUsers(t *testing.T) {
	host := files(map[string]string{
		"etc/subuid": "dana:100000:65536\nerin:165536:65536\nbroken:x:1\nshort\n", "etc/subgid": "dana:100000:65536\n",
		"etc/nsswitch.conf": "passwd: files\nsubid:  sss # a directory\n",
		"etc/passwd":        "root:x:0:0::/root:/bin/sh\ndana:x:1000:1000::/home/dana:/bin/sh\n",
	})
	if got := host.ids(); got.FirstFree != 231072 || got.Source != "sss" {
		t.Errorf("ids: %+v", got)
	}
	if got := files(nil).ids(); got.FirstFree != lowestSubordinate || got.Source != "" {
		t.Errorf("ids without files: %+v", got)
	}
	for text, want := range map[string]string{"subid: files\n": "", "subid: files sss\n": "", "subid: sss files\n": "sss", "subid:\n": ""} {
		if got := files(map[string]string{"etc/nsswitch.conf": text}).ids().Source; got != want {
			t.Errorf("%q names %q", text, got)
		}
	}
	if !host.local("dana") || host.local("erin") || host.local("") {
		t.Error("local users are told wrongly")
	}
}

func TestCgroups(t *testing.T) {
	const manager = "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cgroup.controllers"
	own := map[string]string{"proc/self/mountinfo": rootExt4 + cgroupV2, "proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cgroup.controllers": "pids memory\n"}
	const inner = "sys/fs/cgroup/wsl-user/distro-2/systemd/user.slice/user-1000.slice/user@1000.service/cgroup.controllers"
	for name, test := range map[string]struct {
		files    map[string]string
		writable bool
		want     Cgroups
	}{
		"systemd below another group, as on WSL 2.9": {map[string]string{"proc/self/mountinfo": cgroupV2, "proc/1/cgroup": "0::/wsl-user/distro-2/systemd/init.scope\n", inner: "cpu memory pids\n"}, false,
			Cgroups{Layout: LayoutUnified, Delegated: []string{"cpu", "memory", "pids"}, UserManager: true}},
		"systemd somewhere else": {map[string]string{"proc/self/mountinfo": cgroupV2, "run/user/1000/systemd/private": ""}, false,
			Cgroups{Layout: LayoutUnified, Delegated: []string{}, UserManager: true}},
		"systemd": {map[string]string{"proc/self/mountinfo": rootExt4 + cgroupV2, manager: "cpu memory pids\n"}, false,
			Cgroups{Layout: LayoutUnified, Delegated: []string{"cpu", "memory", "pids"}, UserManager: true}},
		"own group":   {own, true, Cgroups{Layout: LayoutUnified, Delegated: []string{"memory", "pids"}}},
		"not our own": {own, false, Cgroups{Layout: LayoutUnified, Delegated: []string{}}},
		"hybrid":      {map[string]string{"proc/self/mountinfo": cgroupV1 + cgroupV2, manager: "pids\n"}, true, Cgroups{Layout: LayoutHybrid, Delegated: []string{}}},
		"legacy":      {map[string]string{"proc/self/mountinfo": cgroupV1}, true, Cgroups{Layout: LayoutLegacy, Delegated: []string{}}},
		"none":        {nil, true, Cgroups{Delegated: []string{}}},
	} {
		got := files(test.files).cgroups(1000, func(string) bool { return test.writable })
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestSecurity(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  Security
	}{
		"SELinux": {map[string]string{"sys/fs/selinux/enforce": "1", "proc/self/attr/current": "a:b:c:s0\x00", "proc/sys/kernel/seccomp/actions_avail": "kill errno allow\n"},
			Security{Seccomp: true, SELinux: "enforcing", Context: "a:b:c:s0"}},
		"permissive": {map[string]string{"sys/fs/selinux/enforce": "0"}, Security{SELinux: "permissive"}},
		"AppArmor": {map[string]string{"sys/module/apparmor/parameters/enabled": "Y\n", "proc/self/attr/current": "unconfined\n"},
			Security{AppArmor: true, Profile: "unconfined"}},
		"neither": {nil, Security{}},
	} {
		if got := files(test.files).security(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestFileSystemOf(t *testing.T) {
	all := mounts(rootExt4 + homeNFS + spaced + "nonsense\n")
	for path, want := range map[string]string{
		"/": "ext4", "/home": "nfs4", "/home/dana/x": "nfs4", "/homes": "ext4", "/mnt/a b/c": "xfs",
	} {
		if got := fileSystemOf(all, path); got != want {
			t.Errorf("%s is on %q, want %q", path, got, want)
		}
	}
	if got := fileSystemOf(mounts(rootExt4+rootLayers), "/x"); got != "overlay" {
		t.Errorf("the later of two mounts is hidden: %q", got)
	}
}

func TestReadPlace(t *testing.T) {
	dir := t.TempDir()
	p := ReadPlace(dir + "/not/yet/there")
	if p.Problem != "" || p.FileSystem == "" || p.Device == 0 || p.FreeBytes == 0 {
		t.Errorf("place: %+v", p)
	}
	if p := ReadPlace("relative"); p.Problem == "" {
		t.Errorf("place: %+v", p)
	}
	if p := ReadPlace("/proc/self/status/x"); p.Problem == "" {
		t.Errorf("place below a file: %+v", p)
	}
}

// FuzzFiles: a host's files hold what anybody wrote.
func FuzzFiles(f *testing.F) {
	for _, seed := range []string{"", rootExt4 + homeNFS + spaced, "a:1:4294967296\n", "dana:100000:65536", "subid: sss", `ID="x`, "0::/../..", "1 2 3 4 \\9 - x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host := files(map[string]string{
			"etc/os-release": text, "etc/subuid": text, "etc/subgid": text, "etc/nsswitch.conf": text, "etc/passwd": text,
			"proc/self/mountinfo": text + cgroupV2, "proc/self/cgroup": text, "proc/1/cgroup": text + "/init.scope", "proc/sys/user/max_user_namespaces": text,
		})
		if id := host.ids(); id.FirstFree < lowestSubordinate {
			t.Errorf("a range would start at %d", id.FirstFree)
		}
		host.system()
		host.namespaces()
		host.local(text)
		host.cgroups(0, func(dir string) bool {
			if !strings.HasPrefix(dir, "/sys/fs/cgroup") {
				t.Errorf("asks about %q", dir)
			}
			return true
		})
		all := mounts(text)
		if len(all) > 0 && !slices.ContainsFunc(all, func(m mount) bool { return m.fileSystem != "" }) {
			t.Error("a mount has no file system")
		}
		fileSystemOf(all, "/a/b")
	})
}
