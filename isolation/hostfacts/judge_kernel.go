package hostfacts

import (
	"fmt"
	"slices"
	"strings"
)

// limitControllers are those that the limits of a task need.
var limitControllers = []string{"cpu", "memory", "pids"}

const limitsIgnored = "rows run without their limits of memory, processors and processes; their records say so (limits_not_enforced)"

func judgeCgroups(f Facts) Finding {
	c := f.Cgroups
	const see = "Control groups"
	if f.Root != nil && c.Layout != LayoutUnified {
		if missing := lacking(f.Root.Controllers); len(missing) == 0 {
			return Finding{Found: orUnknown(c.Layout) + " layout; root makes groups of version 1: " + strings.Join(f.Root.Controllers, " ")}
		}
	}
	if c.Layout != LayoutUnified {
		return Finding{Status: Degraded, Found: orUnknown(c.Layout) + " layout", Means: limitsIgnored, Do: unify(f.System), See: see}
	}
	missing := lacking(c.Delegated)
	if len(missing) == 0 {
		return Finding{Found: "unified layout; delegated: " + strings.Join(c.Delegated, " ")}
	}
	found := "unified layout; not delegated: " + strings.Join(missing, " ")
	if f.System.Systemd && !c.UserManager {
		found += "; no systemd runs for this user"
	}
	return Finding{Status: Degraded, Found: found, Means: limitsIgnored, Do: delegate(f), See: see}
}

// delegate is how the user gets controllers, from whoever has them.
func delegate(f Facts) []string {
	switch {
	case f.System.Container != "" && !f.System.Systemd: // a whole system has a systemd of its own to ask
		return []string{"ask whoever runs the outer container for a control group that this user may write, with these controllers (/sys/fs/cgroup is mounted read-only by default)"}
	case !f.System.Systemd:
		return []string{"let the init system give this user a control group of its own with these controllers (chown of the group's directory and its cgroup.procs)"}
	case !f.Cgroups.UserManager:
		return []string{"sudo loginctl enable-linger " + nameOrID(f.User)}
	}
	return []string{
		"sudo mkdir -p /etc/systemd/system/user@.service.d",
		`printf '[Service]\nDelegate=cpu cpuset io memory pids\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf`,
		"sudo systemctl daemon-reload # then log in anew; reboot if the user lingers, whose systemd a log-out does not end",
	}
}

