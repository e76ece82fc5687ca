package isolation_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/oci"
)

// liar puts the lying runtime where podgrade and Podman find crun. A cell with the
// host name "lie-" and a lie gets that one told.
func liar(t *testing.T) {
	t.Helper()
	crun, err := exec.LookPath("crun")
	if err != nil {
		t.Fatalf("the lying runtime needs the real one: %v", err)
	}
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("crun", string(read(t, filepath.Join(buildDir(), "test", "liar"))), 0o755)
	write("runtime", crun, 0o600)
	write("containers.conf", fmt.Sprintf("[engine]\nruntime = \"crun\"\n[engine.runtimes]\ncrun = [%q]\n", filepath.Join(dir, "crun")), 0o600)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("CONTAINERS_CONF", filepath.Join(dir, "containers.conf"))
}

// falsehood is what a runtime makes otherwise than it was asked.
type falsehood struct {
	lie        string
	difference string // that must be named
	with       string // what else is named, joined by "; ": only where the kernel lets nobody tell the lie alone
	sealed     bool   // of a cell without capabilities
	podman     string // what its engine says, where that notices before there is a cell to verify
	dear       bool   // told to Podman in a soak only: a container takes three times as long
}

// lies falsify each field that oci.Verify compares.
var lies = []falsehood{
	{lie: "uid", sealed: true, difference: "user ids: asked for 0 0 0 0, the cell has 7 7 7 7"},
	{lie: "gid", difference: "group ids: asked for 0 0 0 0, the cell has 7 7 7 7", dear: true},
	{lie: "group", difference: "supplementary groups: asked for [], the cell has [27]", dear: true},
	{lie: "uid-map", difference: "uid map", dear: true},
	{lie: "gid-map", difference: "gid map", dear: true},
	{lie: "wide-map", difference: "uid map", dear: true},
	{lie: "bounding", difference: "CapBnd", dear: true},
	// The program of root has for its effective set what it has for its permitted one
	// (capabilities(7), "Transformation of capabilities during execve()").
	{lie: "permitted", difference: "CapPrm", with: "CapEff", dear: true},
	{lie: "capability", difference: "CapEff", with: "CapBnd; CapPrm"},
	{lie: "inheritable", difference: "CapInh", dear: true},
	// What is ambient is inheritable.
	{lie: "ambient", difference: "CapAmb", with: "CapInh", dear: true},
	{lie: "new-privileges", difference: "no_new_privs: asked for 1, the cell has 0"},
	{lie: "no-seccomp", difference: "seccomp mode: asked for 2, the cell has 0", with: "system call", dear: true},
	{lie: "permissive-seccomp", difference: "system call unshare (invalid argument): asked for its refusal, the cell has it open", with: "system call", dear: true},
	{lie: "a-mount", difference: "mount: nothing was asked for at /extra, the cell has a tmpfs there"},
	{lie: "host-mount", difference: "mount: nothing was asked for at /mnt", dear: true},
	{lie: "workspace", difference: "mount /work/workspace: asked for what podgrade prepared", with: "mount /work/workspace", dear: true}, // that is read-only
	{lie: "writable", difference: "mount /sys/fs/cgroup: asked for ro", dear: true},
	{lie: "programs", difference: "mount /dev/shm: asked for noexec", dear: true},
	{lie: "devices", difference: "mount /dev/shm: asked for nodev", dear: true},
	{lie: "set-uid", difference: "mount /dev/shm: asked for nosuid", dear: true},
	{lie: "kind", difference: "mount /dev/mqueue: asked for mqueue, the cell has tmpfs", dear: true},
	{lie: "no-mount", difference: "mount /dev/mqueue: asked for mqueue, the cell has no mount there", dear: true},
	{lie: "hidepid", difference: "mount /proc: asked for hidepid=2"},
	{lie: "no-mask", difference: "masked path /proc/keys: asked for a mount over it, the cell has it open", dear: true},
	{lie: "other-mask", difference: "masked path /proc/keys: asked for an empty mount", dear: true},
	{lie: "no-readonly", difference: "read-only path /proc/sys: asked for a mount over it, the cell has it open", dear: true},
	{lie: "writable-cover", difference: "read-only path /proc/sys: asked for ro", dear: true},
	{lie: "core", difference: "RLIMIT_CORE: asked for 0/0, the cell has 0/4096", dear: true},
	{lie: "processes", difference: "RLIMIT_NPROC", dear: true},
	{lie: "files", difference: "RLIMIT_NOFILE", dear: true},
	{lie: "root", difference: "root file system: asked for the image that was mounted", with: "mount /:"}, // in memory, where no program starts
	{lie: "read-only-root", difference: "mount /: asked for rw, the cell has ro", dear: true,
		podman: "set the mode of the container's /: read-only file system"},
	{lie: "read-only-workspace", difference: "mount /work/workspace: asked for rw, the cell has ro", dear: true},
	{lie: "no-programs", difference: "mount /work/workspace: asked for exec, the cell has rw,nosuid,nodev,noexec", dear: true},
	{lie: "interface", difference: "network interfaces: asked for lo, the cell has extra lo other", dear: true},
	// The kernel gives nobody a /sys of a network that is not theirs: the runtime binds the host's.
	{lie: "share-net", difference: "net namespace: asked for its own, the cell has the worker's",
		with: "network interfaces; mount /sys; mount: nothing was asked for at /sys/; masked path /sys/; read-only path /sys/", dear: true},
	{lie: "share-ipc", difference: "ipc namespace: asked for its own, the cell has the worker's"},
	{lie: "share-uts", difference: "uts namespace: asked for its own, the cell has the worker's", dear: true},
	{lie: "share-cgroup", difference: "cgroup namespace: asked for its own, the cell has the worker's", dear: true},
	{lie: "share-user", difference: "user namespace: asked for its own, the cell has the worker's", with: "uid map; gid map"},
}

