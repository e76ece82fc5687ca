package podgrade_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tools are what .ci/check itself calls.
var tools = []string{"bash", "cat", "id", "uname", "awk", "sed", "head", "unshare", "true"}

// runCheck runs .ci/check with only the programs given on PATH and the storage
// configuration given. It returns what was printed and the exit code.
func runCheck(t *testing.T, programs []string, storage, runtimeDir string) (string, int) {
	t.Helper()
	bin, home := t.TempDir(), t.TempDir()
	for _, name := range append(programs, tools...) {
		real, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("%v: run .ci/prepare", err)
		}
		if err := os.Symlink(real, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	configuration := filepath.Join(home, ".config", "containers", "storage.conf")
	if err := os.MkdirAll(filepath.Dir(configuration), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(configuration, []byte(storage), 0o644); err != nil {
		t.Fatal(err)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command(bash, ".ci/check", "test")
	check.Env = []string{"PATH=" + bin, "HOME=" + home, "XDG_RUNTIME_DIR=" + runtimeDir}
	var out bytes.Buffer
	check.Stdout, check.Stderr = &out, &out
	err = check.Run()
	if err != nil && check.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), check.ProcessState.ExitCode()
}

func TestCheckSaysWhatToInstall(t *testing.T) {
	all := []string{"podman", "crun", "newuidmap", "newgidmap", "mmdebstrap", "runc", "pasta", "slirp4netns", "git", "node", "npm"}
	const overlay = "[storage]\ndriver = \"overlay\"\n"
	for _, c := range []struct {
		name       string
		programs   []string
		storage    string
		runtimeDir string
		want       []string
	}{
		{"all there", all, overlay, t.TempDir(), nil},
		{"nothing installed", nil, overlay, t.TempDir(), []string{"apt-get install podman", "apt-get install crun", "apt-get install uidmap", "apt-get install passt slirp4netns", "apt-get install git", "apt-get install python3-venv npm"}},
		{"no runc", slices.Delete(slices.Clone(all), 5, 6), overlay, t.TempDir(), []string{"apt-get install crun runc"}},
		{"no podman", all[1:], overlay, t.TempDir(), []string{"apt-get install podman"}},
		{"vfs", all, "[storage]\ndriver = \"vfs\"\n", t.TempDir(), []string{"Podman would use vfs", `driver = "overlay"`}},
		{"no runtime directory", all, overlay, "/nonexistent", []string{"/nonexistent"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, code := runCheck(t, c.programs, c.storage, c.runtimeDir)
			wantCode := 0
			if len(c.want) > 0 {
				wantCode = 2
			}
			if code != wantCode || c.want == nil && out != "" {
				t.Errorf("exit code %d, want %d:\n%s", code, wantCode, out)
			}
			for _, text := range c.want {
				if !strings.Contains(out, text) {
					t.Errorf("%q is not in:\n%s", text, out)
				}
			}
			if got, want := strings.Count(out, "    do: "), len(c.want); c.name != "vfs" && got != want {
				t.Errorf("%d things to do, want %d:\n%s", got, want, out)
			}
		})
	}
}
