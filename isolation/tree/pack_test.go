package tree_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

func packed(t testing.TB, dir string, o tree.PackOptions) (tree.Packed, []byte) {
	t.Helper()
	var out bytes.Buffer
	found, err := tree.Pack(t.Context(), &out, openDir(t, dir), o)
	must(t, err)
	return found, out.Bytes()
}

// unpacked makes the tree of an archive beside a file that must stay as it is.
func unpacked(t testing.TB, archive []byte, o tree.UnpackOptions) (string, error) {
	t.Helper()
	around := t.TempDir()
	dir := filepath.Join(around, "in")
	must(t, os.Mkdir(dir, 0o700))
	write(t, around+"/outside", "outside", 0o600)
	err := tree.Unpack(t.Context(), bytes.NewReader(archive), openDir(t, dir), o)
	names, readErr := os.ReadDir(around)
	must(t, readErr)
	text, readErr := os.ReadFile(around + "/outside")
	must(t, readErr)
	if len(names) != 2 || string(text) != "outside" {
		t.Fatalf("outside of the tree there is %v, %q", names, text)
	}
	return dir, err
}

// Whatever a workspace can hold travels: names, modes, times, links, holes,
// attributes; and the archive of what arrived is the same archive.
func TestAPackedTreeArrivesAsItIs(t *testing.T) {
	dir := sample(t)
	hollow := dir + "/sub/hollow"
	write(t, hollow, "start", 0o600)
	must(t, os.Truncate(hollow, 16<<20))
	file, err := os.OpenFile(hollow, os.O_WRONLY, 0)
	must(t, err)
	_, err = file.WriteAt([]byte("end"), 8<<20)
	must(t, err)
	must(t, file.Close())
	must(t, os.Truncate(dir+"/empty", 5000)) // nothing but a hole
	write(t, dir+"/named", "x", 0o600)
	must(t, unix.Setxattr(dir+"/named", "user.a=b", []byte("\x00\xff"), 0))
	write(t, dir+"/opaque", "x", 0o600) // of the overlay's own, as a cell can set it
	must(t, unix.Setxattr(dir+"/opaque", "user.overlay.opaque", []byte("y"), 0))
	must(t, unix.Mknod(dir+"/zero", unix.S_IFCHR, 0))
	deep := dir + "/" + strings.Repeat("d/", 100)
	must(t, os.MkdirAll(deep, 0o755))
	must(t, os.Chmod(dir+"/sub", 0))
	must(t, os.Chtimes(dir, time.Unix(1, 2), time.Unix(3, 4)))

	report, archive := packed(t, dir, tree.PackOptions{})
	if len(archive) > 4<<20 {
		t.Errorf("the archive has %d bytes: holes are written out", len(archive))
	}
	copied, err := unpacked(t, archive, tree.UnpackOptions{Most: tree.Bound{Entries: report.Entries, Bytes: report.Bytes}})
	must(t, err)
	if digest(t, copied, tree.Options{}).Times != digest(t, dir, tree.Options{}).Times {
		t.Error("the times of what arrived are others")
	}
	if want, got := describe(t, dir), describe(t, copied); got != want {
		for n, line := range strings.Split(want, "\n") {
			if arrived := strings.Split(got+strings.Repeat("\n", n), "\n")[n]; arrived != line {
				t.Errorf("packed %.300s, arrived %.300s", line, arrived)
			}
		}
	}
	if want, got := digest(t, dir, tree.Options{}), digest(t, copied, tree.Options{}); got.Digest != want.Digest {
		t.Error("what arrived has another digest")
	}
	var st unix.Stat_t
	must(t, unix.Stat(copied+"/sub/hollow", &st))
	if st.Blocks*512 > 1<<20 {
		t.Errorf("a file with holes takes %d blocks", st.Blocks)
	}
	if _, again := packed(t, copied, tree.PackOptions{}); !bytes.Equal(again, archive) {
		t.Error("packed again it is another archive")
	}
	if len(report.Left) > 0 {
		t.Errorf("left out: %q", report.Left)
	}
	if _, err := unpacked(t, archive, tree.UnpackOptions{Most: tree.Bound{Entries: report.Entries - 1}}); err == nil {
		t.Error("more entries than were announced are taken")
	}
	if _, err := unpacked(t, archive, tree.UnpackOptions{Most: tree.Bound{Bytes: report.Bytes - 1}}); err == nil {
		t.Error("more bytes than were announced are taken")
	}
}

