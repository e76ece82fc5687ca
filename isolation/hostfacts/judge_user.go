package hostfacts

import (
	"fmt"
	"strconv"
	"strings"
)

func judgeUser(f Facts) Finding {
	if f.User.UID == 0 {
		return judgeRoot(f)
	}
	return Finding{Found: fmt.Sprintf("%s (%d)", orUnknown(f.User.Name), f.User.UID)}
}

// judgeRoot judges what takes the place of subordinate ids.
func judgeRoot(f Facts) Finding {
	const see = "Root"
	r := f.Root
	switch {
	case r == nil:
		return Finding{Found: "root"}
	case r.Problem != "":
		return Finding{Status: Broken, Found: "root, " + r.Problem, Means: "there are no ids for cells", See: see,
			Do: []string{fmt.Sprintf("sudo usermod --add-subuids %d-%d --add-subgids %[1]d-%[2]d root", max(f.IDs.FirstFree, lowestSubordinate), max(f.IDs.FirstFree, lowestSubordinate)+mapSize)}}
	case r.Mounts != "":
		return Finding{Status: Broken, Found: "root, without mounts that show other owners: " + r.Mounts,
			Means: "root's cells have ids that are nobody's, and cannot be given the image", See: see,
			Do: []string{"run podgrade as an ordinary user, who needs no such mounts", "or as root of the host (not of a container), with a kernel of 6.3 or later, and images and rows on ext4, xfs, btrfs or tmpfs"}}
	}
	return Finding{Found: fmt.Sprintf("root; its cells have the ids %d to %d of this host (%s)", r.First, r.Last, r.From)}
}

// notForRoot is said of what root needs not.
const notForRoot = "root needs none"

func judgeInstall(f Facts) Finding {
	if f.Install.Problem == "" {
		return Finding{Found: f.Install.Libexec}
	}
	return Finding{
		Status: Broken, Found: f.Install.Problem,
		Means: "there is nothing to start a cell with",
		Do:    []string{"install podgrade with `make install`, or keep build/libexec beside build/bin"},
	}
}

// The kernels from which on something is there.
const (
	kernelOpenat2 = "5.6"
	kernelOverlay = "5.11" // overlays in a user namespace; 5.13 with SELinux
)

func judgeKernel(f Facts) Finding {
	found := strings.TrimSpace("Linux " + f.System.Kernel + " " + f.System.Arch)
	if f.System.Name != "" {
		found += ", " + f.System.Name
	}
	if f.System.Container != "" {
		found += ", inside a container (" + f.System.Container + ")"
	}
	if f.System.Openat2 {
		return Finding{Found: found}
	}
	return Finding{
		Status: Broken, Found: found + ", without the system call openat2",
		Means: "the supervisor of a cell cannot resolve a path safely",
		Do:    []string{fmt.Sprintf("use a kernel of %s or later; inside a container, ask whoever runs it for a seccomp profile that allows openat2", kernelOpenat2)},
	}
}

// mapSize is how many ids a cell's user namespace has beside the caller's own.
const mapSize = 65535

func judgeSubordinateIDs(f Facts) Finding {
	if f.User.UID == 0 {
		return Finding{Found: notForRoot}
	}
	n := min(f.IDs.Users, f.IDs.Groups)
	found := fmt.Sprintf("%d users, %d groups", f.IDs.Users, f.IDs.Groups)
	if f.IDs.Source != "" {
		found += fmt.Sprintf(" of %q, which nsswitch.conf names", f.IDs.Source)
	}
	if f.IDs.Problem != "" {
		found += " (" + f.IDs.Problem + ")"
	}
	if n >= mapSize {
		return Finding{Found: found}
	}
	finding := Finding{Found: found, Do: addRanges(f), See: "Subordinate ids"}
	if n == 0 {
		finding.Status = Broken
		finding.Means = "this user has one id alone, and an image has files of many"
	} else {
		finding.Status = Degraded
		finding.Means = fmt.Sprintf("images that have users or groups above %d are refused", n)
	}
	return finding
}

// addRanges is the remedy for missing ids. Ids of two users must not overlap,
// so the range is one that the files have free.
func addRanges(f Facts) []string {
	const migrate = "podman system migrate"
	name, first := nameOrID(f.User), max(f.IDs.FirstFree, lowestSubordinate)
	last := first + mapSize
	line := fmt.Sprintf("echo %s:%d:%d | sudo tee -a /etc/subuid /etc/subgid # accounts of the directory may have these ids: take a range that none has", name, first, last-first+1)
	switch {
	case f.IDs.Source != "":
		return append(askSource(f, name), "or let the two files count: "+filesCount(f.System), line, migrate)
	case !f.User.Local: // usermod knows no users of a directory service
		return []string{line, migrate}
	}
	return []string{fmt.Sprintf("sudo usermod --add-subuids %d-%d --add-subgids %[1]d-%[2]d %s", first, last, name), migrate}
}

