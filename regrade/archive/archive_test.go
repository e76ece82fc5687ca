package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"podgrade/regrade/archive"
)

func sumOf(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}

// sample is an archive of one row, and where each of its parts begins.
func sample(t testing.TB) (*archive.Manifest, []byte) {
	t.Helper()
	contents := map[string]string{}
	m := &archive.Manifest{MadeBy: "podgrade test"}
	add := func(name, content string) string {
		m.Parts = append(m.Parts, archive.Part{Name: name, Size: int64(len(content)), SHA256: sumOf(content), Entries: 1})
		contents[name] = content
		return name
	}
	blob := func(content string) string {
		add("blobs/sha256/"+sumOf(content), content)
		return "sha256:" + sumOf(content)
	}
	m.Images = []archive.Image{{ID: sumOf("config"), Manifest: blob("manifest"), Platform: "linux/amd64"}}
	m.States = []archive.State{{DiffID: blob(strings.Repeat("layer", 300)), Image: sumOf("config")}}
	m.Rows = []archive.Row{{
		VariantID: "default", TaskID: "a/b", Files: add("rows/00000/files.tar", "files"), Workspace: add("rows/00000/workspace.tar", ""),
		TaskDir: add("trees/"+sumOf("task")+".tar", "task"), Image: sumOf("config"), States: []string{m.States[0].DiffID},
	}}
	add("oci-layout", "layout")
	var b bytes.Buffer
	if err := archive.Write(&b, m, func(p archive.Part) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(contents[p.Name])), nil
	}); err != nil {
		t.Fatal(err)
	}
	return m, b.Bytes()
}

// read opens an archive and reads all of it.
func read(t testing.TB, text []byte) error {
	t.Helper()
	r, err := archive.Open(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return err
	}
	return r.Verify(context.Background(), nil)
}

// The file is a plain tar archive too, with the same text for the same content.
func TestAnArchiveIsATarOfItsParts(t *testing.T) {
	m, text := sample(t)
	if _, again := sample(t); !bytes.Equal(text, again) {
		t.Error("written again it is another")
	}
	if err := read(t, text); err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	want := []string{archive.ManifestName, archive.SumName}
	for _, p := range m.Parts {
		want = append(want, p.Name)
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("it holds %q", names)
	}
	r, err := archive.Open(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Text(t.Context(), "rows/00000/files.tar", 100); err != nil || string(got) != "files" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := r.Text(t.Context(), "rows/00000/files.tar", 4); err == nil {
		t.Error("a limit is passed over")
	}
	if _, err := r.Text(t.Context(), "run.tar", 100); err == nil {
		t.Error("a part that is not there was read")
	}
}

// partsOf names what lies at each byte of the archive, as package archive/tar
// reads it.
func partsOf(t testing.TB, text []byte) []string {
	t.Helper()
	owner := make([]string, len(text))
	at := 0
	reader := bytes.NewReader(text)
	for r := tar.NewReader(reader); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		end := at + 512 + int(h.Size+511)/512*512
		for i := at; i < end; i++ {
			owner[i] = h.Name
		}
		at = end
	}
	for i := at; i < len(owner); i++ {
		owner[i] = "end"
	}
	return owner
}

// Whichever byte is changed, the reader refuses and names the part that it lies
// in: the manifest for its sum, which nobody can tell apart.
func TestOneChangedByteIsRefusedByItsPart(t *testing.T) {
	_, text := sample(t)
	owner := partsOf(t, text)
	opened, err := archive.Open(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		flip := []byte{1, 0x80, 0xff}[i%3]
		text[i] ^= flip
		if owner[i] == archive.ManifestName || owner[i] == archive.SumName || i%512 == 0 {
			err = read(t, text)
		} else { // the manifest is the same
			err = opened.Verify(t.Context(), nil)
		}
		text[i] ^= flip
		var damaged *archive.Damaged
		if !errors.As(err, &damaged) {
			t.Fatalf("byte %d of %s, ^%#x: %v", i, owner[i], flip, err)
		}
		sum := owner[i] == archive.SumName && damaged.Part == archive.ManifestName
		if damaged.Part != owner[i] && !sum {
			t.Errorf("byte %d, ^%#x: it names %s, and lies in %s (%v)", i, flip, damaged.Part, owner[i], err)
		}
	}
}

func TestACutArchiveIsRefused(t *testing.T) {
	_, text := sample(t)
	for _, size := range []int{0, 1, 511, 512, 600, 2048, len(text) / 2, len(text) - 1024, len(text) - 1} {
		if err := read(t, text[:size]); err == nil {
			t.Errorf("%d of %d bytes are taken", size, len(text))
		}
	}
	if err := read(t, append(bytes.Clone(text), 0)); err == nil {
		t.Error("a byte more is taken")
	}
	for _, other := range []string{"", "hello", strings.Repeat("x", 5000)} {
		if err := read(t, []byte(other)); !errors.Is(err, archive.ErrNoArchive) {
			t.Errorf("%.10q: %v", other, err)
		}
	}
}

