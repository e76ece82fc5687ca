package regrade

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"podgrade/policy"
	"podgrade/regrade/archive"
	"podgrade/tasks/record"
)

// TestRunsAreNoPartOfATree: where runs lie in a task's directories, neither the
// run itself nor others change what the row is or get into its cell; what only
// looks like a run does.
func TestRunsAreNoPartOfATree(t *testing.T) {
	dir := contentsOf(t)
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, "image", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	run := filepath.Join(dir, "image", "runs", "now")
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	digest := func() string {
		t.Helper()
		d, err := DigestsOf(digestRow(t, dir, nil), hidden{run})
		if err != nil {
			t.Fatal(err)
		}
		return d.Run
	}
	put("sub/kept.tar", "of another program")
	before := digest()
	put("export.tar", string(anArchive(t)))
	put("sub/.half.tar.1.tmp", string(anArchive(t)[:700]))
	put("runs/now/default/a/00/task.log", "of the row itself")
	put("runs/older/"+record.RunFile, `{"task_results": []}`)
	put("runs/older/default/a/00/artifacts/a/answer", "42")
	put("runs/begun/"+record.FingerprintFile, `{}`)
	if err := os.Symlink("older", filepath.Join(dir, "image", "runs", record.Latest)); err != nil {
		t.Fatal(err)
	}
	if digest() != before {
		t.Error("runs change the run digest")
	}
	want := []string{"export.tar", "runs/begun", "runs/latest", "runs/now", "runs/older", "sub/.half.tar.1.tmp"}
	if got := (hidden{run}).in(filepath.Join(dir, "image")); !slices.Equal(got, want) {
		t.Errorf("left out of a build: %q, want %q", got, want)
	}
	if elsewhere, err := treeDigest(filepath.Join(dir, "image"), nil, nil); err != nil || elsewhere == before {
		t.Errorf("the run itself is no run yet: %v", err)
	}
	for _, c := range []struct{ name, text string }{
		{"other/" + record.RunFile, `{"configurations": []}`},
		{"deep/" + record.Latest, "a file of that name"},
		{"runs/note", "beside the runs"},
	} {
		now := digest()
		if put(c.name, c.text); digest() == now {
			t.Errorf("%s is left out", c.name)
		}
	}
}

// anArchive is the smallest that an export could write.
func anArchive(t *testing.T) []byte {
	t.Helper()
	const files = "rows/00000/files.tar"
	m := archive.Manifest{
		MadeBy: "podgrade test",
		Rows:   []archive.Row{{VariantID: "default", TaskID: "a", Files: files}},
		Parts:  []archive.Part{{Name: files, SHA256: fmt.Sprintf("%x", sha256.Sum256(nil)), Entries: 1}},
	}
	var b bytes.Buffer
	if err := archive.Write(&b, &m, func(archive.Part) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(nil)), nil }); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestTheSigningKeyIsNoPartOfATree: where the key or podgrade's own data lies in a
// task's directories, a build, a template and the digests of both are without it.
func TestTheSigningKeyIsNoPartOfATree(t *testing.T) {
	dir := contentsOf(t)
	image := filepath.Join(dir, "image")
	keys, scratch := &policy.Keys{Dir: filepath.Join(image, ".config", "keys")}, filepath.Join(image, "scratch")
	if err := errors.Join(os.Mkdir(filepath.Join(image, ".config"), 0o700), os.Mkdir(scratch, 0o700)); err != nil {
		t.Fatal(err)
	}
	digest := func() string {
		t.Helper()
		d, err := DigestsOf(digestRow(t, dir, nil), hiddenFrom("", keys, scratch))
		if err != nil {
			t.Fatal(err)
		}
		return d.Run
	}
	before := digest()
	if _, err := keys.Public(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(scratch, "state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if digest() != before {
		t.Error("the key or podgrade's own data changes the run digest")
	}
	if got := hiddenFrom("", keys, scratch).in(image); !slices.Equal(got, []string{".config/keys", "scratch"}) {
		t.Errorf("left out of a build: %q", got)
	}
	if got := hiddenFrom("", nil, ""); len(got) != 0 {
		t.Errorf("nothing hides %q", got)
	}
}

// A file that has the name of a run's fingerprint, and is none, makes no run.
func TestAFileOfAnotherProgramMakesNoRun(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for text, want := range map[string]bool{"{}": true, `{"model": "m"}`: true, "": false, "a fingerprint": false, "[]": false} {
		if err := os.WriteFile(filepath.Join(dir, record.FingerprintFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if record.HoldsRun(root, ".") != want {
			t.Errorf("with %q it is a run: %v", text, !want)
		}
	}
}
