package isolation_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation/worker"
)

// A disk without room for an archive's tree is told from an archive that is not
// to be trusted, by how the stage ends.
func TestUnpackingOnAFullDiskIsNoRefusal(t *testing.T) {
	archive := func(size int) *bytes.Buffer {
		t.Helper()
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		must(t, w.WriteHeader(&tar.Header{Name: "file", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(size), Format: tar.FormatPAX}))
		if _, err := w.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		must(t, w.Close())
		return &b
	}
	for _, test := range []struct {
		text *bytes.Buffer
		code int
		says string
	}{
		{archive(1 << 20), worker.ExitNoSpace, "no space left"},
		{bytes.NewBufferString(strings.Repeat("none", 1000)), 1, "podgrade-worker: "},
	} {
		cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
			`mount -t tmpfs -o size=256k none "$1"; exec "$0" "$2" '{"most": {"Entries": 10, "Bytes": 4000000}}' 1<"$1"`,
			filepath.Join(libexec(), "podgrade-worker"), t.TempDir(), worker.StageUnpack)
		var said bytes.Buffer
		cmd.Stdin, cmd.Stderr = test.text, &said
		var ended *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &ended) || ended.ExitCode() != test.code || !strings.Contains(said.String(), test.says) {
			t.Errorf("it ended with %v: %s", err, &said)
		}
	}
}