// lacking are the controllers that limits need and that are not there.
func lacking(there []string) []string {
	var missing []string
	for _, name := range limitControllers {
		if !slices.Contains(there, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// unify is how a machine starts with version 2 of control groups alone.
func unify(s System) []string {
	const argument = "systemd.unified_cgroup_hierarchy=1"
	switch {
	case s.Container != "": // before WSL: a container there shows the kernel's name too
		return []string{"ask whoever runs the outer container: the layout is that of its host"}
	case s.WSL:
		return []string{
			"wsl.exe --update # from 2.5.1 on version 2 is the default; /etc/wsl.conf must not say cgroups = v1 below [automount]",
			"for an older WSL, in %UserProfile%\\.wslconfig on Windows, below [wsl2]: kernelCommandLine = cgroup_no_v1=all",
			"wsl.exe --shutdown # then start it again",
		}
	case !s.Systemd:
		return []string{"let the init system mount version 2 alone: cgroup_no_v1=all on the kernel's command line, and `mount -t cgroup2 none /sys/fs/cgroup`"}
	case familyOf(s) == redHat:
		return []string{"sudo grubby --update-kernel=ALL --args=" + argument + " && sudo reboot"}
	}
	remake := grubMakers[familyOf(s)]
	if remake == "" {
		return []string{"add " + argument + " to the kernel's command line, as the boot loader of this distribution takes it, and reboot"}
	}
	return []string{"add " + argument + " to GRUB_CMDLINE_LINUX in /etc/default/grub", remake + " && sudo reboot"}
}

// grubMakers write GRUB's menu anew: update-grub is Debian's own. Fedora and RHEL have
// grubby, which writes the entries themselves.
var grubMakers = map[family]string{
	debian: "sudo update-grub",
	suse:   "sudo grub2-mkconfig -o /boot/grub2/grub.cfg",
	arch:   "sudo grub-mkconfig -o /boot/grub/grub.cfg",
}

func judgeNetwork(f Facts) Finding {
	n := f.Network
	const means = "sealed cells work; a task that asks for a network cannot have one"
	if n.Pasta == "" && n.Slirp == "" {
		return Finding{Status: Degraded, Found: "neither pasta nor slirp4netns is in PATH", Means: means, Do: []string{install(f.System, "pasta")}}
	}
	found := n.Pasta
	if found == "" {
		found = n.Slirp
	}
	if n.Tun == "" {
		return Finding{Found: found}
	}
	do := []string{"sudo modprobe tun", "sudo chmod 0666 /dev/net/tun # who makes an interface needs CAP_NET_ADMIN all the same"}
	if f.System.Container != "" {
		do = []string{"ask whoever runs the outer container for the device: --device /dev/net/tun, which this user must be able to open"}
	}
	return Finding{Status: Degraded, Found: found + ", but /dev/net/tun: " + n.Tun, Means: means, Do: do}
}

func judgeSeccomp(f Facts) Finding {
	if f.Security.Seccomp {
		return Finding{Found: "filters"}
	}
	return Finding{Status: Broken, Found: "the kernel has no filters", Means: "a cell without one is never started",
		Do: []string{"use a kernel with CONFIG_SECCOMP_FILTER, as every distribution builds it"}}
}

// landlockNeeded is the version of Landlock's interface that the supervisor
// needs.
const landlockNeeded = 2

// The kernels that have it: Linux 5.19, and what RHEL 9.6 made of 5.14.
var (
	kernelLandlock = []int{5, 19}
	rhelLandlock   = []int{5, 14, 0, 570}
)

func judgeLandlock(f Facts) Finding {
	abi := f.Security.Landlock
	if abi >= landlockNeeded {
		return Finding{Found: fmt.Sprintf("version %d", abi)}
	}
	found := "none"
	if abi > 0 {
		found = fmt.Sprintf("version %d", abi)
	}
	return Finding{Status: Degraded, Found: found,
		Means: "a process that one command left running may trace a later command of the same cell", Do: landlockRemedy(f.System, abi)}
}

// landlockRemedy is lsm= only for a kernel that has Landlock to switch on.
func landlockRemedy(s System, abi int) []string {
	rhel9 := familyOf(s) == redHat && strings.HasPrefix(s.Kernel, "5.14.0-")
	old := !rhel9 && (abi > 0 || olderThan(s.Kernel, kernelLandlock))
	switch {
	case s.Container != "":
		return []string{"ask whoever runs the outer container for a kernel of 5.19 or later with landlock in its list lsm=, and a seccomp profile that allows landlock_create_ruleset"}
	case rhel9 && olderThan(s.Kernel, rhelLandlock):
		return []string{"sudo dnf upgrade && sudo reboot # RHEL 9 and its rebuilds have Landlock from 9.6 on: lsm= does not help an older kernel"}
	case old && s.WSL:
		return []string{"wsl.exe --update # then wsl.exe --shutdown: later releases bring a kernel of 6.6 or later"}
	case old:
		return []string{"use a kernel of 5.19 or later that is built with Landlock"}
	}
	return []string{"add landlock to the list lsm= on the kernel's command line (what is in /sys/kernel/security/lsm, with landlock in front)"}
}

// storeTypes are the SELinux types that files of images may have.
var storeTypes = []string{"container_ro_file_t", "container_file_t", "container_share_t", "container_var_lib_t", "data_home_t"}

func judgeLabels(f Facts) Finding {
	s := f.Security
	var found []string
	if s.SELinux != "" {
		found = append(found, strings.TrimSpace("SELinux "+s.SELinux+", podgrade relabels nothing: "+s.Context))
	}
	if s.AppArmor {
		found = append(found, strings.TrimSpace("AppArmor "+s.Profile))
	}
	if len(found) == 0 {
		return Finding{Found: "no SELinux, no AppArmor"}
	}
	finding := Finding{Found: strings.Join(found, "; ")}
	switch {
	case s.SELinux == "enforcing" && !storeLabelled(f.Store.Label):
		finding.Status = Degraded
		finding.Found += "; Podman's store is labelled " + f.Store.Label
		finding.Means = "programs of an image may be refused their libraries"
		finding.Do = []string{
			"sudo semanage fcontext -a -e " + quote(defaultStore(f.User)) + " " + quote(f.Store.Path),
			"sudo restorecon -R -v " + quote(f.Store.Path) + " # sudo: files of an image belong to subordinate ids",
		}
	case strings.HasSuffix(s.Profile, "(enforce)"):
		finding.Status = Degraded
		finding.Means = "a profile confines podgrade, and everything that it starts"
		finding.Do = []string{"start podgrade outside of that profile, or let it mount, make namespaces and start Podman"}
		if f.System.Container != "" {
			finding.Do = []string{"ask whoever runs the outer container for --security-opt apparmor=unconfined, or a profile that lets podgrade mount, make namespaces and start Podman"}
		}
	}
	return finding
}

func defaultStore(u User) string {
	if u.UID == 0 {
		return "/var/lib/containers/storage"
	}
	return strings.TrimRight(u.Home, "/") + "/.local/share/containers/storage"
}

// storeLabelled tells whether a context is one of a store; without one there
// is nothing to say.
func storeLabelled(context string) bool {
	parts := strings.Split(context, ":")
	return len(parts) < 3 || slices.Contains(storeTypes, parts[2])
}
