package hostfacts

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded reads the facts of a host in testdata.
func recorded(t testing.TB, name string) Facts {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f, err := Record{Reader: file}.Facts(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func finding(t *testing.T, f Facts, check string) Finding {
	t.Helper()
	report := Examine(f)
	i := slices.IndexFunc(report.Checks, func(c Finding) bool { return c.Check == check })
	if i < 0 {
		t.Fatalf("there is no check %q", check)
	}
	return report.Checks[i]
}

// TestEachFactCounts changes one fact of a good host at a time.
func TestEachFactCounts(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Facts)
		check  string
		status Status
		do     string // part of the remedy
	}{
		{"root without ids", func(f *Facts) { f.User.UID, f.Root = 0, &Root{Problem: "none are free"} }, "user", Broken, "sudo usermod --add-subuids 165536-231071 --add-subgids 165536-231071 root"},
		{"root of a container", func(f *Facts) { f.User.UID, f.Root = 0, &Root{Mounts: "operation not permitted"} }, "user", Broken, "as root of the host (not of a container)"},
		{"root with vfs", func(f *Facts) { f.User.UID, f.Root, f.Podman.Driver = 0, &Root{First: 1 << 20}, "vfs" }, "storage driver", Degraded, `runroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n' > /etc/containers/storage.conf`},
		{"root's images on NFS", func(f *Facts) { f.User.UID, f.Root, f.Store.FileSystem = 0, &Root{First: 1 << 20}, "nfs4" }, "store", Broken, `runroot = "/run/containers/storage"\ngraphroot = "DIR/storage"\n' > /etc/containers/storage.conf`},
		{"a storage.conf that is there", func(f *Facts) { f.Podman.Driver = "vfs" }, "storage driver", Degraded, "cp -n ~/.config/containers/storage.conf ~/.config/containers/storage.conf.bak"},
		{"no worker program", func(f *Facts) { f.Install.Problem = "gone" }, "installation", Broken, "make install"},
		{"old kernel", func(f *Facts) { f.System.Openat2 = false }, "kernel", Broken, "5.6"},
		{"user namespaces off", func(f *Facts) { f.Namespaces.MaxUser = 0 }, "user namespaces", Broken, "user.max_user_namespaces=28633"},
		{"Debian's switch", func(f *Facts) { f.Namespaces.UnprivilegedClone = 0 }, "user namespaces", Broken, "kernel.unprivileged_userns_clone=1"},
		{"no network namespaces", func(f *Facts) { f.Namespaces.None = []string{"user.max_net_namespaces"} }, "user namespaces", Broken, "user.max_net_namespaces=28633"},
		{"a setting of a container's host", func(f *Facts) { f.System.Container, f.Namespaces.MaxUser = "docker", 0 }, "user namespaces", Broken, "to set user.max_user_namespaces=28633 on its host"},
		{"worker denied by a module", func(f *Facts) { f.Worker = Worker{Tried: true, Problem: "denied", Denied: true} }, "user namespaces", Broken, "dmesg"},
		{"nested denied", func(f *Facts) { f.Worker.Nested = "no space left on device" }, "user namespaces", Broken, "user.max_user_namespaces"},
		{"AppArmor", func(f *Facts) {
			f.Namespaces.AppArmorRestrict, f.Worker = 1, Worker{Tried: true, Problem: "denied"}
		}, "user namespaces", Broken, `profile podgrade "/usr/local/bin/podgrade" flags=(unconfined) {\n  userns,`},
		{"AppArmor of a container's host", func(f *Facts) {
			f.System.Container, f.Namespaces.AppArmorRestrict, f.Worker = "docker", 1, Worker{Tried: true, Problem: "denied"}
		}, "user namespaces", Broken, "seccomp=unconfined, apparmor=unconfined and systempaths=unconfined"},
		{"a container of Podman's", func(f *Facts) { f.System.Container, f.Worker = "podman", Worker{Tried: true, Problem: "denied"} }, "user namespaces", Broken, "unmask=ALL"},
		{"another container", func(f *Facts) { f.System.Container, f.Worker = "lxc", Worker{Tried: true, Problem: "denied"} }, "user namespaces", Broken, "unmasked /proc"},
		{"no ids", func(f *Facts) { f.IDs.Groups = 0 }, "subordinate ids", Broken, "sudo usermod --add-subuids 165536-231071 --add-subgids 165536-231071 dana"},
		{"few ids", func(f *Facts) { f.IDs.Users = 1000 }, "subordinate ids", Degraded, "podman system migrate"},
		{"a directory's user", func(f *Facts) { f.IDs.Users, f.User.Local = 0, false }, "subordinate ids", Broken, "echo dana:165536:65536 | sudo tee -a /etc/subuid /etc/subgid # accounts of the directory may have these ids"},
		{"ids of another source", func(f *Facts) { f.IDs.Users, f.IDs.Source, f.IDs.GetSubIDs = 0, "sss", "/usr/bin/getsubids" }, "subordinate ids", Broken, "getsubids dana; getsubids -g dana # what \"sss\" gives; FreeIPA: ipa subid-generate --owner=dana\nor let the two files count: say `subid: files` in /etc/nsswitch.conf\necho dana:165536:65536"},
		{"nothing to ask that source", func(f *Facts) { f.IDs.Users, f.IDs.Source = 0, "sss" }, "subordinate ids", Broken, "sudo apt-get install uidmap\ngetsubids dana"},
		{"the same on RHEL", func(f *Facts) { f.System.ID, f.IDs.Users, f.IDs.Source = "rhel", 0, "sss" }, "subordinate ids", Broken, "sudo dnf install shadow-utils-subid"},
		{"an evil name", func(f *Facts) { f.IDs.Users, f.User.Name = 0, "a';reboot;'" }, "subordinate ids", Broken, `'a'\'';reboot;'\'''`},
		{"no newgidmap", func(f *Facts) { f.IDs.NewGIDMap = Mapper{} }, "newuidmap", Broken, "sudo apt-get install uidmap"},
		{"newuidmap without rights", func(f *Facts) { f.IDs.NewUIDMap.SetUID = false }, "newuidmap", Broken, "--reinstall uidmap"},
		{"the same on Fedora", func(f *Facts) { f.System.ID, f.IDs.NewUIDMap.SetUID = "fedora", false }, "newuidmap", Broken, "sudo rpm --restore shadow-utils"},
		{"the same elsewhere", func(f *Facts) { f.System.ID, f.IDs.NewUIDMap.SetUID = "void", false }, "newuidmap", Broken, "cap_setuid+ep"},
		{"nosuid", func(f *Facts) { f.IDs.NewUIDMap.NoSUID = true }, "newuidmap", Broken, "nosuid"},
		{"no_new_privs", func(f *Facts) { f.User.NoNewPrivs = true }, "newuidmap", Broken, "NoNewPrivileges=no"},
		{"no runtime directory", func(f *Facts) { f.User.RuntimeDir = Place{} }, "runtime directory", Degraded, "/run/user/1000"},
		{"the same with systemd", func(f *Facts) { f.User.RuntimeDir, f.System.Systemd = Place{}, true }, "runtime directory", Degraded, "machinectl shell dana@` (su and sudo make none)\nor in this shell: sudo loginctl enable-linger dana && export XDG_RUNTIME_DIR=/run/user/1000"},
		{"no Podman", func(f *Facts) { f.Podman = Podman{} }, "podman", Broken, "sudo apt-get install podman crun uidmap"},
		{"no Podman on SUSE", func(f *Facts) { f.Podman, f.System.ID, f.System.Like = Podman{}, "opensuse-leap", []string{"suse"} }, "podman", Broken, "sudo zypper install podman crun shadow"},
		{"old Podman", func(f *Facts) { f.Podman.Version = "3.4.4" }, "podman", Degraded, "4.3.1"},
		{"a Podman that does not answer", func(f *Facts) { f.Podman.Silent, f.Podman.Driver = "20s", "" }, "podman", Degraded, "podman info"},
		{"a store that nobody told of", func(f *Facts) { f.Podman.Silent, f.Podman.Driver = "20s", "" }, "storage driver", Unknown, "run podgrade doctor again"},
		{"the client of another Podman", func(f *Facts) { f.Podman.Remote, f.Podman.Driver = true, "" }, "podman", Broken, "remote = true"},
		{"a Podman that fails", func(f *Facts) { f.Podman.Problem = "database is locked" }, "podman", Broken, "podman info"},
		{"only runc", func(f *Facts) { f.Runtimes = f.Runtimes[1:] }, "runtime", Degraded, "install crun"},
		{"a runtime that does not start", func(f *Facts) { f.Runtimes[0].Version = "" }, "runtime", Broken, "crun --version"},
		{"a runtime that does not answer", func(f *Facts) { f.Runtimes[0].Version, f.Runtimes[0].Late = "", "20s" }, "runtime", Degraded, "crun --version"},
		{"no runtime", func(f *Facts) { f.Runtimes = nil }, "runtime", Broken, "install crun"},
		{"vfs", func(f *Facts) { f.Podman.Driver = "vfs" }, "storage driver", Degraded, "podman system reset"},
		{"fuse-overlayfs", func(f *Facts) { f.Podman.MountProgram = "/usr/bin/fuse-overlayfs" }, "storage driver", Broken, "mount_program"},
		{"images on NFS", func(f *Facts) { f.Store.FileSystem = "nfs4" }, "store", Broken, "graphroot"},
		{"images on an overlay", func(f *Facts) { f.Store.FileSystem = "overlay" }, "store", Broken, "volume"},
		{"images in memory", func(f *Facts) { f.Store.FileSystem = "tmpfs" }, "store", Degraded, "graphroot"},
		{"scratch on an overlay", func(f *Facts) { f.Scratch.FileSystem = "overlay" }, "scratch", Broken, "--scratch"},
		{"scratch on Lustre", func(f *Facts) { f.Scratch.FileSystem = "lustre" }, "scratch", Broken, "--scratch"},
		{"noexec", func(f *Facts) { f.Scratch.NoExec = true }, "scratch", Broken, "--scratch"},
		{"read-only", func(f *Facts) { f.Scratch.ReadOnly = true }, "scratch", Broken, "--scratch"},
		{"another's scratch", func(f *Facts) { f.Scratch.Problem = "cannot be written" }, "scratch", Broken, "XDG_DATA_HOME"},
		{"scratch in memory", func(f *Facts) { f.Scratch.FileSystem = "tmpfs" }, "scratch", Degraded, "--scratch"},
		{"scratch elsewhere", func(f *Facts) { f.Scratch.Device++ }, "scratch", Degraded, "on the file system of /home/dana/.local/share/containers/storage with --scratch DIR"},
		{"both on NFS", func(f *Facts) { f.Scratch.FileSystem, f.Store.FileSystem = "nfs4", "nfs4"; f.Scratch.Device++ }, "scratch", Broken, "on a local file system with --scratch DIR"},
		{"no overlay", func(f *Facts) { f.Worker.Overlay = "operation not permitted" }, "overlay", Broken, "5.11"},
		{"a full disk", func(f *Facts) { f.Scratch.FreeBytes = 1 << 20 }, "disk", Broken, "podgrade gc"},
		{"a disk that fills", func(f *Facts) { f.Scratch.FreeBytes = 2 << 30 }, "disk", Degraded, "podman image prune"},
		{"no more files", func(f *Facts) { f.Scratch.FreeFiles = 10 }, "disk", Degraded, "podgrade gc"},
		{"v1", func(f *Facts) { f.Cgroups.Layout, f.System.Systemd = LayoutLegacy, true }, "control groups", Degraded, "systemd.unified_cgroup_hierarchy=1"},
		{"v1 on RHEL", func(f *Facts) { f.Cgroups.Layout, f.System.Systemd, f.System.ID = LayoutLegacy, true, "rhel" }, "control groups", Degraded, "grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1"},
		{"v1 on SUSE", func(f *Facts) {
			f.Cgroups.Layout, f.System.Systemd, f.System.ID = LayoutLegacy, true, "opensuse"
		}, "control groups", Degraded, "sudo grub2-mkconfig -o /boot/grub2/grub.cfg && sudo reboot"},
		{"v1 elsewhere", func(f *Facts) { f.Cgroups.Layout, f.System.Systemd, f.System.ID = LayoutLegacy, true, "void" }, "control groups", Degraded, "as the boot loader of this distribution takes it"},
		{"v1 on WSL", func(f *Facts) { f.System.WSL, f.System.Systemd = true, true }, "control groups", Degraded, "wsl.exe --update # from 2.5.1 on"},
		{"a container on WSL", func(f *Facts) { f.System.WSL, f.System.Container = true, "docker" }, "control groups", Degraded, "ask whoever runs the outer container: the layout"},
		{"a container without controllers", func(f *Facts) { f.System.Container, f.Cgroups.Layout = "docker", LayoutUnified }, "control groups", Degraded, "ask whoever runs the outer container for a control group that this user may write"},
		{"a system in a container", func(f *Facts) {
			f.System.Container, f.System.Systemd, f.Cgroups = "lxc", true, Cgroups{Layout: LayoutUnified}
		}, "control groups", Degraded, "enable-linger dana"},
		{"no cpu controller", func(f *Facts) {
			f.System.Systemd, f.Cgroups = true, Cgroups{Layout: LayoutUnified, Delegated: []string{"memory", "pids"}, UserManager: true}
		}, "control groups", Degraded, "Delegate=cpu cpuset io memory pids\\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf\nsudo systemctl daemon-reload # then log in anew; reboot if the user lingers"},
		{"no session", func(f *Facts) { f.System.Systemd, f.Cgroups = true, Cgroups{Layout: LayoutUnified} }, "control groups", Degraded, "enable-linger dana"},
		{"no systemd", func(f *Facts) { f.Cgroups = Cgroups{Layout: LayoutUnified} }, "control groups", Degraded, "cgroup.procs"},
		{"no pasta", func(f *Facts) { f.Network = Network{} }, "network", Degraded, "sudo apt-get install passt"},
		{"no tun", func(f *Facts) { f.Network.Tun = "no such device" }, "network", Degraded, "sudo modprobe tun"},
		{"no tun in a container", func(f *Facts) { f.System.Container, f.Network.Tun = "docker", "no such file or directory" }, "network", Degraded, "ask whoever runs the outer container for the device: --device /dev/net/tun"},
		{"no seccomp", func(f *Facts) { f.Security.Seccomp = false }, "seccomp", Broken, "CONFIG_SECCOMP_FILTER"},
		{"no Landlock", func(f *Facts) { f.Security.Landlock = 0 }, "landlock", Degraded, "lsm="},
		{"old Landlock", func(f *Facts) { f.Security.Landlock = 1 }, "landlock", Degraded, "use a kernel of 5.19 or later"},
		{"a kernel before Landlock", func(f *Facts) { f.Security.Landlock, f.System.Kernel = 0, "5.10.0-32-amd64" }, "landlock", Degraded, "use a kernel of 5.19 or later that is built with Landlock"},
		{"RHEL before Landlock", func(f *Facts) {
			f.Security.Landlock, f.System.ID, f.System.Kernel = 0, "rhel", "5.14.0-503.40.1.el9_5.x86_64"
		}, "landlock", Degraded, "sudo dnf upgrade && sudo reboot # RHEL 9 and its rebuilds have Landlock from 9.6 on"},
		{"RHEL with Landlock", func(f *Facts) {
			f.Security.Landlock, f.System.ID, f.System.Kernel = 0, "rhel", "5.14.0-570.12.1.el9_6.x86_64"
		}, "landlock", Degraded, "lsm="},
		{"another kernel on RHEL", func(f *Facts) {
			f.Security.Landlock, f.System.ID, f.System.Kernel = 0, "rhel", "5.15.0-305.176.4.el9uek.x86_64"
		}, "landlock", Degraded, "use a kernel of 5.19 or later"},
		{"an old WSL", func(f *Facts) {
			f.Security.Landlock, f.System.WSL, f.System.Kernel = 1, true, "5.15.167.4-microsoft-standard-WSL2"
		}, "landlock", Degraded, "wsl.exe --update # then wsl.exe --shutdown"},
		{"no Landlock in a container", func(f *Facts) { f.Security.Landlock, f.System.Container = 0, "docker" }, "landlock", Degraded, "allows landlock_create_ruleset"},
		{"a confined podgrade", func(f *Facts) { f.Security.AppArmor, f.Security.Profile = true, "podgrade (enforce)" }, "labels", Degraded, "outside of that profile"},
		{"a confined container", func(f *Facts) {
			f.System.Container, f.Security.AppArmor, f.Security.Profile = "docker", true, "docker-default (enforce)"
		}, "labels", Degraded, "ask whoever runs the outer container for --security-opt apparmor=unconfined"},
		{"a store with another label", func(f *Facts) { f.Security.SELinux, f.Store.Label = "enforcing", "system_u:object_r:var_t:s0" }, "labels", Degraded, "semanage fcontext -a -e /home/dana/.local/share/containers/storage /home/dana/.local/share/containers/storage\nsudo restorecon -R -v /home/dana/.local/share/containers/storage"},
	}
	checked := map[string]bool{}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := recorded(t, "debian12-hybrid")
			test.change(&f)
			got := finding(t, f, test.check)
			if got.Status != test.status {
				t.Errorf("status %s, want %s: %+v", got.Status, test.status, got)
			}
			if do := strings.Join(got.Do, "\n"); !strings.Contains(do, test.do) {
				t.Errorf("remedy %q has no %q", do, test.do)
			}
		})
		checked[test.check] = true
	}
	for _, check := range Checks() {
		if !checked[check.Name] {
			t.Errorf("no test makes the check %q fail", check.Name)
		}
	}
}

