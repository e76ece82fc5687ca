// Package hostfacts says whether a host can make cells: what is looked at,
// what it means when it is not as it should be, and the exact remedy.
//
// Facts are plain data, read from this host by package isolation or recorded
// from another one; Examine judges them and touches nothing. So a host that we
// do not have is tested by its recorded facts.
package hostfacts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// Facts are all that Examine judges by. What could not be found out is the
// zero value, or -1 where zero means something.
type Facts struct {
	System     System     `json:"system"`
	User       User       `json:"user"`
	Install    Install    `json:"install"`
	Namespaces Namespaces `json:"namespaces"`
	IDs        IDs        `json:"ids"`
	Root       *Root      `json:"root,omitempty"` // nil: the user is not root
	Podman     Podman     `json:"podman"`
	Runtimes   []Program  `json:"runtimes"` // crun and runc, those that are there
	Store      Place      `json:"store"`    // directory of Podman's images
	Scratch    Place      `json:"scratch"`  // directory of podgrade's own data
	Worker     Worker     `json:"worker"`
	Cgroups    Cgroups    `json:"cgroups"`
	Network    Network    `json:"network"`
	Security   Security   `json:"security"`
}

// System is the kernel and the distribution.
type System struct {
	Kernel    string   `json:"kernel"` // release: 6.1.0-18-amd64
	Arch      string   `json:"arch"`   // as Go names it
	Name      string   `json:"name"`   // PRETTY_NAME of os-release
	ID        string   `json:"id"`     // ID of os-release: debian, fedora
	Like      []string `json:"like"`   // ID_LIKE
	WSL       bool     `json:"wsl"`
	Systemd   bool     `json:"systemd"`   // it is the init of this host
	Container string   `json:"container"` // what podgrade itself runs in, "" on a host
	Openat2   bool     `json:"openat2"`   // the system call is there and may be used
}

// User is who runs podgrade.
type User struct {
	UID        int    `json:"uid"`
	Name       string `json:"name"`
	Home       string `json:"home"`
	Local      bool   `json:"local"`       // in /etc/passwd, not in a directory service
	RuntimeDir Place  `json:"runtime_dir"` // XDG_RUNTIME_DIR
	// NoNewPrivs: the process may not gain privileges by set-uid programs.
	NoNewPrivs bool `json:"no_new_privs"`
}

// Install is where podgrade's programs are.
type Install struct {
	Program string `json:"program"` // podgrade itself
	Libexec string `json:"libexec"` // directory of its other programs, "" when not found
	Problem string `json:"problem,omitempty"`
}

// Namespaces are the settings that decide whether an ordinary user may make
// them. -1: the kernel has no such setting.
type Namespaces struct {
	UnprivilegedClone int      `json:"kernel.unprivileged_userns_clone"`
	AppArmorRestrict  int      `json:"kernel.apparmor_restrict_unprivileged_userns"`
	MaxUser           int64    `json:"user.max_user_namespaces"`
	None              []string `json:"none"` // other settings user.max_*_namespaces that are 0
}

// IDs are the subordinate ids of the user and the programs that map them.
type IDs struct {
	Users  uint64 `json:"users"`  // number of user ids
	Groups uint64 `json:"groups"` // number of group ids
	// FirstFree is where a range that overlaps no line of the two files starts.
	FirstFree uint64 `json:"first_free"`
	// Source is what nsswitch.conf names for subordinate ids, "" for the files.
	Source string `json:"source"`
	// GetSubIDs is the program that asks another source than the files, "" when it is
	// not in PATH or nothing needs it.
	GetSubIDs string `json:"getsubids,omitempty"`
	Problem   string `json:"problem,omitempty"`
	NewUIDMap Mapper `json:"newuidmap"`
	NewGIDMap Mapper `json:"newgidmap"`
}

// Mapper is newuidmap or newgidmap.
type Mapper struct {
	Path       string `json:"path"` // "" when it is not in PATH
	SetUID     bool   `json:"set_uid"`
	Capability bool   `json:"capability"` // of the file
	NoSUID     bool   `json:"nosuid"`     // its file system is mounted so
}

// Root is what root's cells need beside.
type Root struct {
	First   uint32 `json:"first"`             // user id of this host that root of a cell has
	Last    uint32 `json:"last"`              // of a cell's
	From    string `json:"from"`              // who keeps them free
	Problem string `json:"problem,omitempty"` // why there are none
	// Controllers are those of version 1 that root makes groups of.
	Controllers []string `json:"controllers,omitempty"`
	Mounts      string   `json:"mounts,omitempty"` // why nothing can be mounted with other owners
}

