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
	if !f.System.Systemd {
		return Finding{Status: Degraded, Found: found, Means: limitsIgnored, See: see,
			Do: []string{"let the init system give this user a control group of its own with these controllers (chown of the group's directory and its cgroup.procs)"}}
	}
	if !c.UserManager {
		return Finding{Status: Degraded, Found: found + "; no systemd runs for this user", Means: limitsIgnored, See: see,
			Do: []string{"sudo loginctl enable-linger " + nameOrID(f.User)}}
	}
	return Finding{Status: Degraded, Found: found, Means: limitsIgnored, See: see, Do: []string{
		"sudo mkdir -p /etc/systemd/system/user@.service.d",
		`printf '[Service]\nDelegate=cpu cpuset io memory pids\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf`,
		"sudo systemctl daemon-reload # then log in anew",
	}}
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
	case s.WSL:
		return []string{
			"in %UserProfile%\\.wslconfig on Windows, below [wsl2]: kernelCommandLine = cgroup_no_v1=all",
			"wsl.exe --shutdown # then start it again",
		}
	case s.Container != "":
		return []string{"ask whoever runs the outer container: the layout is that of its host"}
	case !s.Systemd:
		return []string{"let the init system mount version 2 alone: cgroup_no_v1=all on the kernel's command line, and `mount -t cgroup2 none /sys/fs/cgroup`"}
	case familyOf(s) == redHat:
		return []string{"sudo grubby --update-kernel=ALL --args=" + argument + " && sudo reboot"}
	}
	return []string{"add " + argument + " to GRUB_CMDLINE_LINUX in /etc/default/grub", "sudo update-grub && sudo reboot"}
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
	return Finding{Status: Degraded, Found: found + ", but /dev/net/tun: " + n.Tun, Means: means,
		Do: []string{"sudo modprobe tun", "sudo chmod 0666 /dev/net/tun # who makes an interface needs CAP_NET_ADMIN all the same"}}
}

func judgeSeccomp(f Facts) Finding {
	if f.Security.Seccomp {
		return Finding{Found: "filters"}
	}
	return Finding{Status: Broken, Found: "the kernel has no filters", Means: "a cell without one is never started",
		Do: []string{"use a kernel with CONFIG_SECCOMP_FILTER, as every distribution builds it"}}
}

// landlockNeeded is the version of Landlock's interface that the supervisor
// needs (Linux 5.19).
const landlockNeeded = 2

func judgeLandlock(f Facts) Finding {
	abi := f.Security.Landlock
	if abi >= landlockNeeded {
		return Finding{Found: fmt.Sprintf("version %d", abi)}
	}
	found := "none"
	do := []string{"add landlock to the list lsm= on the kernel's command line (what is in /sys/kernel/security/lsm, with landlock in front)"}
	if abi > 0 {
		found = fmt.Sprintf("version %d", abi)
		do = []string{"use a kernel of 5.19 or later"}
	}
	return Finding{Status: Degraded, Found: found,
		Means: "a process that one command left running may trace a later command of the same cell", Do: do}
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
			"restorecon -R -v " + quote(f.Store.Path),
		}
	case strings.HasSuffix(s.Profile, "(enforce)"):
		finding.Status = Degraded
		finding.Means = "a profile confines podgrade, and everything that it starts"
		finding.Do = []string{"start podgrade outside of that profile, or let it mount, make namespaces and start Podman"}
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