// TestASettingOutlastsWhatSwitchedItOff: systemd reads the files of sysctl.d in the
// order of their names, and the last one counts; one that is in the file already, of
// another remedy, stays there.
func TestASettingOutlastsWhatSwitchedItOff(t *testing.T) {
	do := finding(t, recorded(t, "rhel9-stig"), "user namespaces").Do
	_, file, found := strings.Cut(do[0], "sudo tee -a ")
	if !found || filepath.Ext(file) != ".conf" {
		t.Fatalf("%q adds to no file", do[0])
	}
	for _, of := range []string{"99-user_max_user_namespaces.conf", "user_max_user_namespaces.conf", "99-sysctl.conf"} {
		if off := "/etc/sysctl.d/" + of; file <= off {
			t.Errorf("%q is read before %q, which sets it to 0", file, off)
		}
	}
	if !strings.HasPrefix(do[1], "sudo sysctl -p "+file+" ") {
		t.Errorf("%q reads other files after it", do[1])
	}
}

// TestWhatIsNotOkSaysWhatToDo holds for every host in testdata.
func TestWhatIsNotOkSaysWhatToDo(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 8 {
		t.Fatalf("only %d hosts (%v)", len(files), err)
	}
	for _, file := range files {
		report := Examine(recorded(t, strings.TrimSuffix(filepath.Base(file), ".json")))
		worst := OK
		for _, c := range report.Checks {
			if c.Found == "" {
				t.Errorf("%s: %s says not what was found", file, c.Check)
			}
			if c.Status != OK && (c.Means == "" || len(c.Do) == 0) {
				t.Errorf("%s: %s is %s without what it means or what to do", file, c.Check, c.Status)
			}
			if c.Status.rank() > worst.rank() {
				worst = c.Status
			}
		}
		if report.Status != worst {
			t.Errorf("%s: the host is %s, its worst check %s", file, report.Status, worst)
		}
	}
}

