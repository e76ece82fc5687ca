package hostfacts

import (
	"fmt"
	"slices"
	"strings"
)

// The file systems on which files cannot be given to subordinate ids: a server
// decides about owners, and knows nothing of user namespaces.
var shared = []string{
	"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "afs", "ceph",
	"9p", "v9fs", "drvfs", "fuse.sshfs", "fuse.glusterfs", "panfs", "orangefs", "fuse",
}

// overlays are those that an overlay cannot have its upper directory on.
var overlays = []string{"overlay", "overlayfs", "aufs", "fuse.fuse-overlayfs"}

// inMemory are those that a start of the machine empties.
var inMemory = []string{"tmpfs", "ramfs"}

func judgeStore(f Facts) Finding {
	s := f.Store
	if s.Path == "" {
		return unasked(f.Podman)
	}
	found := s.Path + onFileSystem(s)
	const see = "Shared file systems"
	move := []string{
		"choose a directory DIR on a local file system, and make it yours with mode 0700",
	}
	move = append(move, writeStorageConf(f.User, "DIR/storage")...)
	switch {
	case slices.Contains(shared, s.FileSystem):
		return Finding{Status: Broken, Found: found,
			Means: "its server decides about owners and knows no user namespace: images cannot be stored there", Do: move, See: see}
	case slices.Contains(overlays, s.FileSystem):
		return Finding{Status: Broken, Found: found, Means: "an overlay cannot stand on an overlay",
			Do: []string{"give the outer container a volume for " + s.Path}, See: see}
	case s.Problem != "":
		return Finding{Status: Broken, Found: found + ": " + s.Problem, Means: "images cannot be stored there", Do: move, See: see}
	case slices.Contains(inMemory, s.FileSystem):
		return Finding{Status: Degraded, Found: found, Means: "images take memory, and are gone after a restart", Do: move, See: see}
	}
	return Finding{Found: found}
}

func judgeScratch(f Facts) Finding {
	s := f.Scratch
	found := s.Path + onFileSystem(s)
	elsewhere := []string{"choose a directory on " + whereScratch(f) + " with --scratch DIR, or for all of your data with XDG_DATA_HOME"}
	const see = "Shared file systems"
	broken := func(found, means string) Finding {
		return Finding{Status: Broken, Found: found, Means: means, Do: elsewhere, See: see}
	}
	switch {
	case slices.Contains(overlays, s.FileSystem):
		return broken(found, "an overlay cannot stand on an overlay; inside a container, give it a volume")
	case slices.Contains(shared, s.FileSystem):
		return broken(found, "its server decides about owners and knows no user namespace")
	case s.ReadOnly:
		return broken(found+", read-only", "nothing can be written there")
	case s.NoExec:
		return broken(found+", noexec", "the supervisor of a cell cannot be started from there")
	case s.Problem != "":
		return broken(strings.TrimSpace(found+": "+s.Problem), "nothing can be written there")
	case slices.Contains(inMemory, s.FileSystem):
		return Finding{Status: Degraded, Found: found, Means: "what cells write takes memory", Do: elsewhere, See: see}
	case f.Store.Path != "" && f.Store.Device != s.Device:
		return Finding{Status: Degraded, Found: found + ", not that of Podman's store",
			Means: "what an agent's cell leaves behind is copied instead of renamed", Do: elsewhere, See: see}
	}
	return Finding{Found: found}
}

// whereScratch is where scratch should lie: what a cell leaves behind is renamed on
// the store's own file system.
func whereScratch(f Facts) string {
	if judgeStore(f).Status == "" && f.Store.Device != f.Scratch.Device {
		return "the file system of " + quote(f.Store.Path)
	}
	return "a local file system"
}

func onFileSystem(p Place) string {
	if p.FileSystem == "" {
		return ""
	}
	return " on " + p.FileSystem
}

// Free space below which there is something to say, in bytes, and files.
const (
	tooLittle = 1 << 30
	little    = 5 << 30
	fewFiles  = 50_000
)

func judgeDisk(f Facts) Finding {
	finding := Finding{}
	var found []string
	for _, p := range []Place{f.Scratch, f.Store} {
		if p.Path == "" || p.Problem != "" || p == f.Store && p.Device == f.Scratch.Device {
			continue
		}
		found = append(found, fmt.Sprintf("%s free for %s", size(p.FreeBytes), p.Path))
		status := OK
		switch {
		case p.FreeBytes < tooLittle:
			status = Broken
		case p.FreeBytes < little || p.FreeFiles < fewFiles:
			status = Degraded
		}
		if status.rank() > finding.Status.rank() {
			finding.Status = status
		}
		if p.FreeFiles < fewFiles {
			found = append(found, fmt.Sprintf("%d more files", p.FreeFiles))
		}
	}
	finding.Found = strings.Join(found, ", ")
	if finding.Status.rank() > OK.rank() {
		finding.Means = "a view of a large workspace, or what a command writes, may not fit; a row then fails as infrastructure"
		finding.Do = []string{"podgrade gc", "podman image prune # removes images without a name", "or choose another place with --scratch DIR"}
	}
	return finding
}

// size writes bytes as people read them.
func size(n uint64) string {
	const unit = 1024
	value, name := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < unit {
			break
		}
		value, name = value/unit, next
	}
	if name == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, name)
}
