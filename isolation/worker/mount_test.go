package worker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mountVariable is set in the namespaces that the tests of mounts run in.
const mountVariable = "PODGRADE_TEST_MOUNTS"

// inNamespaces runs the calling test in a user and a mount namespace of its
// own, as the worker works. It returns only there.
func inNamespaces(t *testing.T) bool {
	t.Helper()
	if os.Getenv(mountVariable) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mountVariable+"=yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("in namespaces of its own: %v\n%s", err, out)
	}
	return false
}

// layersBelow makes count layers with one file each, and one that is the top
// one's, top first.
func layersBelow(t *testing.T, dir string, count int) []string {
	t.Helper()
	var layers []string
	for n := count - 1; n >= 0; n-- {
		layer := filepath.Join(dir, fmt.Sprintf("%064d", n), "diff")
		for name, content := range map[string]string{fmt.Sprintf("of-%d", n): "x", "all": fmt.Sprint(n)} {
			if err := os.MkdirAll(layer, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(layer, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		layers = append(layers, layer)
	}
	return layers
}

// An image of any number of layers is mounted, also where their paths do not
// fit one page, in the right order, with its own directory above.
func TestOverlaysOfManyLayers(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	for _, test := range []struct {
		layers int
		name   string
	}{{1, "one"}, {3, "a:b,c\\d e"}, {150, "many"}, {400, "very:many"}} {
		dir := filepath.Join(t.TempDir(), test.name)
		for _, sub := range []string{"root", "upper", "work"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		root := filepath.Join(dir, "root")
		layers := layersBelow(t, dir, test.layers)
		if err := mountOverlay(root, layers, filepath.Join(dir, "upper"), filepath.Join(dir, "work")); err != nil {
			t.Errorf("%d layers: %v", test.layers, err)
			continue
		}
		if top, err := os.ReadFile(root + "/all"); err != nil || string(top) != fmt.Sprint(test.layers-1) {
			t.Errorf("%d layers: the top one says %q, %v", test.layers, top, err)
		}
		if entries, err := os.ReadDir(root); err != nil || len(entries) != test.layers+1 {
			t.Errorf("%d layers: %d entries, %v", test.layers, len(entries), err)
		}
		if err := os.WriteFile(root+"/all", []byte("new"), 0o644); err != nil {
			t.Error(err)
		}
		if lower, err := os.ReadFile(layers[0] + "/all"); err != nil || string(lower) != fmt.Sprint(test.layers-1) {
			t.Errorf("%d layers: a write changed the image to %q, %v", test.layers, lower, err)
		}
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
}

// What is bound for cells can hold no set-user-id program and no device that
// works, and what the mount below forbids stays forbidden.
func TestBindsAreRestricted(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	base := t.TempDir()
	if err := unix.Mount("none", base, "tmpfs", unix.MS_NOEXEC|unix.MS_NODEV|unix.MS_NOSUID, ""); err != nil {
		t.Fatal(err)
	}
	plain := t.TempDir()
	for _, test := range []struct {
		dir   string
		mount func(string) error
		want  int64
		not   int64
	}{
		{filepath.Join(plain, "rw"), bind, unix.ST_NOSUID | unix.ST_NODEV, unix.ST_RDONLY | unix.ST_NOEXEC},
		{filepath.Join(plain, "ro"), bindReadOnly, unix.ST_NOSUID | unix.ST_NODEV | unix.ST_RDONLY, unix.ST_NOEXEC},
		{filepath.Join(base, "rw"), bind, unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC, unix.ST_RDONLY},
		{filepath.Join(base, "ro"), bindReadOnly, unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC | unix.ST_RDONLY, 0},
	} {
		if err := os.Mkdir(test.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := test.mount(test.dir); err != nil {
			t.Errorf("%s: %v", test.dir, err)
			continue
		}
		var st unix.Statfs_t
		if err := unix.Statfs(test.dir, &st); err != nil || st.Flags&test.want != test.want || st.Flags&test.not != 0 {
			t.Errorf("%s: flags %#x, want %#x and none of %#x (%v)", test.dir, st.Flags, test.want, test.not, err)
		}
		if err := unix.Unmount(test.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
	if err := unix.Unmount(base, unix.MNT_DETACH); err != nil {
		t.Error(err)
	}
	if err := bind(filepath.Join(plain, "nothing")); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("what is not there: %v", err)
	}
}

func TestEscapeOverlay(t *testing.T) {
	for path, want := range map[string]string{"/a/b": "/a/b", "/a:b": `/a\:b`, "/a,b": `/a\,b`, `/a\b`: `/a\\b`, `/a\:,`: `/a\\\:\,`} {
		if got := escapeOverlay(path); got != want {
			t.Errorf("%s is escaped %s, want %s", path, got, want)
		}
	}
}

// Podman binds its store over itself and takes that away when it ends. A mount
// that finds its layers through it meanwhile is made all the same.
func TestAnOverlayIsMountedWhilePodmanEnds(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	layers := layersBelow(t, store, 2)
	over, stopped := make(chan struct{}), make(chan struct{})
	defer func() {
		close(over)
		<-stopped
	}()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-over:
				return
			default:
			}
			if err := unix.Mount(store, store, "", unix.MS_BIND, ""); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond / 2)
			_ = unix.Unmount(store, unix.MNT_DETACH)
			time.Sleep(time.Millisecond / 2)
		}
	}()
	for n := range 300 {
		at := filepath.Join(dir, fmt.Sprint(n))
		for _, sub := range []string{"root", "upper", "work"} {
			if err := os.MkdirAll(filepath.Join(at, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := mountOverlay(filepath.Join(at, "root"), layers, filepath.Join(at, "upper"), filepath.Join(at, "work")); err != nil {
			t.Fatalf("mount %d: %v", n, err)
		}
		if err := unix.Unmount(filepath.Join(at, "root"), unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
}
