package hostfacts

// Check is one thing that is looked at. Name, Looks and Needed are for
// people; docs/rootless-hosts.md shows them as a table that a test compares.
type Check struct {
	Name   string
	Looks  string // what is looked at
	Needed string // what podgrade needs it for
	judge  func(Facts) Finding
}

// Checks returns all checks in the order in which they are made: a cause comes
// before what follows from it.
func Checks() []Check { return append([]Check{}, checks...) }

// checks are the definitions of the verb doctor.
var checks = []Check{
	{"user", "the user id; of root the ids of its cells, and a mount with other owners, really made", "root of a cell is the user who runs podgrade, or nobody where root does", judgeUser},
	{"installation", "`podgrade-init`, `podgrade-worker` and `podgrade-libpod` in libexec", "PID 1 of every cell, what makes cells, and what asks Podman", judgeInstall},
	{"kernel", "the release, and whether `openat2` may be called", "paths in a cell are resolved without following links out of it", judgeKernel},
	{"user namespaces", "`user.max_user_namespaces`, `kernel.unprivileged_userns_clone`, AppArmor's restriction, and the worker, really started", "every cell lives in one", judgeNamespaces},
	{"subordinate ids", "the user's lines in `/etc/subuid` and `/etc/subgid`, or what `getsubids` says where nsswitch.conf names another source", "the users and groups of an image", judgeSubordinateIDs},
	{"newuidmap", "`newuidmap` and `newgidmap`: set-uid or file capability, `nosuid`, `no_new_privs`", "they give the namespace more than one id", judgeMappers},
	{"runtime directory", "`XDG_RUNTIME_DIR`", "Podman's locks, and the socket of its service", judgeRuntimeDir},
	{"podman", "`podman info`", "its image store; it pulls, loads and builds", judgePodman},
	{"runtime", "`crun`, else `runc`", "starts the cells", judgeRuntime},
	{"storage driver", "the driver of Podman's store, and who mounts its overlays", "an image is mounted layer by layer, not copied", judgeDriver},
	{"store", "the file system of Podman's store", "files of an image belong to many users", judgeStore},
	{"scratch", "the file system of podgrade's scratch directory, and its options", "the writable layer of a cell, the supervisor, views of workspaces", judgeScratch},
	{"overlay", "an overlay, really mounted and written in the worker", "the root of a cell", judgeOverlay},
	{"disk", "free bytes and free files of both places", "views and writable layers", judgeDisk},
	{"control groups", "the layout, and the controllers that are delegated to the user", "limits of memory, processors and processes", judgeCgroups},
	{"network", "`pasta`, else `slirp4netns`, and `/dev/net/tun`", "a cell that was granted a network; a sealed one needs none", judgeNetwork},
	{"seccomp", "the actions that the kernel's filters know", "a cell may not make every system call", judgeSeccomp},
	{"landlock", "the version of the kernel's interface", "a command cannot trace what another one left running", judgeLandlock},
	{"labels", "SELinux and AppArmor: mode, context, profile; the store's label", "podgrade records them and relabels nothing", judgeLabels},
}
