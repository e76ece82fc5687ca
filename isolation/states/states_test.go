package states

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// releaseVariable makes the test binary remove a state layer, and nothing else.
const releaseVariable = "PODGRADE_TEST_RELEASE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(releaseVariable); dir != "" {
		if err := remove(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// remove does what removing a layer comes to.
func remove(dir string) error {
	if err := os.Remove(InfoFile(dir)); err != nil && !isMissing(err) {
		return err
	}
	if err := Release(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// content is what file i of a layer holds; of the first ones all layers hold the
// same.
func content(layer, i int) []byte {
	if i >= sharedFiles {
		return bytes.Repeat(fmt.Appendf(nil, "%d of layer %d\n", i, layer), 1000)
	}
	return bytes.Repeat(fmt.Appendf(nil, "%d of all\n", i), 1000)
}

const (
	sharedFiles = 30
	ownFiles    = 3
)

func nameOf(i int) string { return fmt.Sprintf("d%d/f %d\xff", i%3, i) }

// kept keeps a layer as the worker does.
func kept(t testing.TB, scratch string, n int) (dir string, info Info) {
	t.Helper()
	info.DiffID = diffPrefix + fmt.Sprintf("%064x", n+1)
	making := filepath.Join(scratch, fmt.Sprint("making-", n))
	var sums []tree.FileSum
	for i := range sharedFiles + ownFiles {
		path := filepath.Join(LayerDir(making), nameOf(i))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, content(n, i), 0o644))
		at := time.Unix(int64(1_000_000_000+n), int64(i))
		must(t, os.Chtimes(path, at, at))
		info.Bytes += int64(len(content(n, i)))
		sums = append(sums, tree.FileSum{Paths: []string{nameOf(i)}, Size: int64(len(content(n, i))), SHA256: sumOf(content(n, i))})
	}
	must(t, os.MkdirAll(StoreDir(scratch), 0o700))
	unlock, err := Lock(t.Context(), scratch)
	must(t, err)
	defer unlock()
	sharing, err := Share(t.Context(), scratch, making, sums, &info)
	must(t, err)
	must(t, Write(making, info))
	dir = filepath.Join(StoreDir(scratch), hexOf(info.DiffID))
	must(t, os.Rename(making, dir))
	must(t, sharing.Hold(info.DiffID))
	return dir, info
}

// reads checks that a layer has all its bytes, here or elsewhere, and its times.
func reads(t testing.TB, dir string, n int) {
	t.Helper()
	hollow, err := HollowOf(dir)
	must(t, err)
	for i := range sharedFiles + ownFiles {
		path := filepath.Join(LayerDir(dir), nameOf(i))
		info, err := os.Stat(path)
		must(t, err)
		if at := time.Unix(int64(1_000_000_000+n), int64(i)); !info.ModTime().Equal(at) || info.Size() != int64(len(content(n, i))) {
			t.Errorf("%s: %v, %d bytes", path, info.ModTime(), info.Size())
		}
		open := os.Open
		if hollow != nil && hollow.Has(nameOf(i)) {
			open = func(string) (*os.File, error) { return hollow.Open(nameOf(i)) }
		}
		file, err := open(path)
		must(t, err)
		var got bytes.Buffer
		_, err = got.ReadFrom(file)
		must(t, errors.Join(err, file.Close()))
		if !bytes.Equal(got.Bytes(), content(n, i)) {
			t.Fatalf("%s of layer %d: %.40q", nameOf(i), n, got.Bytes())
		}
	}
}

// blocks is the room that a tree's files take.
func blocks(t testing.TB, dir string) (bytes int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			bytes += st.Blocks * 512
		}
		return err
	}))
	return bytes
}