// neighbourly lies put a cell into a namespace of another one that runs.
var neighbourly = []falsehood{
	{lie: "neighbour-net", difference: "net namespace: asked for its own, the cell has that of another cell", with: "mount /sys; mount: nothing was asked for at /sys/; masked path /sys/; read-only path /sys/"},
	// What was mounted of another's queues, the runtime binds.
	{lie: "neighbour-ipc", difference: "ipc namespace: asked for its own, the cell has that of another cell", with: "mount /dev/mqueue"},
	{lie: "neighbour-uts", difference: "uts namespace: asked for its own, the cell has that of another cell"},
	{lie: "neighbour-user", difference: "user namespace: asked for its own, the cell has that of another cell"},
	{lie: "neighbour-cgroup", difference: "cgroup namespace: asked for its own, the cell has that of another cell"},
}

func init() {
	for _, call := range oci.Calls() {
		lies = append(lies, falsehood{lie: "seccomp-lets-" + string(call), difference: "system call " + string(call) + " (", dear: call != oci.CallPrlimit})
	}
}

// A runtime that makes anything otherwise than it was asked is found out before
// a command runs, whichever engine started it, and the difference is named.
func TestALyingRuntimeIsFoundOut(t *testing.T) {
	i := as(t, "") // made by the host that others share, with the real runtime
	liar(t)
	h := start(t, options(t))
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	overEngines(t, func(t *testing.T, engine string) {
		honest := order(t, i)
		honest.Engine = engine
		withDockerCapabilities(&honest)
		alive(t, openOn(t, h, honest)) // and the compiled filter of this one is kept
		t.Run("lies", func(t *testing.T) {
			for _, l := range lies {
				if engine == isolation.EnginePodman && l.dear && os.Getenv("PODGRADE_TEST_SOAK") == "" {
					continue // the bundle engine's is found out by the same code
				}
				t.Run(l.lie, func(t *testing.T) {
					t.Parallel()
					o := honest
					if l.sealed {
						o = order(t, i)
						o.Engine = engine
					}
					o.Plan.Hostname = "lie-" + l.lie
					c, err := h.Open(ctx(t), o)
					if err == nil {
						c.Close()
						t.Fatal("the cell was given out")
					}
					if engine == isolation.EnginePodman && l.podman != "" {
						if !strings.Contains(err.Error(), l.podman) {
							t.Error(err)
						}
						return
					}
					l.found(t, err)
				})
			}
		})
		alive(t, openOn(t, h, honest))
	})
}

