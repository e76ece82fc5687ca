package regrade_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks/record"
)

// leaves exports a row as options say.
func (f *travel) leaves(row, file string, change func(*regrade.ExportOptions)) error {
	o := regrade.ExportOptions{
		Paths: true, Start: func(context.Context) (regrade.ExportEngines, error) { return f, nil },
		Notice: io.Discard, Lookup: func(string) (string, bool) { return "", false }, Version: "1",
	}
	change(&o)
	_, err := regrade.Export(f.t.Context(), row, file, o)
	return err
}

// TestWhatThePolicyDeniesNeverTravels: neither the option nor a signature takes it
// along; what it allows is not asked about.
func TestWhatThePolicyDeniesNeverTravels(t *testing.T) {
	f, work := newTravel(t), t.TempDir()
	os.Chmod(work, 0o700)
	row := f.row(filepath.Join(work, "run"), "t", f.image("root"))
	file := filepath.Join(work, "policy.yaml")
	for _, c := range []struct {
		policy string
		option bool
		want   string
	}{
		{"deny: {paths: [" + work + "/tasks/key]}", true, "denies what is asked for"},
		{"deny: {paths: [" + work + "/tasks]}\nallow: {paths: [/]}", true, "denies what is asked for"},
		{"deny: {paths: [" + work + "/others]}", true, ""},
		{"deny: {paths: [" + work + "/others]}", false, "nobody has accepted"},
		{"allow: {paths: [" + work + "/tasks]}", false, ""},
	} {
		if err := os.WriteFile(file, []byte(c.policy), 0o600); err != nil {
			t.Fatal(err)
		}
		said, err := policy.OpenFile(file)
		if err != nil {
			t.Fatal(err)
		}
		archive := filepath.Join(t.TempDir(), "a.tar")
		err = f.leaves(row, archive, func(o *regrade.ExportOptions) { o.Policy, o.Paths = said, c.option })
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.policy, err, c.want)
		}
		if _, there := os.Stat(archive); (there == nil) != (c.want == "") {
			t.Errorf("%s: the archive: %v", c.policy, there)
		}
	}
}

// TestTheTaskFileIsLookedAtWhereItsDirectoryIs: a path can lead past the directory
// that is granted, and then the task file of something else vouches for it.
func TestTheTaskFileIsLookedAtWhereItsDirectoryIs(t *testing.T) {
	f, work := newTravel(t), t.TempDir()
	row := f.row(filepath.Join(work, "run"), "t", f.image("root"))
	// By its text PRIVATE/link/../t.yaml lies in PRIVATE, and the kernel finds it in
	// tasks.
	private, source := filepath.Join(work, "private"), filepath.Join(work, "tasks", "t.yaml")
	if err := errors.Join(os.MkdirAll(filepath.Join(private, "key"), 0o755), os.Symlink(filepath.Join(work, "tasks", "key"), filepath.Join(private, "link")),
		os.WriteFile(filepath.Join(private, "secret"), []byte("private"), 0o600)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(row, record.TaskFile)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.ReplaceAll(text, []byte(source), []byte(private+"/link/../t.yaml"))
	if bytes.Equal(forged, text) {
		t.Fatal("nothing was forged")
	}
	if err := os.WriteFile(name, forged, 0o644); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(work, "a.tar")
	none := func(*regrade.ExportOptions) {}
	if err := f.leaves(row, archive, none); err == nil || !strings.Contains(err.Error(), "not on this host") {
		t.Errorf("without a task file there: %v", err)
	}
	if err := os.WriteFile(filepath.Join(private, "t.yaml"), []byte("task_id: another\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.leaves(row, archive, none); err == nil || !strings.Contains(err.Error(), `its task_id is "another"`) {
		t.Errorf("with that of another task: %v", err)
	}
}

// TestTheSigningKeyStaysHere: where the task file lies in somebody's home, neither
// the key nor podgrade's own data is in the archive, and nobody looks into them; and
// what the key lies in is no reference.
func TestTheSigningKeyStaysHere(t *testing.T) {
	f, work := newTravel(t), t.TempDir()
	row, home := f.row(filepath.Join(work, "run"), "t", f.image("root")), filepath.Join(work, "tasks")
	keys, scratch := &policy.Keys{Dir: filepath.Join(home, ".config/podgrade/keys")}, filepath.Join(home, ".local/share/podgrade/scratch")
	if _, err := keys.Public(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(scratch, "closed"), 0o700), os.WriteFile(filepath.Join(scratch, "data"), []byte("own data"), 0o600),
		os.Chmod(filepath.Join(scratch, "closed"), 0), os.WriteFile(filepath.Join(home, ".config", "other"), []byte("taken along"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(scratch, "closed"), 0o700) })
	archive := filepath.Join(work, "a.tar")
	ours := func(o *regrade.ExportOptions) { o.Keys, o.Scratch = keys, scratch }
	if err := f.leaves(row, archive, ours); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(archive)
	if err != nil || !bytes.Contains(text, []byte("taken along")) {
		t.Errorf("what lies beside is not there: %v", err)
	}
	for _, not := range []string{"ed25519-private:", "own data"} {
		if bytes.Contains(text, []byte(not)) {
			t.Errorf("the archive holds %s", not)
		}
	}
	name := filepath.Join(row, record.TaskFile)
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, reference := range []string{keys.Dir, ".config/podgrade/keys", home + "/.config/podgrade/keys/../keys"} {
		os.WriteFile(name, bytes.Replace(before, []byte(`{"directory": "key"}`), []byte(`{"directory": "`+reference+`"}`), 1), 0o644)
		if err := f.leaves(row, archive+"2", ours); err == nil || !strings.Contains(err.Error(), "where the signing key of this user is") {
			t.Errorf("the reference %s: %v", reference, err)
		}
	}
}