// Layers take the room of one and of what each has for itself; whichever goes
// first, the others have their bytes, and with the last one all is gone.
func TestLayersShareBytes(t *testing.T) {
	const layers = 4
	for name, order := range map[string][]int{"the first one first": {0, 1, 2, 3}, "the last one first": {3, 2, 1, 0}, "the first one in between": {2, 0, 3, 1}} {
		t.Run(name, func(t *testing.T) {
			scratch := t.TempDir()
			dirs := map[int]string{}
			var all []string
			for n := range layers {
				dir, info := kept(t, scratch, n)
				dirs[n], all = dir, append(all, dir)
				if (n == 0) != (info.SharedBytes == 0) {
					t.Errorf("layer %d shares %d bytes", n, info.SharedBytes)
				}
			}
			space := SpaceOf(all)
			if took, most := blocks(t, scratch), space.Bytes()+layers*(sharedFiles+ownFiles+2)*4096; took > most {
				t.Errorf("it takes %d bytes, at most %d are right", took, most)
			}
			for i, n := range order {
				for other, dir := range dirs {
					reads(t, dir, other)
				}
				must(t, remove(dirs[n]))
				space.Remove(dirs[n])
				delete(dirs, n)
				if i < layers-1 {
					all = slices.DeleteFunc(all, func(dir string) bool { return !isComplete(dir) })
					if now := SpaceOf(all); now.Bytes() != space.Bytes() || now.Outside() != space.Outside() || (space.Outside() > 0) != (dirs[0] == "") {
						t.Errorf("%d and %d outside, reckoned on %d and %d", now.Bytes(), now.Outside(), space.Bytes(), space.Outside())
					}
				}
			}
			if space.Bytes() != 0 {
				t.Errorf("nothing takes %d bytes", space.Bytes())
			}
			if _, err := os.Lstat(bytesDir(scratch)); !isMissing(err) {
				left, _ := os.ReadDir(bytesDir(scratch))
				t.Errorf("there is still %v (%v)", left, err)
			}
		})
	}
}

// A layer that is made anew shares what was moved out of it, and what was held
// by one that is half removed is not built upon.
func TestBytesOfRemovedLayers(t *testing.T) {
	scratch := t.TempDir()
	first, _ := kept(t, scratch, 0)
	second, _ := kept(t, scratch, 1)
	must(t, remove(first))
	first, info := kept(t, scratch, 0)
	if info.SharedBytes == 0 {
		t.Error("it holds again what was moved out of it")
	}
	must(t, remove(second))
	reads(t, first, 0)

	other := t.TempDir()
	half, _ := kept(t, other, 0)
	must(t, os.Remove(InfoFile(half)))
	third, info := kept(t, other, 2)
	if info.SharedBytes != 0 {
		t.Errorf("%d bytes are shared with a layer that is being removed", info.SharedBytes)
	}
	fourth, info := kept(t, other, 3)
	if info.SharedBytes == 0 {
		t.Error("nothing is shared with the one after it")
	}
	must(t, remove(half))
	reads(t, third, 2)
	reads(t, fourth, 3)
}

// Ended at any instant, a removal leaves the others their bytes, and the next one
// goes on with it.
func TestARemovalThatIsKilled(t *testing.T) {
	program, err := os.Executable()
	must(t, err)
	killed, layers := 0, 4
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		layers = 12
	}
	for range layers {
		scratch := t.TempDir()
		first, _ := kept(t, scratch, 0)
		second, _ := kept(t, scratch, 1)
		for most := 8 * time.Millisecond; ; {
			cmd := exec.Command(program)
			cmd.Env = append(os.Environ(), releaseVariable+"="+first)
			must(t, cmd.Start())
			time.Sleep(rand.N(most))
			err := cmd.Process.Kill()
			if ended := cmd.Wait(); ended == nil {
				break
			} else if err != nil {
				t.Fatal(ended)
			}
			if moved, err := os.ReadDir(bytesDir(scratch)); err == nil && isSome(moved) {
				killed++
			} else {
				most += time.Millisecond // on a busy machine a program takes long to begin
			}
			reads(t, second, 1)
		}
		reads(t, second, 1)
		if _, err := os.Lstat(first); !isMissing(err) {
			t.Errorf("the layer is still there: %v", err)
		}
		must(t, remove(second))
	}
	t.Logf("killed %d times while bytes were moved", killed)
}

// isSome tells whether some of the bytes were moved, and others not.
func isSome(entries []os.DirEntry) bool {
	links := 0
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 {
			links++
		}
	}
	return links > 0 && links < sharedFiles
}