// Program is one that podgrade starts.
type Program struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Version string `json:"version"` // 1.8.1
	// Late: how long its version was waited for, in vain.
	Late string `json:"late,omitempty"`
}

// Podman is the Podman of this user.
type Podman struct {
	Program
	Driver string `json:"driver"` // of its storage
	// MountProgram: another program than the kernel mounts its overlays.
	MountProgram string `json:"mount_program"`
	Problem      string `json:"problem,omitempty"` // `podman info` failed
	// Remote: it is the client of another Podman, which may be another host's.
	Remote bool `json:"remote,omitempty"`
	// Silent: how long `podman info` was waited for, in vain.
	Silent string `json:"silent,omitempty"`
}

// Place is a directory with the file system that it is on.
type Place struct {
	Path       string `json:"path"`
	FileSystem string `json:"file_system"` // ext4, xfs, nfs, ...
	Device     uint64 `json:"device"`      // equal for two places on one file system
	NoExec     bool   `json:"noexec"`
	ReadOnly   bool   `json:"read_only"`
	FreeBytes  uint64 `json:"free_bytes"`
	FreeFiles  uint64 `json:"free_files"`
	Label      string `json:"label,omitempty"` // SELinux context
	Problem    string `json:"problem,omitempty"`
}

// Worker is what happened when podgrade started its worker and did, in its
// namespaces, what a cell needs.
type Worker struct {
	Tried   bool   `json:"tried"`
	Problem string `json:"problem,omitempty"` // it did not start
	// Denied: the kernel gave it no user namespace.
	Denied  bool   `json:"denied,omitempty"`
	IDs     uint32 `json:"ids"`               // of its user namespace
	Overlay string `json:"overlay,omitempty"` // why an overlay did not work
	Nested  string `json:"nested,omitempty"`  // why the namespaces of a cell could not be made
}

// Cgroups are the control groups of this user.
type Cgroups struct {
	Layout string `json:"layout"` // LayoutUnified, LayoutHybrid, LayoutLegacy or ""
	// Delegated are the controllers that the user may give to its own groups.
	Delegated []string `json:"delegated"`
	// UserManager: systemd runs for this user, and holds the delegated group.
	UserManager bool `json:"user_manager"`
}

// The layouts of control groups.
const (
	LayoutUnified = "unified" // version 2 alone
	LayoutHybrid  = "hybrid"  // both versions
	LayoutLegacy  = "legacy"  // version 1 alone
)

// Network is what gives a cell a network.
type Network struct {
	Pasta string `json:"pasta"` // path, "" when it is not in PATH
	Slirp string `json:"slirp4netns"`
	Tun   string `json:"tun,omitempty"` // why /dev/net/tun cannot be opened
}

// Security is what the kernel has beside the namespaces.
type Security struct {
	Seccomp  bool   `json:"seccomp"`  // filters that refuse a call with an error
	SELinux  string `json:"selinux"`  // "", permissive, enforcing
	AppArmor bool   `json:"apparmor"` // it is switched on
	Profile  string `json:"profile"`  // AppArmor's, of this process
	Landlock int    `json:"landlock"` // version of its interface, 0: none
	Context  string `json:"context"`  // SELinux's, of this process
}

// A Source gives facts: this host, or a record of another one.
type Source interface {
	Facts(context.Context) (Facts, error)
}

// MaxRecord is the largest record of facts in bytes.
const MaxRecord = 1 << 20

// Record is a Source: facts that were recorded, as the key "facts" of
// `podgrade doctor --json` or alone.
type Record struct{ Reader io.Reader }

// Facts reads the record.
func (r Record) Facts(context.Context) (Facts, error) {
	text, err := io.ReadAll(io.LimitReader(r.Reader, MaxRecord+1))
	if err != nil {
		return Facts{}, err
	}
	if len(text) > MaxRecord {
		return Facts{}, fmt.Errorf("the record has more than %d bytes", MaxRecord)
	}
	return parseRecord(text)
}

func parseRecord(text []byte) (Facts, error) {
	var whole struct {
		Facts *Facts `json:"facts"`
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		return Facts{}, fmt.Errorf("read the record: %w", err)
	}
	if whole.Facts != nil {
		return *whole.Facts, nil
	}
	var facts Facts
	if err := json.Unmarshal(text, &facts); err != nil {
		return Facts{}, fmt.Errorf("read the record: %w", err)
	}
	if facts.System.Kernel == "" {
		return Facts{}, fmt.Errorf("read the record: it names no kernel")
	}
	return facts, nil
}
