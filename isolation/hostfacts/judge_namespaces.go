package hostfacts

import (
	"fmt"
	"strings"
)

func judgeNamespaces(f Facts) Finding {
	n := f.Namespaces
	const see = "No user namespace"
	broken := func(found string, do ...string) Finding {
		return Finding{Status: Broken, Found: found, Means: "no cell can be made", Do: do, See: see}
	}
	switch {
	case n.MaxUser == 0:
		return broken("user.max_user_namespaces is 0", sysctl(f.System, "user.max_user_namespaces=28633")...)
	case n.UnprivilegedClone == 0:
		return broken("kernel.unprivileged_userns_clone is 0", sysctl(f.System, "kernel.unprivileged_userns_clone=1")...)
	case len(n.None) > 0:
		return broken(strings.Join(n.None, ", ")+": 0", sysctl(f.System, n.None[0]+"=28633")...)
	case !f.Worker.Tried:
		return unknown("the settings allow them; the worker was not tried", "nothing is known of what the kernel does")
	case f.Worker.Problem != "" && !f.Worker.Denied && len(causes(f)) > 0:
		// The namespace itself is not to blame: its own check says more.
		return unknown("the settings allow them; the worker did not start, see: "+strings.Join(causes(f), ", "), "nothing is known of what the kernel does")
	case f.Worker.Problem != "" && f.System.Container != "":
		// Before AppArmor: its setting is the host's, and seen in a container too.
		return broken("the container that podgrade runs in forbids them: "+f.Worker.Problem,
			"ask whoever runs the outer container for "+unconfined(f.System)+", and for subordinate ids")
	case f.Worker.Problem != "" && n.AppArmorRestrict > 0:
		return broken("AppArmor restricts them (kernel.apparmor_restrict_unprivileged_userns is 1): "+f.Worker.Problem, appArmorProfile(f.Install.Program)...)
	case f.Worker.Problem != "":
		return broken("the worker did not start: "+f.Worker.Problem, "sudo dmesg | tail -n 20 # a security module says there what it refused")
	case f.Worker.Nested != "":
		return broken("the namespaces of a cell could not be made: "+f.Worker.Nested, sysctl(f.System, "user.max_user_namespaces=28633")...)
	}
	found := fmt.Sprintf("made, with %d ids", f.Worker.IDs)
	if n.AppArmorRestrict > 0 {
		found += ", which AppArmor allows podgrade"
	}
	return Finding{Found: found}
}

// unconfined is what a container must be given for namespaces to be made in it, in
// the words of what runs it (docker run, podman-run(1)).
func unconfined(s System) string {
	const profiles = "(or profiles that allow clone and mount, and an unmasked /proc)"
	switch s.Container {
	case "docker":
		return "--security-opt with seccomp=unconfined, apparmor=unconfined and systempaths=unconfined " + profiles
	case "podman":
		return "--security-opt with seccomp=unconfined, apparmor=unconfined (SELinux: label=disable) and unmask=ALL " + profiles
	}
	return "profiles of seccomp and AppArmor or SELinux that allow clone and mount, an unmasked /proc"
}

// causes names the checks that already explain why the worker did not start.
func causes(f Facts) []string {
	var names []string
	for _, c := range []struct {
		name  string
		judge func(Facts) Finding
	}{
		{"installation", judgeInstall}, {"subordinate ids", judgeSubordinateIDs},
		{"newuidmap", judgeMappers}, {"scratch", judgeScratch},
	} {
		if c.judge(f).Status == Broken {
			names = append(names, c.name)
		}
	}
	return names
}

// appArmorProfile is what Ubuntu documents for a program that needs user
// namespaces: a profile that gives it the one right, and is unconfined
// otherwise. It is podgrade itself that makes the namespace.
func appArmorProfile(program string) []string {
	if program == "" || quote(program) != program {
		program = "/usr/local/bin/podgrade"
	}
	// A path of other characters would need two kinds of quotes.
	return []string{
		`printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile podgrade "` + program + `" flags=(unconfined) {\n  userns,\n}\n' | sudo tee /etc/apparmor.d/podgrade`,
		"sudo apparmor_parser -r /etc/apparmor.d/podgrade",
	}
}