// A state layer becomes what it was, byte by byte, and so keeps its name.
func TestALayerArrivesAsItIs(t *testing.T) {
	dir := upperDirectory(t)
	must(t, os.Chmod(dir+"/merged", 0o700|os.ModeSetgid))
	_, archive := layerOf(t, dir)
	copied, err := unpacked(t, archive, tree.UnpackOptions{Layer: true})
	must(t, err)
	if _, again := layerOf(t, copied); !bytes.Equal(again, archive) {
		t.Error("the layer that arrived is another")
	}
	var st unix.Stat_t
	must(t, unix.Lstat(copied+"/etc/gone-too", &st))
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
		t.Errorf("a whiteout arrived as %o", st.Mode)
	}
}

// What a task brings along travels without owners, .git, links that lead out,
// and what is no file.
func TestAPlainTreeIsTheCallersOwn(t *testing.T) {
	dir := sample(t)
	write(t, dir+"/.git/config", "x", 0o600)
	write(t, dir+"/sub/.git", "x", 0o600)
	must(t, os.Mkdir(dir+"/hidden", 0o755))
	var st unix.Stat_t
	must(t, unix.Stat(dir+"/hidden", &st))
	must(t, os.Chmod(dir+"/plain", 0o666))
	report, archive := packed(t, dir, tree.PackOptions{Plain: true, Filter: true, Skip: []tree.FileID{{Dev: st.Dev, Ino: st.Ino}}, Omission: tree.Omission{Top: []string{"-dash"}}})
	copied, err := unpacked(t, archive, tree.UnpackOptions{Plain: true})
	must(t, err)
	for _, gone := range []string{".git", "sub/.git", "out", "sub/up", "hidden", "fifo", "-dash"} {
		if _, err := os.Lstat(copied + "/" + gone); err == nil {
			t.Errorf("%s is there", gone)
		}
	}
	for name, mode := range map[string]os.FileMode{"plain": 0o644, "setuid": 0o755, "empty": 0o644, "sub/file": 0o640, "sticky": 0o755 | os.ModeDir} {
		if info, err := os.Lstat(copied + "/" + name); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if to, err := os.Readlink(copied + "/link"); err != nil || to != "plain" {
		t.Errorf("%q, %v", to, err)
	}
	if len(report.Left) != 3 || !strings.Contains(report.Left[0], "fifo") {
		t.Errorf("left out: %q", report.Left)
	}
	if _, archive = packed(t, dir, tree.PackOptions{Plain: true, Omission: tree.Omission{NoLinks: true}}); bytes.Contains(archive, []byte("/etc/passwd")) {
		t.Error("a link is in an archive without links")
	}
}

func TestATreeThatIsTooLargeIsNotPacked(t *testing.T) {
	dir := openDir(t, sample(t))
	for _, most := range []tree.Bound{{Entries: 3}, {Bytes: 1000}} {
		if _, err := tree.Pack(t.Context(), &bytes.Buffer{}, dir, tree.PackOptions{Most: most}); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%+v: %v", most, err)
		}
	}
}