// What is damaged or gone is said, and never taken for the bytes.
func TestBytesThatAreDamaged(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(scratch, first, second string) error
		says   string
	}{
		"other bytes": {func(_, first, _ string) error {
			return os.WriteFile(filepath.Join(LayerDir(first), nameOf(0)), bytes.ReplaceAll(content(0, 0), []byte("a"), []byte("b")), 0o644)
		}, "damaged"},
		"fewer bytes": {func(_, first, _ string) error { return os.Truncate(filepath.Join(LayerDir(first), nameOf(0)), 5) }, "damaged"},
		"no file":     {func(_, first, _ string) error { return os.Remove(filepath.Join(LayerDir(first), nameOf(0))) }, "no such file"},
		"a link in its place": {func(_, first, _ string) error {
			path := filepath.Join(LayerDir(first), nameOf(0))
			return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path))
		}, "symbolic links"},
		"a link on the way": {func(_, first, _ string) error {
			path := filepath.Join(LayerDir(first), "d0")
			return errors.Join(os.Rename(path, path+"-"), os.Symlink("d0-", path))
		}, "symbolic links"},
		"no note":          {func(scratch, _, _ string) error { return os.RemoveAll(bytesDir(scratch)) }, "no such file"},
		"no list":          {func(_, _, second string) error { return os.Remove(listFile(second)) }, "list of its shared files"},
		"another list":     {func(_, _, second string) error { return os.WriteFile(listFile(second), nil, 0o600) }, "not the one"},
		"no whole removal": {func(_, first, _ string) error { return os.RemoveAll(first) }, "not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			scratch := t.TempDir()
			first, _ := kept(t, scratch, 0)
			second, _ := kept(t, scratch, 1)
			must(t, c.damage(scratch, first, second))
			hollow, err := HollowOf(second)
			if err == nil {
				_, err = hollow.Open(nameOf(0))
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			// It can still be removed, and what comes next is whole.
			must(t, remove(second))
			third, _ := kept(t, scratch, 2)
			reads(t, third, 2)
		})
	}
}

// A list says the same when it was read, whatever the names are.
func TestAListIsReadAsItWasWritten(t *testing.T) {
	files := []file{
		{tree.FileSum{Paths: []string{"a b", "\xff\n\"", "ä"}, Size: 5000, SHA256: sumOf(nil)}, true},
		{tree.FileSum{Paths: []string{"c"}, Size: 1 << 40, SHA256: sumOf([]byte("x"))}, false},
	}
	got, err := parse(format(files))
	if err != nil || !reflect.DeepEqual(got, files) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"x", "x 1 here \"a\"", sumOf(nil) + " -1 here \"a\"", sumOf(nil) + " 1 there \"a\"", sumOf(nil) + " 1 here a", sumOf(nil) + " 1 here \"a", sumOf(nil) + " 1 here"} {
		if got, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

// Where a layer's files lie is written so short that it takes no block.
func TestAPlaceIsShort(t *testing.T) {
	p := place{strings.Repeat("ef", 32), 199_999}
	got, err := parsePlace(p.String())
	if err != nil || got != p || len(p.String()) > 59 {
		t.Errorf("%s: %+v, %v", p, got, err)
	}
}

// A layer whose list is damaged can be removed, as its fault says; what can still be
// read of the list leaves the others their bytes.
func TestADamagedListCanBeRemoved(t *testing.T) {
	scratch := t.TempDir()
	first, _ := kept(t, scratch, 0)
	second, _ := kept(t, scratch, 1)
	text, err := os.ReadFile(listFile(first))
	must(t, err)
	sum, _, _ := strings.Cut(string(text), " ")
	must(t, os.WriteFile(listFile(first), append(text, "rubbish\n"+sum+" 5 here \n"...), 0o600))
	if _, err := HollowOf(first); !errors.Is(err, ErrDamaged) {
		t.Errorf("with another list: %v", err)
	}
	must(t, remove(first))
	reads(t, second, 1)
	must(t, os.WriteFile(listFile(second), []byte("rubbish"), 0o600))
	must(t, remove(second))
}
