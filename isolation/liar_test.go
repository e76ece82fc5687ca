package isolation_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
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

// podmanTells: every so many lies are told to Podman too, which takes three times as
// long; all of them in a soak. What finds them out is the same for both engines.
const podmanTells = 4

// lies are what a runtime makes otherwise than it was asked, and the difference
// that must be named. Each is alone but where alone is false: there the lie
// cannot be told without a second one.
var lies = []struct {
	lie, difference string
	alone           bool
}{
	{"uid", "user ids: asked for 0 0 0 0, the cell has 7 7 7 7", false}, // who is not root holds no capability
	{"gid", "group ids: asked for 0 0 0 0, the cell has 7 7 7 7", true},
	{"group", "supplementary groups", true},
	{"uid-map", "uid map", true},
	{"gid-map", "gid map", true},
	{"wide-map", "uid map", true},
	{"bounding", "CapBnd", true},
	{"capability", "CapEff", false},
	{"permitted", "CapPrm", false},
	{"inheritable", "CapInh", true},
	{"new-privileges", "no_new_privs: asked for 1, the cell has 0", true},
	{"no-seccomp", "seccomp mode: asked for 2, the cell has 0", false},
	{"permissive-seccomp", "system call unshare (invalid argument): asked for its refusal, the cell has it open", false},
	{"seccomp-lets-prlimit", "system call prlimit64 (it succeeded)", true},
	{"seccomp-lets-keyctl", "system call keyctl", true},
	{"seccomp-lets-mount", "system call mount (bad address)", true},
	{"a-mount", "mount: nothing was asked for at /extra, the cell has a tmpfs there", true},
	{"host-mount", "mount: nothing was asked for at /mnt", true},
	{"workspace", "mount /work/workspace: asked for what podgrade prepared", true},
	{"writable", "mount /sys/fs/cgroup: asked for ro", true},
	{"devices", "mount /dev/shm: asked for noexec", true},
	{"kind", "mount /dev/mqueue: asked for mqueue, the cell has tmpfs", true},
	{"no-mount", "mount /dev/mqueue: asked for mqueue, the cell has no mount there", true},
	{"hidepid", "mount /proc: asked for hidepid=2", true},
	{"no-mask", "masked path /proc/keys", true},
	{"no-readonly", "read-only path /proc/sys", true},
	{"core", "RLIMIT_CORE: asked for 0/0, the cell has 0/4096", true},
	{"processes", "RLIMIT_NPROC", true},
	{"files", "RLIMIT_NOFILE", true},
	{"root", "root file system: asked for the image that was mounted", true},
	{"share-net", "net namespace: asked for its own, the cell has the worker's", false},
	{"share-ipc", "ipc namespace: asked for its own, the cell has the worker's", false},
	{"share-uts", "uts namespace: asked for its own, the cell has the worker's", true},
	{"share-cgroup", "cgroup namespace: asked for its own, the cell has the worker's", true},
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
			for i, l := range lies {
				if engine == isolation.EnginePodman && l.lie == "root" {
					continue // the root file system is Podman's own matter there
				}
				if engine == isolation.EnginePodman && i%podmanTells != 0 && os.Getenv("PODGRADE_TEST_SOAK") == "" {
					continue
				}
				t.Run(l.lie, func(t *testing.T) {
					t.Parallel()
					o := honest
					o.Plan.Hostname = "lie-" + l.lie
					c, err := h.Open(ctx(t), o)
					if err == nil {
						c.Close()
						t.Fatal("the cell was given out")
					}
					text := err.Error()
					if !strings.Contains(text, "verify the cell") || !strings.Contains(text, l.difference) || faultKind(err) != isolation.Infrastructure {
						t.Errorf("kind %v: %s", faultKind(err), text)
					}
					if n := strings.Count(text, "asked for"); l.alone && n-1 != 1 {
						t.Errorf("%d differences instead of one: %s", n-1, text)
					}
				})
			}
		})
		alive(t, openOn(t, h, honest))
	})
}
