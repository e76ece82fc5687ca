package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// linked makes links in the root of an image.
func linked(t *testing.T, root int, links map[string]string) {
	t.Helper()
	top, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", root))
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range links {
		at := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, at); err != nil {
			t.Fatal(err)
		}
	}
}

// A program is all that leads to it: the link in a directory of PATH, those that it
// goes on through, the program at the end, and the links to the directory itself, as
// /bin is one in the images of most distributions.
func TestWhatAProgramStandsOn(t *testing.T) {
	root := imageWith(t, "usr/bin/mawk", "usr/bin/sh", "opt/tool/bin/verify", "opt/other/file", "etc/passwd",
		"usr/lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/blas/libblas.so.3", "usr/lib/python3.11/os.py", "etc/python3.11/sitecustomize.py")
	linked(t, root, map[string]string{
		"bin": "usr/bin", "lib": "/usr/lib", "usr/bin/awk": "/etc/alternatives/awk", "etc/alternatives/awk": "../../usr/bin/mawk",
		"usr/local/bin/verify": "/opt/current/bin/verify", "opt/current": "tool", "usr/bin/gone": "/srv/gone",
		"usr/bin/a": "b", "usr/bin/b": "a",
		"usr/lib/x86_64-linux-gnu/libblas.so.3": "/etc/alternatives/libblas.so.3", "etc/alternatives/libblas.so.3": "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3",
		"usr/lib/python3.11/sitecustomize.py": "/etc/python3.11/sitecustomize.py",
	})
	tools := openToolbox(root, "/usr/local/bin:/usr/bin:/bin")
	for name, want := range map[string]bool{
		"bin":                             true, // the link itself
		"lib":                             true,
		"usr":                             true,
		"etc/alternatives":                true,
		"etc/alternatives/awk":            true, // between
		"usr/bin/mawk":                    true,
		"usr/local/bin/verify":            true,
		"opt/current":                     true,
		"opt/tool/bin/verify":             true, // at the end
		"opt/tool":                        true,
		"srv/gone":                        true, // where a link of PATH leads to nothing
		"usr/bin/b":                       true,
		"etc/nsswitch.conf":               true,
		"etc/alternatives/libblas.so.3":   true,
		"etc/python3.11/sitecustomize.py": true,

		"usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v2/libc.so.6": true, // before the image's
		"usr/lib/glibc-hwcaps":                      true,
		"usr/lib/x86_64-linux-gnu/tls/libc.so.6":    true,
		"usr/lib/libc.so.6":                         true,
		"usr/lib/x86_64-linux-gnu/libnss_evil.so.2": true,

		"bin/new":                             false, // bin is a link: this is no place
		"etc/alternatives/new":                false,
		"opt/tool/bin/new":                    false,
		"opt/other/file":                      false,
		"srv/other":                           false,
		"usr/lib/x86_64-linux-gnu/libmine.so": false,
		"usr/lib/mine/libc.so.6":              false, // where no loader looks
		"usr/local/lib/python3.11/dist-packages/m/libc.so.6": false,
	} {
		if got := tools.concerns(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTrail(t *testing.T) {
	root := imageWith(t, "a/b/file")
	linked(t, root, map[string]string{"l": "a", "a/up": "../..", "a/b/abs": "/a/b/file", "loop": "loop", "out": "../../../a"})
	for name, want := range map[string][]string{
		"a/b/file":   {"a/b/file"},
		"/l/b/file":  {"l", "a/b/file"},
		"l/up/a/b":   {"l", "a/up", "a/b"},
		"a/b/abs":    {"a/b/abs", "a/b/file"},
		"out/b/file": {"out", "a/b/file"},
		"no/where":   {"no/where"},
		"a/./b/../b": {"a/b"},
		"/":          {""},
	} {
		left := 1000
		if got := trail(root, name, &left); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	left := 1000
	if got := trail(root, "loop/x", &left); len(got) != mostLinks+1 {
		t.Errorf("a loop: %d places", len(got))
	}
	left = 2
	if got := trail(root, "a/b/abs", &left); len(got) != 0 || left != 0 {
		t.Errorf("of two names: %q, and %d are left", got, left)
	}
}

// An image whose links lead on and on costs no more than a bound, and nothing that an
// agent changed on it goes without a stamp.
func TestAnImageOfTooManyLinksIsAllDoubted(t *testing.T) {
	root := imageWith(t, "bin/sh")
	tools := openToolbox(root, "/bin")
	if tools.steps == 0 || tools.concerns("opt/file") {
		t.Fatalf("%d steps are left of a small image", tools.steps)
	}
	tools.steps = 1
	tools.standsOn("bin/sh")
	if !tools.concerns("opt/file") {
		t.Error("links that nobody followed do not count")
	}
}
