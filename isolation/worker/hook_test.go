package worker

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/oci"
)

// configuration is that of a container whose specification lies in file.
func configuration(t testing.TB, file string) []byte {
	t.Helper()
	text, err := json.Marshal(specs.Spec{
		Version: "1.0.2-dev", Root: &specs.Root{Path: "/merged"},
		Process: &specs.Process{Args: []string{"/bin/false"}}, Linux: &specs.Linux{},
		Annotations: map[string]string{oci.SpecAnnotation: file},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func wantedFile(t testing.TB) string {
	t.Helper()
	text, err := json.Marshal(specs.Spec{
		Version: "1.0.2", Hostname: "cell",
		Process: &specs.Process{Args: []string{oci.InitPath}}, Linux: &specs.Linux{},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestHookReturnsTheSpecificationThatTheContainerNames(t *testing.T) {
	var out bytes.Buffer
	if err := hook(bytes.NewReader(configuration(t, wantedFile(t))), &out); err != nil {
		t.Fatal(err)
	}
	var got specs.Spec
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Hostname != "cell" || got.Root.Path != "/merged" || got.Process.Args[0] != oci.InitPath {
		t.Errorf("got %s", out.String())
	}
}

func TestHookRefusesWhatItCannotRead(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"no JSON":           {[]byte("{"), "read the configuration"},
		"too large":         {bytes.Repeat([]byte(" "), maxConfiguration+1), "too large"},
		"no annotation":     {configuration(t, ""), "not a clean absolute path"},
		"a relative path":   {configuration(t, "etc/config.json"), "not a clean absolute path"},
		"a path with dots":  {configuration(t, "/etc/../etc/passwd"), "not a clean absolute path"},
		"no such file":      {configuration(t, "/nowhere/config.json"), "no such file"},
		"a broken file":     {configuration(t, broken), "read the cell's specification"},
		"a file of no spec": {configuration(t, "/dev/null"), "read the cell's specification"},
	} {
		var out bytes.Buffer
		if err := hook(bytes.NewReader(c.in), &out); err == nil || !strings.Contains(err.Error(), c.want) || out.Len() > 0 {
			t.Errorf("%s: %v, and %d bytes were written", name, err, out.Len())
		}
	}
}

func TestHookIsForOurContainersOnly(t *testing.T) {
	text, err := HookFile("/opt/podgrade/libexec/podgrade-worker")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"hook":{"args":["podgrade-worker","hook"],"path":"/opt/podgrade/libexec/podgrade-worker"},"stages":["precreate"],"version":"1.0.0","when":{"annotations":{"^podgrade\\.spec$":"^/"}}}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func FuzzHook(f *testing.F) {
	f.Add(configuration(f, wantedFile(f)))
	f.Add([]byte(`{"root":{},"process":{},"linux":{},"annotations":{"podgrade.spec":"/dev/null"}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if err := hook(bytes.NewReader(in), &out); err == nil && !json.Valid(out.Bytes()) {
			t.Errorf("it wrote %q", out.Bytes())
		}
	})
}

// What Podman mounted for its container is noted: the cell's root is compared with it.
func TestHookNotesTheRootThatPodmanMounted(t *testing.T) {
	file := wantedFile(t)
	if err := hook(bytes.NewReader(configuration(t, file)), io.Discard); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(rootFile(file)); err != nil || string(got) != "/merged" {
		t.Errorf("noted %q, %v", got, err)
	}
}