// Two rows that are graded at once must not meet, in shared memory or on a port: a
// cell in a namespace of another one is refused, and the other one goes on.
func TestARuntimeThatPutsTwoCellsTogetherIsFoundOut(t *testing.T) {
	i := as(t, "")
	liar(t)
	h := start(t, options(t))
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	neighbour := openOn(t, h, order(t, i))
	overEngines(t, func(t *testing.T, engine string) {
		for _, l := range neighbourly {
			t.Run(l.lie, func(t *testing.T) {
				o := order(t, i)
				o.Engine, o.Plan.Hostname = engine, "lie-"+l.lie
				c, err := h.Open(ctx(t), o)
				if err == nil {
					c.Close()
					t.Fatal("the cell was given out")
				}
				l.found(t, err)
			})
		}
		// With another one's processes, or its mounts, nothing starts that could be verified.
		for lie, said := range map[string]string{"neighbour-pid": "this process is not PID 1 of a pid namespace", "neighbour-mounts": "No such file or directory"} {
			o := order(t, i)
			o.Engine, o.Plan.Hostname = engine, "lie-"+lie
			c, err := h.Open(ctx(t), o)
			if err == nil {
				c.Close()
				t.Errorf("%s: the cell was given out", lie)
			} else if faultKind(err) != isolation.Infrastructure || !strings.Contains(err.Error(), said) {
				t.Errorf("%s: kind %v: %v", lie, faultKind(err), err)
			}
		}
	})
	alive(t, neighbour)
}

// found looks that the cell was refused for the lie, and for nothing else.
func (l falsehood) found(t *testing.T, err error) {
	t.Helper()
	_, text, ok := strings.Cut(err.Error(), "it is not what was asked for: ")
	if !ok || !strings.Contains(err.Error(), "verify the cell") || faultKind(err) != isolation.Infrastructure {
		t.Fatalf("kind %v: %v", faultKind(err), err)
	}
	text, _, _ = strings.Cut(text, " (check the OCI runtime")
	named := false
	for _, difference := range strings.Split(text, "; ") {
		begins := func(with string) bool { return strings.HasPrefix(difference, with) }
		switch {
		case begins(l.difference):
			named = true
		case l.with == "" || !slices.ContainsFunc(strings.Split(l.with, "; "), begins):
			t.Errorf("named as well: %s", difference)
		}
	}
	if !named {
		t.Errorf("the lie is not named: %s", text)
	}
}

// Each difference that Verify can name is that of a lie: those whose names stand in its
// text, and those of the sets that it goes through.
func TestThereIsALieForEveryFieldThatIsVerified(t *testing.T) {
	var fields []string
	for _, file := range []string{"verify.go", "verify_mounts.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "oci", file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			to, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"differ", "equal", "covered"}, to.Sel.Name) {
				return true
			}
			ast.Inspect(call.Args[0], func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok {
					fields = append(fields, strings.Trim(text.Value, `"`))
				}
				return true
			})
			return true
		})
	}
	fields = append(fields, "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
		"/dev/shm: asked for nosuid", "/dev/shm: asked for nodev", "/dev/shm: asked for noexec", "cgroup: asked for ro", "nothing was asked for", "mount /: asked for rw", "asked for exec")
	s, err := oci.Spec(oci.Plan{}, oci.Facts{IDs: oci.MapSize})
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range s.Process.Rlimits {
		fields = append(fields, limit.Type)
	}
	for _, name := range oci.NamespaceFiles() {
		if name != "pid" && name != "mnt" { // without those nothing starts, see below
			fields = append(fields, name+" namespace")
		}
	}
	for _, name := range oci.NamespaceFiles() {
		if name != "pid" && name != "mnt" && !slices.ContainsFunc(neighbourly, func(l falsehood) bool { return strings.HasPrefix(l.difference, name+" ") }) {
			t.Errorf("there is no lie about the %s namespace of a neighbour", name)
		}
	}
	if len(fields) < 25 {
		t.Fatalf("only %d fields were found: %q", len(fields), fields)
	}
	for _, field := range fields {
		// A specification without a filter or with an unknown set is our own fault, not a runtime's.
		if field != "seccomp" && !slices.ContainsFunc(lies, func(l falsehood) bool { return strings.Contains(l.difference, field) }) {
			t.Errorf("there is no lie about %q", field)
		}
	}
}

// Without a namespace of its own for processes, or for mounts, nothing starts that
// could be verified.
func TestARuntimeThatSharesProcessesOrMountsStartsNoCell(t *testing.T) {
	i := as(t, "")
	liar(t)
	overEngines(t, func(t *testing.T, engine string) {
		for _, lie := range []string{"share-pid", "share-mounts"} {
			t.Run(lie, func(t *testing.T) {
				h := start(t, options(t)) // of its own: what is mounted stays in it
				o := order(t, i)
				o.Engine, o.Plan.Hostname = engine, "lie-"+lie
				c, err := h.Open(ctx(t), o)
				if err == nil {
					c.Close()
					t.Error("the cell was given out")
				} else if faultKind(err) != isolation.Infrastructure || !strings.Contains(err.Error(), "mount `proc` to `proc`: Operation not permitted") {
					t.Errorf("kind %v: %v", faultKind(err), err)
				}
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