// filesCount makes nsswitch.conf name the files. RHEL's is written by authselect, which
// undoes what others write there (authselect(8)).
func filesCount(s System) string {
	if familyOf(s) == redHat {
		return "sudo authselect disable-feature with-subid"
	}
	return "say `subid: files` in /etc/nsswitch.conf"
}

// askSource is for a host whose nsswitch.conf names another source than the files:
// newuidmap asks that one alone, and usermod writes no lines then (subuid(5)).
func askSource(f Facts, name string) []string {
	var do []string
	if f.IDs.GetSubIDs == "" {
		do = append(do, install(f.System, "getsubids"))
	}
	return append(do, fmt.Sprintf("getsubids %[1]s; getsubids -g %[1]s # what %[2]q gives; FreeIPA: ipa subid-generate --owner=%[1]s", name, f.IDs.Source))
}

// nameOrID names the user in a command line.
func nameOrID(u User) string {
	if u.Name != "" {
		return quote(u.Name)
	}
	return strconv.Itoa(u.UID)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func judgeMappers(f Facts) Finding {
	if f.User.UID == 0 {
		return Finding{Found: notForRoot}
	}
	for _, m := range []struct {
		name   string
		mapper Mapper
	}{{"newuidmap", f.IDs.NewUIDMap}, {"newgidmap", f.IDs.NewGIDMap}} {
		if finding := judgeMapper(f, m.name, m.mapper); finding.Status != "" {
			finding.Status = Broken
			finding.Means = "the user namespace of a cell cannot have more than one id"
			finding.See = "Subordinate ids"
			return finding
		}
	}
	return Finding{Found: f.IDs.NewUIDMap.Path + ", " + f.IDs.NewGIDMap.Path}
}

func judgeMapper(f Facts, name string, m Mapper) Finding {
	switch {
	case m.Path == "":
		return Finding{Status: Broken, Found: name + " is not in PATH", Do: []string{install(f.System, "newuidmap")}}
	case !m.SetUID && !m.Capability:
		return Finding{Status: Broken, Found: m.Path + " has neither the set-uid bit nor a file capability", Do: restoreMappers(f.System)}
	case m.NoSUID:
		return Finding{Status: Broken, Found: "the file system of " + m.Path + " is mounted nosuid",
			Do: []string{"mount it without nosuid, or install the programs where set-uid counts"}}
	case f.User.NoNewPrivs:
		return Finding{Status: Broken, Found: "podgrade was started with no_new_privs, so that " + name + " gains nothing",
			Do: []string{"start podgrade outside of that sandbox (systemd: NoNewPrivileges=no)"}}
	}
	return Finding{}
}

// restoreMappers gives the two programs back what their package gave them:
// images of a distribution often lose file capabilities.
func restoreMappers(s System) []string {
	switch familyOf(s) {
	case debian:
		return []string{"sudo apt-get install --reinstall uidmap"}
	case redHat, suse:
		return []string{"sudo rpm --restore " + packages[familyOf(s)]["newuidmap"]}
	}
	return []string{
		"sudo setcap cap_setuid+ep $(command -v newuidmap)",
		"sudo setcap cap_setgid+ep $(command -v newgidmap)",
	}
}

func judgeRuntimeDir(f Facts) Finding {
	if f.User.UID == 0 {
		return Finding{Found: notForRoot}
	}
	dir := f.User.RuntimeDir
	if dir.Path != "" && dir.Problem == "" {
		return Finding{Found: dir.Path}
	}
	found := "XDG_RUNTIME_DIR is not set"
	if dir.Path != "" {
		found = dir.Path + ": " + dir.Problem
	}
	export := fmt.Sprintf(" && export XDG_RUNTIME_DIR=/run/user/%d", f.User.UID)
	do := []string{fmt.Sprintf("sudo install -d -m 0700 -o %[1]d /run/user/%[1]d", f.User.UID) + export}
	if f.System.Systemd {
		do = []string{
			fmt.Sprintf("log in anew with ssh or `machinectl shell %s@` (su and sudo make none)", nameOrID(f.User)),
			"or in this shell: sudo loginctl enable-linger " + nameOrID(f.User) + export,
		}
	}
	return Finding{
		Status: Degraded, Found: found,
		Means: "Podman keeps its locks in /tmp, where a clean-up may take them away",
		Do:    do,
	}
}
