package isolation_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/hostfacts"
)

func facts(t *testing.T, o isolation.Options) hostfacts.Facts {
	t.Helper()
	f, err := isolation.ThisHost{Options: o}.Facts(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(o.Scratch); len(left) > 0 {
		t.Errorf("the doctor left %v", left)
	}
	return f
}

func status(t *testing.T, f hostfacts.Facts, check string) hostfacts.Status {
	t.Helper()
	for _, finding := range hostfacts.Examine(f).Checks {
		if finding.Check == check {
			return finding.Status
		}
	}
	t.Fatalf("there is no check %q", check)
	return ""
}

// TestDoctorOfAHostThatMakesCells: this host makes cells, as the other tests
// show.
func TestDoctorOfAHostThatMakesCells(t *testing.T) {
	f := facts(t, options(t))
	for _, finding := range hostfacts.Examine(f).Checks {
		if finding.Status == hostfacts.Broken {
			t.Errorf("%+v", finding)
		}
	}
	if w := f.Worker; !w.Tried || w.Problem != "" || w.Overlay != "" || w.Nested != "" || w.IDs < 65536 {
		t.Errorf("worker: %+v", w)
	}
	if f.Podman.Driver != "overlay" || f.Podman.Version == "" || f.Store.Path == "" || f.Store.FileSystem == "" || len(f.Runtimes) == 0 {
		t.Errorf("podman: %+v, store: %+v, runtimes: %+v", f.Podman, f.Store, f.Runtimes)
	}
}

func TestDoctorWithoutPodmanStillTriesTheWorker(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"newuidmap", "newgidmap"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	f := facts(t, options(t))
	if !f.Worker.Tried || f.Worker.Problem != "" || f.Worker.Overlay != "" {
		t.Errorf("worker: %+v", f.Worker)
	}
	for _, check := range []string{"podman", "runtime"} {
		if got := status(t, f, check); got != hostfacts.Broken {
			t.Errorf("%s is %s", check, got)
		}
	}
	if got := status(t, f, "user namespaces"); got != hostfacts.OK {
		t.Errorf("user namespaces are %s", got)
	}
}

// A store whose lock somebody else holds for long is no host without a store.
func TestDoctorDoesNotCallAPodmanBrokenThatGivesNoAnswerInTime(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\ncase $1 in --version) echo podman version 4.3.1 ;; *) exec sleep 600 ;; esac\n"
	if err := os.WriteFile(filepath.Join(bin, "podman"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	defer isolation.SetTrialGrace(5 * time.Second * patience())()
	f := facts(t, options(t))
	if f.Podman.Silent == "" || f.Podman.Problem != "" {
		t.Errorf("podman: %+v", f.Podman)
	}
	if got := status(t, f, "podman"); got != hostfacts.Degraded {
		t.Errorf("podman is %s", got)
	}
	for _, finding := range hostfacts.Examine(f).Checks {
		if finding.Status == hostfacts.Broken {
			t.Errorf("%+v", finding)
		}
	}
}

// A Podman that dies without a word is broken all the same.
func TestDoctorFindsAPodmanThatDiesWithoutAWord(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "podman"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	f := facts(t, options(t))
	if got := status(t, f, "podman"); got != hostfacts.Broken || f.Podman.Problem == "" {
		t.Errorf("podman is %s: %+v", got, f.Podman)
	}
}

func TestDoctorFindsABrokenInstallation(t *testing.T) {
	o := options(t)
	o.Libexec = t.TempDir()
	if got := status(t, facts(t, o), "installation"); got != hostfacts.Broken {
		t.Errorf("installation is %s", got)
	}
}

// A Podman that is told to be a client of another one has no images, and says nothing
// that would lead anybody to the setting.
func TestDoctorFindsAPodmanThatIsAClient(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "containers.conf")
	must(t, os.WriteFile(settings, []byte("[engine]\nremote = true\n"), 0o600))
	t.Setenv("CONTAINERS_CONF", settings)
	o := options(t)
	f := facts(t, o)
	if got := status(t, f, "podman"); got != hostfacts.Broken || !f.Podman.Remote {
		t.Errorf("podman is %s: %+v", got, f.Podman)
	}
	h := start(t, o)
	defer func() { must(t, h.Close()) }()
	if _, err := h.Images(ctx(t), true); err == nil || !strings.Contains(err.Error(), "remote = true") {
		t.Errorf("the list of images: %v", err)
	}
}
