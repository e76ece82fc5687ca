package tree_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// now is the time that the kernel gives a file that is changed now.
func now(t *testing.T) unix.Timespec {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "now")
	must(t, err)
	defer file.Close()
	var st unix.Stat_t
	must(t, unix.Fstat(int(file.Fd()), &st))
	return st.Ctim
}

// changesOf lists what is otherwise in a view, with what regular files hold.
func changesOf(t *testing.T, src, view string, o tree.Compare) []string {
	t.Helper()
	var list []string
	err := tree.Changes(t.Context(), openDir(t, src), openDir(t, view), o, func(c tree.Change, open func() (int, error)) error {
		line := fmt.Sprintf("%s %s %q %o", c.What, c.Type, c.Path, c.Mode)
		switch {
		case c.Type == tree.Link:
			line += " -> " + string(c.Target)
		case c.Type == tree.RegularFile && c.What != tree.Deleted && c.Size < 100:
			fd, err := open()
			if err != nil {
				return err
			}
			file := os.NewFile(uintptr(fd), "opened")
			defer file.Close()
			text, err := io.ReadAll(file)
			if err != nil {
				return err
			}
			line += " " + string(text)
		}
		list = append(list, line)
		return nil
	})
	must(t, err)
	return list
}

func TestChangesTellWhatBecameOfAView(t *testing.T) {
	src := t.TempDir()
	for name, text := range map[string]string{
		"same": "s", "touched": "t", "written": "1234", "restored": "r", "mode": "m", "gone": "g", "typed": "x",
		"dir/inner": "i", "lost/deep/file": "f", "moved/file": "f", ".git/index": "g", "node_modules/m": "n",
	} {
		write(t, filepath.Join(src, name), text, 0o644)
	}
	must(t, os.Symlink("same", filepath.Join(src, "link")))
	must(t, os.Symlink("same", filepath.Join(src, "kept")))
	view, _, err := copyOf(t, src, tree.Options{})
	must(t, err)
	o := tree.Compare{Since: now(t)}
	if list := changesOf(t, src, view, o); len(list) != 0 {
		t.Fatalf("nothing was changed, and it lists %q", list)
	}
	at := func(name string) string { return filepath.Join(view, name) }
	before, err := os.Stat(at("written"))
	must(t, err)
	for _, err := range []error{
		os.Chtimes(at("touched"), before.ModTime(), before.ModTime()),
		os.WriteFile(at("written"), []byte("4321"), 0o644), // of the same size, and with the same time:
		os.Chtimes(at("written"), before.ModTime(), before.ModTime()),
		os.WriteFile(at("restored"), []byte("other"), 0o644),
		os.WriteFile(at("restored"), []byte("r"), 0o644),
		os.Chmod(at("mode"), 0o600),
		os.Remove(at("gone")),
		os.Remove(at("typed")), os.Mkdir(at("typed"), 0o755), os.WriteFile(at("typed/new"), []byte("n"), 0o644),
		os.Remove(at("link")), os.Symlink("/etc/passwd", at("link")),
		os.WriteFile(at("dir/new\nline"), []byte("n"), 0o755),
		os.RemoveAll(at("lost")),
		os.Rename(at("moved"), at("place")),
		unix.Mkfifo(at("pipe"), 0o644),
		os.WriteFile(at(".git/index"), []byte("G"), 0o644),
		os.WriteFile(at("node_modules/m"), []byte("N"), 0o644),
		os.MkdirAll(at("closed/inner"), 0o755), os.WriteFile(at("closed/inner/f"), []byte("f"), 0o000), os.Chmod(at("closed"), 0),
	} {
		must(t, err)
	}
	o.Ignore = []string{"node_modules"}
	want := `modified file ".git/index" 644 G
created directory "closed" 0
created directory "closed/inner" 755
created file "closed/inner/f" 0 f
created file "dir/new\nline" 755 n
deleted file "gone" 644
modified link "link" 777 -> /etc/passwd
deleted directory "lost" 755
modified file "mode" 600 m
deleted directory "moved" 755
created other "pipe" 644
created directory "place" 755
created file "place/file" 644 f
modified directory "typed" 755
created file "typed/new" 644 n
modified file "written" 644 4321`
	if got := strings.Join(changesOf(t, src, view, o), "\n"); got != want {
		t.Errorf("it tells\n%s\nand should tell\n%s", got, want)
	}
	must(t, os.Chmod(at("closed"), 0o700))
}

// What the tree was made without, and has not been touched, is no change; what is
// taken away is one only where something was taken away.
func TestChangesOfAViewThatHoldsMore(t *testing.T) {
	src, view := t.TempDir(), t.TempDir()
	write(t, filepath.Join(src, "d/less"), "l", 0o644)
	write(t, filepath.Join(view, "d/more"), "m", 0o644)
	o := tree.Compare{Since: now(t)}
	o.Since.Sec++ // the view was complete after all that
	if list := changesOf(t, src, view, o); len(list) != 0 {
		t.Errorf("it tells %q", list)
	}
}

// An overlay is compared by what its upper directory has names for.
func TestChangesOfAnOverlay(t *testing.T) {
	src := t.TempDir()
	for _, name := range []string{"a", "b", "d/x", "d/y", "e/x", "same/x"} {
		write(t, filepath.Join(src, name), name, 0o644)
	}
	upper, view := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"a": "new", "b": "b", "d/y": "d/y", "e/n": "n", "same/x": "not looked at"} {
		write(t, filepath.Join(view, name), text, 0o644)
	}
	for _, name := range []string{"a", "b", "d/x", "e/n"} { // d/x stands for a whiteout
		write(t, filepath.Join(upper, name), "", 0o644)
	}
	must(t, unix.Setxattr(filepath.Join(upper, "e"), "user.overlay.opaque", []byte("y"), 0))
	want := `modified file "a" 644 new
deleted file "d/x" 644
created file "e/n" 644 n
deleted file "e/x" 644`
	got := strings.Join(changesOf(t, src, view, tree.Compare{Upper: openDir(t, upper)}), "\n")
	if got != want {
		t.Errorf("it tells\n%s\nand should tell\n%s", got, want)
	}
}

func TestChangesStopWhenNobodyTakesThem(t *testing.T) {
	src, view := t.TempDir(), t.TempDir()
	write(t, filepath.Join(view, "new"), "n", 0o644)
	enough := errors.New("enough")
	err := tree.Changes(t.Context(), openDir(t, src), openDir(t, view), tree.Compare{}, func(tree.Change, func() (int, error)) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("it ends with %v", err)
	}
}