// What could not be looked at is not called ok.
func TestUnknownIsNotOk(t *testing.T) {
	f := recorded(t, "debian12-hybrid")
	f.Install.Problem, f.Worker = "no such file", Worker{}
	f.Podman.Driver, f.Store = "", Place{}
	for _, check := range []string{"storage driver", "store", "overlay", "user namespaces"} {
		if got := finding(t, f, check); got.Status != Unknown {
			t.Errorf("%+v", got)
		}
	}
	if got := Examine(f).Status; got != Broken {
		t.Errorf("the host is %s", got)
	}
}

func FuzzRecord(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"facts":{"system":{"kernel":"6"},"store":{"label":"a:b"},"podman":{"version":"....","path":"/p"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		facts, err := parseRecord(text)
		if err != nil {
			return
		}
		report := Examine(facts)
		if len(report.Checks) != len(checks) || report.Status.rank() < 0 {
			t.Errorf("report: %+v", report)
		}
		if _, err := json.Marshal(report); err != nil {
			t.Error(err)
		}
	})
}

func TestRecordIsBounded(t *testing.T) {
	large := Record{Reader: strings.NewReader(strings.Repeat(" ", MaxRecord+1))}
	if _, err := large.Facts(context.Background()); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("error %v", err)
	}
	for _, text := range []string{"", "null", "{}", "[]", `{"facts": 1}`} {
		if _, err := (Record{Reader: strings.NewReader(text)}).Facts(context.Background()); err == nil {
			t.Errorf("%q are facts", text)
		}
	}
}

// Root needs no subordinate ids of its own and no set-uid helper.
func TestRootNeedsLess(t *testing.T) {
	f := recorded(t, "debian12-hybrid")
	f.User.UID, f.Root = 0, &Root{First: 1879048192, Last: 1879113727, From: "podgrade's own"}
	f.IDs, f.User.RuntimeDir = IDs{}, Place{}
	f.Root.Controllers = []string{"memory", "cpu", "pids"}
	for check, found := range map[string]string{"control groups": "version 1: memory cpu pids", "user": "1879048192 to 1879113727", "subordinate ids": "root needs none", "newuidmap": "root needs none", "runtime directory": "root needs none"} {
		if got := finding(t, f, check); got.Status != OK || !strings.Contains(got.Found, found) {
			t.Errorf("%+v", got)
		}
	}
}
