package worker

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// imageWith makes the root of an image with files of these names.
func imageWith(t *testing.T, names ...string) int {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// An agent need not replace a file of the image to give its Python another
// module than the image has.
func TestWhatBendsThePythonOfAnImage(t *testing.T) {
	root := imageWith(t,
		"usr/bin/python3", "opt/venv/bin/python", "usr/lib/python3.11/json/__init__.py", "usr/lib/python3.11/json/decoder.py", "usr/lib/python3.11/os.py",
		"usr/lib/python3/dist-packages/yaml/__init__.py", "usr/local/lib/python3.11/dist-packages/google/api/__init__.py",
		"opt/venv/lib/python3.11/site-packages/pytest.py", "root/x",
	)
	tools := openToolbox(root, "/opt/venv/bin:/usr/bin")
	for name, bends := range map[string]bool{
		"usr/lib/python3.11/sitecustomize.py":                                   true,
		"usr/lib/python3/dist-packages/usercustomize/__init__.py":               true,
		"usr/lib/python3.11/sitecustomize.cpython-311-x86_64-linux-gnu.so":      true,
		"root/.local/lib/python3.11/site-packages/usercustomize.py":             true,
		"usr/local/lib/python3.11/dist-packages/evil.pth":                       true,
		"root/.local/lib/python3.11/site-packages/evil.pth":                     true,
		"usr/local/lib/python3.11/dist-packages/yaml/__init__.py":               true, // in front of dist-packages
		"root/.local/lib/python3.11/site-packages/yaml.py":                      true,
		"usr/lib/python3.11/yaml.py":                                            true,
		"usr/lib/python3.11/json/decoder.cpython-311-x86_64-linux-gnu.so":       true, // in front of decoder.py
		"usr/lib/python3.11/json/decoder/__init__.py":                           true,
		"usr/lib/python3.11/os.cpython-311-x86_64-linux-gnu.so":                 true,
		"usr/lib/python311.zip":                                                 true,
		"usr/lib/python3.11/__pycache__/os.cpython-311.pyc":                     true,
		"usr/lib/python3.11/json/__pycache__/__init__.cpython-311.pyc":          true,
		"opt/venv/lib/python3.11/site-packages/pytest.py":                       true,
		"opt/venv/lib/python3.11/site-packages/pytest/__init__.py":              true,
		"opt/venv/pyvenv.cfg":                                                   true,
		"usr/bin/pyvenv.cfg":                                                    true,
		"usr/local/lib/python3.11/dist-packages/mine/__init__.py":               false,
		"usr/local/lib/python3.11/dist-packages/mine/yaml.py":                   false, // a part of its own
		"usr/local/lib/python3.11/dist-packages/mine-1.dist-info/x.pth":         false,
		"usr/local/lib/python3.11/dist-packages/google/cloud/__init__.py":       false, // beside what the image has of google
		"usr/local/lib/python3.11/dist-packages/mine/__pycache__/a.cpython.pyc": false,
		"root/.local/lib/python3.11/site-packages/mine/__init__.py":             false,
		"usr/lib/python3.12/site-packages/mine.pth":                             true,
		"root/yaml.py":           false,
		"srv/app/pyvenv.cfg":     false,
		"srv/lib/python311.zip":  false,
		"usr/share/doc/json/doc": false,
	} {
		if got := tools.concerns(name); got != bends {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Caches of the image's own modules are no change; whatever else is compiled is.
func TestCachesOfTheImagesModules(t *testing.T) {
	tools := openToolbox(imageWith(t, "usr/bin/python3", "usr/lib/python3.11/os.py", "usr/lib/python3.11/json/__init__.py"), "")
	for name, cache := range map[string]bool{
		"usr/lib/python3.11/__pycache__":                                   true,
		"usr/lib/python3.11/__pycache__/os.cpython-311.pyc":                true,
		"usr/lib/python3.11/json/__pycache__/__init__.cpython-311.pyc":     true,
		"usr/lib/python3.11/__pycache__/mine.cpython-311.pyc":              false,
		"usr/lib/python3.11/__pycache__/os.txt":                            false,
		"usr/lib/python3.11/mine/__pycache__":                              false,
		"usr/lib/python3.11/os.pyc":                                        false,
		"home/me/__pycache__/os.cpython-311.pyc":                           false,
		"usr/local/lib/python3.11/site-packages/__pycache__/m.cpython.pyc": false,
	} {
		if got := tools.python.isCache(name); got != cache {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Where the programs of criteria are is what the image says.
func TestProgramsOfAnImage(t *testing.T) {
	root := imageWith(t, "usr/bin/python3.11", "opt/uipath", "bin/plain")
	dir := imagePath(t, root)
	for _, err := range []error{
		os.Symlink("python3.11", filepath.Join(dir, "usr/bin/python3")), os.Symlink("/nowhere", filepath.Join(dir, "bin/dangling")),
		os.Chmod(filepath.Join(dir, "bin/plain"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	found := programsInRoot(root, "/usr/bin:/bin:relative", []string{"python3", "/opt/uipath", "plain", "dangling", "none"})
	if len(found) != 2 || found["python3"] != "/usr/bin/python3" || found["/opt/uipath"] != "/opt/uipath" {
		t.Errorf("found %v", found)
	}
	if found := programsInRoot(root, "", []string{"python3"}); found["python3"] != "/usr/bin/python3" {
		t.Errorf("an image without PATH: %v", found)
	}
}

func imagePath(t *testing.T, root int) string {
	t.Helper()
	dir, err := os.Readlink(descriptorPath(root))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
