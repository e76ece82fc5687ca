package hostfacts

import (
	"fmt"
	"strconv"
	"strings"
)

// oldestPodman is the oldest version that is tested.
var oldestPodman = []int{4, 3, 1}

func judgePodman(f Facts) Finding {
	p := f.Podman
	if p.Path == "" {
		return Finding{Status: Broken, Found: "podman is not in PATH", Means: "there is no image store",
			Do: []string{install(f.System, "podman", "crun", "newuidmap")}}
	}
	found := strings.TrimSpace(p.Path + " " + p.Version)
	if p.Problem != "" {
		return Finding{Status: Broken, Found: found + ": " + p.Problem, Means: "there is no image store",
			Do: []string{"podman info # and mend what it says"}}
	}
	if p.Remote {
		return Finding{Status: Broken, Found: found + " is the client of another Podman", Means: "cells are made of this host's images, by its own Podman",
			Do: []string{"take `remote = true` out of containers.conf (in ~/.config/containers, /etc/containers or where CONTAINERS_CONF points); where podman is podman-remote: " + install(f.System, "podman")}}
	}
	if p.Silent != "" {
		return Finding{Status: Degraded, Found: found + ": podman info gave no answer for " + p.Silent,
			Means: "this host is busy, or another Podman holds a lock of the store: nothing is known of it, and cells start late or not at all",
			Do:    []string{"podman info # when it answers, run podgrade doctor again"}}
	}
	if p.Version != "" && olderThan(p.Version, oldestPodman) {
		return Finding{Status: Degraded, Found: found, Means: "it is older than any that podgrade is tested with (4.3.1)",
			Do: []string{"use a release of the distribution with Podman 4.3.1 or later"}}
	}
	return Finding{Found: found}
}

// olderThan compares the numbers of a version with others.
func olderThan(version string, than []int) bool {
	parts := strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	for i, want := range than {
		if i >= len(parts) {
			return true
		}
		if have, err := strconv.Atoi(parts[i]); err != nil || have != want {
			return err == nil && have < want
		}
	}
	return false
}

func judgeRuntime(f Facts) Finding {
	var found []string
	crun := false
	for _, r := range f.Runtimes {
		found = append(found, strings.TrimSpace(r.Path+" "+r.Version))
		crun = crun || r.Name == "crun"
	}
	switch {
	case len(found) == 0:
		return Finding{Status: Broken, Found: "neither crun nor runc is in PATH", Means: "nothing can start a cell",
			Do: []string{install(f.System, "crun")}}
	case f.Runtimes[0].Late != "":
		return Finding{Status: Degraded, Found: f.Runtimes[0].Path + " gave no answer for " + f.Runtimes[0].Late, Means: "it is what starts cells: the host is busy, or it hangs",
			Do: []string{f.Runtimes[0].Path + " --version # and run podgrade doctor again"}}
	case f.Runtimes[0].Version == "":
		return Finding{Status: Broken, Found: f.Runtimes[0].Path + " prints no version", Means: "it is what starts cells, and does not start itself",
			Do: []string{f.Runtimes[0].Path + " --version # and mend what it says"}}
	case !crun:
		return Finding{Status: Degraded, Found: strings.Join(found, ", "), Means: "each cell starts some 45 ms later than with crun",
			Do: []string{install(f.System, "crun")}}
	}
	return Finding{Found: strings.Join(found, ", ")}
}

// overlayDriver is the driver whose layers can be mounted.
const overlayDriver = "overlay"

func judgeDriver(f Facts) Finding {
	p := f.Podman
	reset := append([]string{"podman system reset # removes the store with its images"}, writeStorageConf(f.User, "")...)
	const see = "The storage driver"
	switch {
	case p.Driver == "":
		return unasked(p)
	case p.Driver != overlayDriver:
		return Finding{Status: Degraded, Found: p.Driver, Means: "its images have no layers that can be mounted: cells are made by the engine podman, which takes some 200 ms more for each", Do: reset, See: see}
	case p.MountProgram != "":
		return Finding{Status: Broken, Found: fmt.Sprintf("overlay by %s", p.MountProgram),
			Means: "it marks deleted files in a way of its own: mounted by the kernel, an image would show files that it deleted",
			Do:    append([]string{"take mount_program out of storage.conf"}, reset...), See: see}
	}
	return Finding{Found: "overlay, mounted by the kernel"}
}

// writeStorageConf writes Podman's storage.conf, with a store in graphroot, or in the
// usual place. Root's Podman has no places of its own where the file names none
// ("runroot must be set"); the one that was there is kept.
func writeStorageConf(u User, graphroot string) []string {
	dir, text := "~/.config/containers", `[storage]\ndriver = "overlay"\n`
	if u.UID == 0 {
		dir = "/etc/containers"
		text += `runroot = "/run/containers/storage"\n`
		if graphroot == "" {
			graphroot = defaultStore(u)
		}
	}
	if graphroot != "" {
		text += `graphroot = "` + graphroot + `"\n`
	}
	file := dir + "/storage.conf"
	return []string{
		fmt.Sprintf("test ! -e %[1]s || cp -n %[1]s %[1]s.bak # it is replaced: put back by hand what else it says", file),
		fmt.Sprintf("mkdir -p %s && printf '%s' > %s", dir, text, file),
	}
}

// unasked says why nothing is known of the store.
func unasked(p Podman) Finding {
	if p.Silent != "" {
		return Finding{Status: Unknown, Found: "podman info gave no answer", Means: "nothing is known of Podman's store",
			Do: []string{"run podgrade doctor again when podman info answers"}}
	}
	return unknown("podman info did not run", "nothing is known of Podman's store")
}

func judgeOverlay(f Facts) Finding {
	switch {
	case f.Worker.Tried && f.Worker.Problem == "" && f.Worker.Overlay == "":
		return Finding{Found: "mounted, and files of a lower directory renamed and removed"}
	case f.Worker.Overlay == "":
		return unknown("not tried: the worker did not start", "nothing is known of overlays")
	case judgeScratch(f).Status == Broken:
		return unknown("not possible in this scratch directory, see: scratch", "nothing is known of overlays")
	}
	return Finding{
		Status: Broken, Found: f.Worker.Overlay,
		Means: "the bundle engine cannot give a cell its root",
		Do:    []string{fmt.Sprintf("use a kernel of %s or later, with SELinux 5.13 or later", kernelOverlay)},
	}
}