// archiveOf is an archive of these entries, which no podgrade has written.
func archiveOf(t testing.TB, entries ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := h.Linkname
		if h.Typeflag == tar.TypeReg {
			h.Linkname, h.Size = "", int64(len(content))
		}
		if h.Format == 0 {
			h.Format = tar.FormatPAX
		}
		must(t, w.WriteHeader(h))
		if h.Typeflag == tar.TypeReg {
			_, err := w.Write([]byte(content))
			must(t, err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

// entry is one of an archive; content is a file's, or where a link leads.
func entry(kind byte, name, content string, records ...string) *tar.Header {
	h := &tar.Header{Typeflag: kind, Name: name, Mode: 0o644, Linkname: content, ModTime: time.Unix(1, 0)}
	for i := 0; i+1 < len(records); i += 2 {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[records[i]] = records[i+1]
	}
	return h
}

// What is refused of an archive is what no archive of a tree holds.
func TestWhatIsLeftOutIsWhatIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"task.json", "artifacts/x", "sub/task.json", "sub/artifacts/y", "sub/kept"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("kept", filepath.Join(dir, "sub/link")); err != nil {
		t.Fatal(err)
	}
	_, archive := packed(t, dir, tree.PackOptions{Plain: true, Omission: tree.Omission{NoLinks: true, Top: []string{"artifacts"}, TopOnly: []string{"task.json"}}})
	copied, err := unpacked(t, archive, tree.UnpackOptions{Plain: true, Omission: tree.Omission{NoLinks: true, Top: []string{"artifacts"}, TopOnly: []string{"task.json"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"task.json": true, "artifacts": false, "sub/task.json": false, "sub/artifacts/y": true, "sub/kept": true, "sub/link": false} {
		if _, err := os.Lstat(filepath.Join(copied, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, archive = packed(t, dir, tree.PackOptions{Plain: true, Omission: tree.Omission{Only: []string{"task.json"}, Without: []string{"artifacts"}}})
	if _, err := unpacked(t, archive, tree.UnpackOptions{Plain: true, Omission: tree.Omission{Only: []string{"task.json"}, Without: []string{"artifacts"}}}); err != nil {
		t.Error(err)
	}
}

// An archive may come from anybody.
func TestHostileArchivesAreRefused(t *testing.T) {
	const file, dir, link, hard = tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink
	plain, layer := tree.UnpackOptions{Plain: true}, tree.UnpackOptions{Layer: true}
	for name, c := range map[string]struct {
		entries []*tar.Header
		o       tree.UnpackOptions
	}{
		"absolute":                     {[]*tar.Header{entry(file, "/outside", "x")}, plain},
		"parent":                       {[]*tar.Header{entry(file, "../outside", "x")}, plain},
		"parent below":                 {[]*tar.Header{entry(dir, "a/", ""), entry(file, "a/../../outside", "x")}, plain},
		"dot":                          {[]*tar.Header{entry(file, "./x", "x")}, plain},
		"empty part":                   {[]*tar.Header{entry(dir, "a/", ""), entry(file, "a//x", "x")}, plain},
		"without its directory":        {[]*tar.Header{entry(file, "a/x", "x")}, plain},
		"through a link":               {[]*tar.Header{entry(link, "a", ".."), entry(file, "a/outside", "x")}, tree.UnpackOptions{}},
		"a link, then a directory":     {[]*tar.Header{entry(link, "a", ".."), entry(dir, "a/", ""), entry(file, "a/outside", "x")}, tree.UnpackOptions{}},
		"a name twice":                 {[]*tar.Header{entry(file, "a", "x"), entry(file, "a", "y")}, plain},
		"a directory again":            {[]*tar.Header{entry(dir, "a/", ""), entry(file, "b", ""), entry(file, "a/x", "")}, plain},
		"out of order":                 {[]*tar.Header{entry(file, "b", ""), entry(file, "a", "")}, plain},
		"a link that leads out":        {[]*tar.Header{entry(link, "a", "../outside")}, plain},
		"an absolute link":             {[]*tar.Header{entry(link, "a", "/etc/passwd")}, plain},
		"a hard link out":              {[]*tar.Header{entry(hard, "a", "../outside")}, tree.UnpackOptions{}},
		"a hard link to root":          {[]*tar.Header{entry(hard, "a", "/etc/passwd")}, tree.UnpackOptions{}},
		"a hard link to a link":        {[]*tar.Header{entry(link, "a", "/etc/passwd"), entry(hard, "b", "a")}, tree.UnpackOptions{}},
		"a hard link through a link":   {[]*tar.Header{entry(link, "a", ".."), entry(hard, "b", "a/outside")}, tree.UnpackOptions{}},
		"a hard link in a plain tree":  {[]*tar.Header{entry(file, "a", ""), entry(hard, "b", "a")}, plain},
		"a hard link to what is not":   {[]*tar.Header{entry(hard, "b", "a")}, tree.UnpackOptions{}},
		"a block device":               {[]*tar.Header{entry(tar.TypeBlock, "a", "")}, tree.UnpackOptions{}},
		"a device":                     {[]*tar.Header{{Typeflag: tar.TypeChar, Name: "a", Devmajor: 1, Devminor: 3}}, tree.UnpackOptions{}},
		"a device in a layer":          {[]*tar.Header{{Typeflag: tar.TypeChar, Name: "a"}}, layer},
		"a pipe in a plain tree":       {[]*tar.Header{entry(tar.TypeFifo, "a", "")}, plain},
		"a host's attribute":           {[]*tar.Header{entry(file, "a", "", "SCHILY.xattr.trusted.overlay.opaque", "y")}, tree.UnpackOptions{}},
		"a label":                      {[]*tar.Header{entry(file, "a", "", "SCHILY.xattr.security.selinux", "y")}, tree.UnpackOptions{}},
		"an attribute in a plain tree": {[]*tar.Header{entry(file, "a", "", "SCHILY.xattr.user.a", "y")}, plain},
		"a hidden attribute":           {[]*tar.Header{entry(file, "a", "", "PODGRADE.xattr.zz", "y")}, tree.UnpackOptions{}},
		"an unknown record":            {[]*tar.Header{entry(file, "a", "", "VENDOR.x", "y")}, tree.UnpackOptions{}},
		"holes beyond the file":        {[]*tar.Header{entry(file, "a", strings.Repeat("\xff", 64), "PODGRADE.sparse", "100")}, tree.UnpackOptions{}},
		"a run that is cut":            {[]*tar.Header{entry(file, "a", "short", "PODGRADE.sparse", "100")}, tree.UnpackOptions{}},
		"holes of any size":            {[]*tar.Header{entry(file, "a", "", "PODGRADE.sparse", "9223372036854775807")}, tree.UnpackOptions{}},
		"holes of no size":             {[]*tar.Header{entry(file, "a", "", "PODGRADE.sparse", "-1")}, tree.UnpackOptions{}},
		"holes in a layer":             {[]*tar.Header{entry(file, "a", "", "PODGRADE.sparse", "1")}, layer},
		"a socket in a layer":          {[]*tar.Header{entry(tar.TypeFifo, "a", "", "PODGRADE.socket", "1")}, layer},
		"hiding the parent":            {[]*tar.Header{entry(file, ".wh...", "")}, layer},
		"hiding nothing":               {[]*tar.Header{entry(file, ".wh.", "")}, layer},
		"hiding with content":          {[]*tar.Header{entry(file, ".wh.a", "x")}, layer},
		"hiding the whole image":       {[]*tar.Header{entry(file, ".wh..wh..opq", "")}, layer},
		"opaque too late":              {[]*tar.Header{entry(dir, "a/", ""), entry(file, "a/b", ""), entry(file, "a/.wh..wh..opq", "")}, layer},
		"hidden twice":                 {[]*tar.Header{entry(file, ".wh.a", ""), entry(file, "a", "")}, layer},
		"a link where none is":         {[]*tar.Header{entry(file, "a", ""), entry(link, "b", "a")}, tree.UnpackOptions{Plain: true, Omission: tree.Omission{NoLinks: true}}},
		"what is none of the root's":   {[]*tar.Header{entry(dir, "a/", "")}, tree.UnpackOptions{Omission: tree.Omission{Top: []string{"a"}}}},
		"what is the root's alone":     {[]*tar.Header{entry(file, "a", ""), entry(dir, "b/", ""), entry(file, "b/a", "")}, tree.UnpackOptions{Omission: tree.Omission{TopOnly: []string{"a"}}}},
		"a file that is no summary":    {[]*tar.Header{entry(file, "a", ""), entry(file, "b", "")}, tree.UnpackOptions{Omission: tree.Omission{Only: []string{"a"}}}},
		"a directory that none has":    {[]*tar.Header{entry(dir, "b/", ""), entry(dir, "b/a/", "")}, tree.UnpackOptions{Omission: tree.Omission{Without: []string{"a"}}}},
		"somebody's owner":             {[]*tar.Header{{Typeflag: file, Name: "a", Uid: 1 << 30}}, tree.UnpackOptions{}},
		"deeper than a tree may be":    {deepEntries(), tree.UnpackOptions{}},
	} {
		t.Run(name, func(t *testing.T) {
			if dir, err := unpacked(t, archiveOf(t, c.entries...), c.o); err == nil {
				t.Errorf("it was taken:\n%s", describe(t, dir))
			}
		})
	}
}

func deepEntries() []*tar.Header {
	return []*tar.Header{entry(tar.TypeReg, strings.Repeat("d/", 11_000)+"x", "")}
}

// A file system that is not case sensitive, or that folds names, makes two names
// one: then the second is refused by the file system, and never overwrites.
func TestNamesThatLookAlikeStayApart(t *testing.T) {
	dir, err := unpacked(t, archiveOf(t, entry(tar.TypeReg, "A", "1"), entry(tar.TypeReg, "a", "2"), entry(tar.TypeReg, "\xff", "3")), tree.UnpackOptions{Plain: true})
	must(t, err)
	for name, want := range map[string]string{"A": "1", "a": "2", "\xff": "3"} {
		if text, err := os.ReadFile(dir + "/" + name); err != nil || string(text) != want {
			t.Errorf("%q: %q, %v", name, text, err)
		}
	}
}

// FuzzUnpack takes any archive in: nothing is ever made outside of the
// directory.
func FuzzUnpack(f *testing.F) {
	for _, o := range []tree.PackOptions{{}, {Plain: true, Filter: true}} {
		var b bytes.Buffer
		dir := f.TempDir()
		write(f, dir+"/a/b", "content", 0o640)
		must(f, os.Symlink("a/b", dir+"/link"))
		must(f, os.Link(dir+"/a/b", dir+"/z"))
		_, err := tree.Pack(f.Context(), &b, openDir(f, dir), o)
		must(f, err)
		f.Add(b.Bytes(), byte(0))
		f.Add(b.Bytes(), byte(1))
	}
	_, layer := layerOf(f, upperDirectory(f))
	f.Add(layer, byte(2))
	f.Fuzz(func(t *testing.T, archive []byte, kind byte) {
		o := tree.UnpackOptions{Plain: kind%3 == 1, Layer: kind%3 == 2, Most: tree.Bound{Entries: 1000, Bytes: 1 << 20}}
		dir, err := unpacked(t, archive, o)
		if err == nil && o.Layer {
			// What was taken can be packed again: no state that has no archive.
			layerOf(t, dir)
		}
	})
}