// A manifest that contradicts itself is refused before anything is read by it.
func TestManifestsThatContradictThemselvesAreRefused(t *testing.T) {
	for name, change := range map[string]func(m *archive.Manifest){
		"no rows":                            func(m *archive.Manifest) { m.Rows = nil },
		"a row twice":                        func(m *archive.Manifest) { m.Rows = append(m.Rows, m.Rows[0]) },
		"a tree without a number of entries": func(m *archive.Manifest) { m.Parts[2].Entries = 0 },
		"more entries than bytes":            func(m *archive.Manifest) { m.Parts[2].Entries = 1 << 40 },
		"a state of more entries than bytes": func(m *archive.Manifest) { m.States[0].Entries = 1 << 62 },
		"a state of another manifest":        func(m *archive.Manifest) { m.States[0].Manifest = "../x" },
		"a row of an image that is none":     func(m *archive.Manifest) { m.Rows[0].Image = "../x" },
		"a part twice":                       func(m *archive.Manifest) { m.Parts = append(m.Parts, m.Parts[0]) },
		"a part that leads out":              func(m *archive.Manifest) { m.Parts[0].Name = "../etc/passwd" },
		"a part of another name":             func(m *archive.Manifest) { m.Parts[0].Name = "setup.sh" },
		"a blob of another name":             func(m *archive.Manifest) { m.Parts[0].SHA256 = sumOf("other") },
		"a negative size":                    func(m *archive.Manifest) { m.Parts[0].Size = -1 },
		"a size of no disk":                  func(m *archive.Manifest) { m.Parts[0].Size = 1 << 60 },
		"a sum that is none":                 func(m *archive.Manifest) { m.Parts[2].SHA256 = "abc" },
		"files that are not there":           func(m *archive.Manifest) { m.Rows[0].Files = "rows/00001/files.tar" },
		"files of another kind":              func(m *archive.Manifest) { m.Rows[0].Files = m.Rows[0].TaskDir },
		"no files":                           func(m *archive.Manifest) { m.Rows[0].Files = "" },
		"no task":                            func(m *archive.Manifest) { m.Rows[0].TaskID = "" },
		"two rows of one part": func(m *archive.Manifest) {
			other := m.Rows[0]
			other.Replicate = 1
			m.Rows = append(m.Rows, other)
		},
		"a row of another's files": func(m *archive.Manifest) {
			other := m.Rows[0]
			other.Replicate = 1
			m.Rows = append([]archive.Row{other}, m.Rows...)
			m.Rows[0].Files = "rows/00001/files.tar"
		},
		"files that no row names": func(m *archive.Manifest) {
			m.Parts = append(m.Parts, archive.Part{Name: "rows/00001/files.tar", SHA256: sumOf("")})
		},
		"a tree of another name": func(m *archive.Manifest) {
			m.Parts = append(m.Parts, archive.Part{Name: "trees/" + sumOf("a") + ".tar", SHA256: sumOf("b")})
		},
		"a task directory of rows": func(m *archive.Manifest) { m.Rows[0].TaskDir = m.Rows[0].Files },
		"a state that is missing":  func(m *archive.Manifest) { m.States = nil },
		"a state without its blob": func(m *archive.Manifest) { m.States[0].DiffID = "sha256:" + sumOf("other") },
		"an image for no row":      func(m *archive.Manifest) { m.Rows[0].Image, m.Rows[0].States, m.States = "", nil, nil },
		"a state layer for no row": func(m *archive.Manifest) { m.Rows[0].States = nil },
		"an image twice":           func(m *archive.Manifest) { m.Images = append(m.Images, m.Images[0]) },
		"an image without blob":    func(m *archive.Manifest) { m.Images[0].Manifest = "sha256:" + sumOf("other") },
		"an image of a path":       func(m *archive.Manifest) { m.Images[0].ID = "../x" },
	} {
		m, _ := sample(t)
		change(m)
		if err := archive.Write(io.Discard, m, nil); err == nil {
			t.Errorf("%s: it was written", name)
		}
	}
	for _, text := range []string{
		``, `[]`, `{}`, `{"format":"podgrade-archive","version":2}`, `{"format":"tar","version":1}`,
		`{"format":"podgrade-archive","version":1,"rows":[],"else":1}`,
	} {
		if _, err := archive.ParseManifest([]byte(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// What changes while it is written makes no archive.
func TestAPartThatChangesIsAnError(t *testing.T) {
	m, _ := sample(t)
	err := archive.Write(io.Discard, m, func(p archive.Part) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(strings.Repeat("x", int(p.Size)))), nil
	})
	if err == nil || !strings.Contains(err.Error(), "changed") {
		t.Error(err)
	}
}

// FuzzArchive: whatever the bytes are, reading them ends, and what is taken as a
// whole is the one text of its manifest.
func FuzzArchive(f *testing.F) {
	_, text := sample(f)
	f.Add(text)
	f.Add(text[:3000])
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := archive.Open(bytes.NewReader(text), int64(len(text)))
		if err != nil || r.Verify(t.Context(), nil) != nil {
			return
		}
		var again bytes.Buffer
		if err := archive.Write(&again, r.Manifest, func(p archive.Part) (io.ReadCloser, error) {
			content, err := r.Text(t.Context(), p.Name, 1<<30)
			return io.NopCloser(bytes.NewReader(content)), err
		}); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}
