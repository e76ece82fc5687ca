package regrade

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"podgrade/tasks/record"
)

// Whatever changes what is built from a tree changes its digest, also in its git
// checkout and beyond what is read of it; what git writes by the way does not.
func TestTheDigestOfATreeSeesEveryChange(t *testing.T) {
	before := mostDigested
	mostDigested = 10
	t.Cleanup(func() { mostDigested = before })
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	digest := func(ignore ...string) string {
		t.Helper()
		sum, err := treeDigest(dir, ignore, nil)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	put("a", "12345678")
	put("large", "more than ten bytes")
	put("later", "z")
	seen := map[string]string{}
	expect := func(what string, changed bool) {
		t.Helper()
		sum := digest()
		if _, known := seen[sum]; known == changed {
			t.Errorf("%s: the digest is that of %q", what, seen[sum])
		}
		seen[sum] = what
	}
	expect("as it is", true)
	put("later", "y")
	expect("a file behind a large one", true)
	put("large", "more than 10 bytes now")
	expect("a large file", true)
	old := time.Unix(1, 0)
	if err := os.Chtimes(filepath.Join(dir, "large"), old, old); err != nil {
		t.Fatal(err)
	}
	expect("the time of a large file, of which nothing else is read", true)
	if err := os.Chtimes(filepath.Join(dir, "a"), old, old); err != nil {
		t.Fatal(err)
	}
	expect("the time of a file that is read", false)
	put(".git/HEAD", "ref: refs/heads/main\n")
	expect("a checkout without a commit", true)
	put(".git/packed-refs", "# pack-refs\n1111 refs/heads/main\n2222 refs/heads/other\n")
	expect("a packed branch", true)
	put(".git/refs/heads/main", "3333\n")
	expect("a commit", true)
	put(".git/index", "what git status writes")
	put(".git/refs/remotes/origin/main", "4444\n")
	expect("what git writes by the way", false)
	put(".git/HEAD", "5555\n")
	expect("a commit without a branch", true)
	if digest(".git") == digest() {
		t.Error("a checkout that is ignored counts")
	}
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	put("x", "1")
	without := digest()
	if err := os.Remove(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	if digest() != without {
		t.Error("a .git that leads out counts")
	}
}

// More files than a set-up copies have a digest too.
func TestTheDigestOfManyFiles(t *testing.T) {
	before := mostDigestedEntries
	mostDigestedEntries = 5
	t.Cleanup(func() { mostDigestedEntries = before })
	if before <= mostTreeEntries {
		t.Errorf("a digest ends at %d entries, where a set-up does", before)
	}
	dir := t.TempDir()
	for i := range 6 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if sum, err := treeDigest(dir, nil, nil); err == nil {
		t.Errorf("a tree without end has the digest %s", sum)
	}
}

// An imported tree is shown as it lies there, so that its digest leaves nothing
// out: neither what looks like a run nor a link beside one.
func TestTheDigestOfAnImportedTreeLeavesNothingOut(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("sub/"+record.FingerprintFile, "{}")
	put("sub/check.sh", "exit 1")
	before, err := importedDigest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkImported(dir, before); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	put("sub/check.sh", "exit 0")
	if err := checkImported(dir, before); err == nil {
		t.Error("a file beside a run's fingerprint may change")
	}
	put("sub/check.sh", "exit 1")
	if err := os.Symlink("gone", filepath.Join(dir, record.Latest)); err != nil {
		t.Fatal(err)
	}
	if err := checkImported(dir, before); err == nil {
		t.Error("a link may come")
	}
}
