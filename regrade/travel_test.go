package regrade_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"podgrade/isolation"
	"podgrade/isolation/tree"
	"podgrade/oci"
	"podgrade/regrade"
	"podgrade/regrade/archive"
	"podgrade/tasks/record"
)

// travel is both ends of a way, without a container: one store of images and
// state layers, and what was done with it.
type travel struct {
	t       *testing.T
	images  map[string]map[string][]byte // files of an image, by id
	states  map[string]string            // archives, by diff id
	holding int                          // state layers that are held
	loaded  []string
	noted   []string
	before  []bool // of the state layers that were taken in
	fail    error  // of StockState
	begun   func() // is called when all records have been consented to
	packs   func() // is called for each tree that is packed
	notice  bytes.Buffer
}

func newTravel(t *testing.T) *travel {
	return &travel{t: t, images: map[string]map[string][]byte{}, states: map[string]string{}}
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// image makes an image of one layer and returns its id.
func (f *travel) image(layer string) string {
	config := []byte(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:` + sumOf([]byte(layer)) + `"]}}`)
	f.images[sumOf(config)] = map[string][]byte{
		"manifest.json": manifestOf(f.t, config, types.OCIUncompressedLayer, layer),
		sumOf(config):   config, sumOf([]byte(layer)): []byte(layer), "version": []byte("1.1"),
	}
	return sumOf(config)
}

func manifestOf(t *testing.T, config []byte, kind types.MediaType, layer string) []byte {
	t.Helper()
	text, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(config)), Digest: v1.Hash{Algorithm: "sha256", Hex: sumOf(config)}},
		Layers: []v1.Descriptor{{MediaType: kind, Size: int64(len(layer)), Digest: v1.Hash{Algorithm: "sha256", Hex: sumOf([]byte(layer))}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (f *travel) ImageByPin(_ context.Context, pin oci.Pin) (isolation.Image, error) {
	if _, ok := f.images[pin.ID]; !ok {
		return isolation.Image{}, isolation.ErrNoImage
	}
	return isolation.Image{Pin: pin}, nil
}

func (f *travel) PackTree(ctx context.Context, dir *os.File, o tree.PackOptions, to io.Writer) (tree.Packed, error) {
	if f.packs != nil {
		f.packs()
	}
	open, err := os.Open(dir.Name())
	if err != nil {
		return tree.Packed{}, err
	}
	defer open.Close()
	o.Plain = true // the tests have no other owners
	return tree.Pack(ctx, to, int(open.Fd()), o)
}

func (f *travel) PackState(_ context.Context, id string, to io.Writer) (tree.Packed, error) {
	_, err := io.WriteString(to, f.states[id])
	return tree.Packed{Entries: 1}, err
}

func (f *travel) SaveImage(_ context.Context, image isolation.Image, dir string) error {
	err := os.Mkdir(dir, 0o700)
	for name, text := range f.images[image.Pin.ID] {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return err
}

func (f *travel) TempDir() (string, error) {
	return f.t.TempDir(), nil
}

func (f *travel) Close() error { return nil }

func (f *travel) HoldState(id string) (func(), error) {
	if f.states[id] == "" {
		return nil, isolation.ErrNoState
	}
	f.holding++
	return func() { f.holding-- }, nil
}

func (f *travel) UnpackTree(ctx context.Context, from, dir *os.File, o tree.UnpackOptions) error {
	open, err := os.Open(dir.Name())
	if err != nil {
		return err
	}
	defer open.Close()
	o.Plain = true
	if err := tree.Unpack(ctx, from, int(open.Fd()), o); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, from)
	return err
}

func (f *travel) StockState(_ context.Context, from *os.File, image isolation.Image, stock isolation.Stock) error {
	if f.fail != nil {
		return f.fail
	}
	text, err := io.ReadAll(from)
	f.states[stock.DiffID] = string(text)
	f.before = append(f.before, stock.BeforeAgent)
	return err
}

func (f *travel) LoadImage(_ context.Context, layout string, pin oci.Pin) (isolation.Image, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(layout), ".", func(name string, e fs.DirEntry, err error) error {
		if !e.IsDir() {
			names = append(names, strings.TrimPrefix(name, "blobs/sha256/"))
		}
		return err
	})
	f.loaded = append(f.loaded, strings.Join(names, " "))
	f.images[pin.ID] = map[string][]byte{}
	return isolation.Image{Pin: pin}, err
}

func (f *travel) NoteState(id, row string) error {
	if f.holding == 0 {
		f.t.Errorf("the state layer %s could be pruned before it is noted that %s needs it", id, row)
	}
	f.noted = append(f.noted, id[:10]+" "+row)
	return nil
}

func (f *travel) RemoveTree(_ context.Context, dir *os.File) error { return tree.Empty(int(dir.Fd())) }

func (f *travel) export(row, file string) (*regrade.Exported, error) {
	return regrade.Export(f.t.Context(), row, file, regrade.ExportOptions{
		Paths: true, Notice: &f.notice, Start: func(context.Context) (regrade.ExportEngines, error) {
			if f.begun != nil {
				f.begun()
			}
			return f, nil
		},
		Lookup: func(string) (string, bool) { return "", false }, Version: "1",
	})
}

func (f *travel) take(file, run string) (*regrade.ImportedRows, error) {
	return regrade.Import(f.t.Context(), file, run, regrade.ImportOptions{
		Start: func(context.Context) (regrade.ImportEngines, error) { return f, nil }, Notice: &f.notice,
	})
}

// row writes a row directory of a task that needs its task directory and a
// reference, pinned to an image, with a state layer.
func (f *travel) row(run, task, image string) string {
	f.t.Helper()
	dir := filepath.Join(run, "default", task, "00")
	source := filepath.Join(run, "..", "tasks")
	state := "layer of " + image
	f.states["sha256:"+sumOf([]byte(state))] = state
	files := map[string]string{
		filepath.Join(source, "t.yaml"):               "task_id: " + task + "\n",
		filepath.Join(source, "key", "answer"):        "secret",
		filepath.Join(source, ".git", "config"):       "token",
		filepath.Join(dir, "artifacts", task, "made"): "made",
		filepath.Join(dir, "execute.dsse.json"):       "{}",
		filepath.Join(dir, "half.tmp"):                "half",
		filepath.Join(dir, "grade.logs", "1.log"):     "log",
		filepath.Join(dir, record.TaskFile): fmt.Sprintf(`{
  "task_id": %q, "task_description": "d", "variant_id": "default", "agent_type": "command", "started_at": "2026-01-01T00:00:00Z",
  "final_status": "NOT_GRADED", "iteration_count": 1, "weighted_score": null, "sandbox_path": "/nowhere/at/all", "x_other": [1,  2],
  "environment_info": {"podgrade_image": "i", "podgrade_image_id": %q, "podgrade_platform": "linux/amd64", "podgrade_state": "kept", "podgrade_state_diff_id": "sha256:%s"},
  "task_config": {"source_file": %q, "source_yaml": "", "resolved": {"task_id": %q, "description": "d", "initial_prompt": "p", "agent": {"type": "command", "command": "true"},
    "sandbox": {"driver": "docker", "docker": {"image": "i"}}, "reference": {"directory": "key"},
    "success_criteria": [{"type": "run_command", "command": "true", "description": "c"}]}}
}
`, task, image, sumOf([]byte(state)), filepath.Join(source, "t.yaml"), task),
	}
	for name, text := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			f.t.Fatal(err)
		}
	}
	return dir
}

func listing(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	if err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// What arrives is what left, but for where things are on this host; what is there
// already is not loaded again, and what is shared travels once.
func TestWhatArrivesIsWhatLeft(t *testing.T) {
	here, work := newTravel(t), t.TempDir()
	id := here.image("root")
	run := filepath.Join(work, "run")
	row := here.row(run, "t", id)
	before, err := os.ReadFile(filepath.Join(row, record.TaskFile))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(work, "a.tar")
	exported, err := here.export(run, file)
	if err != nil || exported.Rows != 1 || exported.Images != 1 || exported.States != 1 {
		t.Fatalf("%+v, %v", exported, err)
	}
	there := newTravel(t)
	imported, err := there.take(file, filepath.Join(work, "in"))
	if err != nil {
		t.Fatal(err)
	}
	if imported.Archive != exported.Archive || len(there.loaded) != 1 || len(there.noted) != 1 || !strings.HasSuffix(there.noted[0], filepath.Join(work, "in", "default/t/00")) {
		t.Errorf("%+v, loaded %q, noted %q", imported, there.loaded, there.noted)
	}
	if want := strings.Count(there.loaded[0], " "); want != 4 { // index, layout, manifest, configuration, layer
		t.Errorf("Podman is given %q", there.loaded[0])
	}
	if len(there.before) != 1 || there.before[0] {
		t.Errorf("what the agent changed was taken in as from before: %v", there.before)
	}
	for diffID, text := range here.states {
		if there.states[diffID] != text {
			t.Errorf("the state layer is %q", there.states[diffID])
		}
	}
	names := strings.Join(listing(t, filepath.Join(work, "in")), "\n")
	for _, want := range []string{"default/t/00/execute.dsse.json", "default/t/00/grade.logs/1.log", "default/t/00/artifacts/t/made", "/t.yaml", "/answer", record.RunFile} {
		if !strings.Contains(names, want) {
			t.Errorf("%s is not there:\n%s", want, names)
		}
	}
	for _, not := range []string{"half.tmp", ".git"} {
		if strings.Contains(names, not) {
			t.Errorf("%s is there:\n%s", not, names)
		}
	}
	after, err := os.ReadFile(filepath.Join(work, "in", "default/t/00", record.TaskFile))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := record.Parse(after)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Environment.Text(record.Imported) != exported.Archive || rec.Environment.Text(record.TaskDirDigest) == "" || rec.Environment.Text(record.ReferenceDir) == "" {
		t.Errorf("the record says %s", after)
	}
	was, err := record.Parse(before)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range record.ImportFacts() {
		rec.Environment.Delete(key)
	}
	if !bytes.Equal(rec.Bytes(), was.Bytes()) {
		t.Errorf("beside the facts of the import the record is\n%s\nwas\n%s", rec.Bytes(), was.Bytes())
	}
	if again, err := there.take(file, filepath.Join(work, "in2")); err != nil || len(again.Images) != 0 || len(again.Kept) != 1 || len(again.States) != 0 || len(there.loaded) != 1 {
		t.Errorf("%+v, %v", again, err)
	}
}

// Rows share their image, their state layer and their task directory: of a
// hundred rows an archive holds one of each.
func TestRowsShareWhatTravels(t *testing.T) {
	f, work := newTravel(t), t.TempDir()
	id := f.image(strings.Repeat("root", 10_000))
	run := filepath.Join(work, "run")
	size := map[int]int64{}
	for n := 1; n <= 20; n++ {
		dir := f.row(run, "t", id)
		if n > 1 {
			if err := os.Rename(dir, filepath.Join(filepath.Dir(dir), fmt.Sprintf("%02d", n))); err != nil {
				t.Fatal(err)
			}
		}
		if n == 1 || n == 20 {
			exported, err := f.export(run, filepath.Join(work, fmt.Sprintf("%d.tar", n)))
			if err != nil || exported.Images != 1 || exported.States != 1 {
				t.Fatalf("%+v, %v", exported, err)
			}
			size[n] = exported.Bytes
		}
	}
	if each := (size[20] - size[1]) / 19; each > 20_000 {
		t.Errorf("one row has %d bytes, each further one takes %d", size[1], each)
	}
}

// forged is an archive that podgrade has not written.
type forged struct {
	manifest archive.Manifest
	parts    map[string][]byte
}

func newForged() *forged { return &forged{parts: map[string][]byte{}} }

func (f *forged) part(name string, text []byte) string {
	if name == "" {
		name = archive.TreePart(sumOf(text))
	}
	f.manifest.Parts = append(f.manifest.Parts, archive.Part{Name: name, Size: int64(len(text)), SHA256: sumOf(text), Entries: min(100, len(text))})
	f.parts[name] = text
	return name
}

func (f *forged) blob(text []byte) string {
	f.part(archive.BlobPart("sha256:"+sumOf(text)), text)
	return "sha256:" + sumOf(text)
}

// tree is a part with the files of a directory that make fills.
func (f *forged) tree(t *testing.T, name string, make func(dir string) error) string {
	t.Helper()
	dir := t.TempDir()
	if err := make(dir); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	var b bytes.Buffer
	if _, err := tree.Pack(t.Context(), &b, int(open.Fd()), tree.PackOptions{Plain: true}); err != nil {
		t.Fatal(err)
	}
	return f.part(name, b.Bytes())
}

func (f *forged) row(t *testing.T, variant, task, name string, make func(dir string) error) {
	t.Helper()
	f.manifest.Rows = append(f.manifest.Rows, archive.Row{VariantID: variant, TaskID: task, Files: f.tree(t, name, make)})
}

// recordOf is a record as short as one can be, with keys and values of its
// environment_info.
func recordOf(variant, task string, info ...string) func(dir string) error {
	return func(dir string) error {
		env := map[string]string{}
		for at := 0; at+1 < len(info); at += 2 {
			env[info[at]] = info[at+1]
		}
		text, err := json.Marshal(map[string]any{
			"task_id": task, "variant_id": variant, "task_description": "d", "agent_type": "none",
			"final_status": "NOT_GRADED", "iteration_count": 0, "environment_info": env,
		})
		return errors.Join(err, os.WriteFile(filepath.Join(dir, record.TaskFile), text, 0o644))
	}
}

func (f *forged) write(t *testing.T, file string) {
	t.Helper()
	var b bytes.Buffer
	err := archive.Write(&b, &f.manifest, func(p archive.Part) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(f.parts[p.Name])), nil
	})
	if err == nil {
		err = os.WriteFile(file, b.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What a manifest says that a row needs is what the row's record needs.
func TestAManifestSaysWhatTheRecordsSay(t *testing.T) {
	const files = "rows/00000/files.tar"
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	for want, make := range map[string]func(t *testing.T, f *forged){
		"pins the image": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, recordOf("default", "t", record.ImageID, one))
			f.manifest.Rows[0].Image = two
		},
		`pins the image ""`: func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, recordOf("default", "t"))
			f.manifest.Rows[0].Image = two
		},
		"needs the state layers": func(t *testing.T, f *forged) {
			layer := f.blob([]byte("layer"))
			f.row(t, "default", "t", files, recordOf("default", "t", record.ImageID, one))
			f.manifest.Rows[0].States = []string{layer}
			f.manifest.States = []archive.State{{DiffID: layer, Image: one}}
		},
	} {
		t.Run(want, func(t *testing.T) {
			work, f, there := t.TempDir(), newForged(), newTravel(t)
			make(t, f)
			f.write(t, filepath.Join(work, "a.tar"))
			_, err := there.take(filepath.Join(work, "a.tar"), filepath.Join(work, "in"))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
			if left, _ := os.ReadDir(work); len(left) != 1 || len(there.loaded)+len(there.states) > 0 {
				t.Errorf("there is %v; loaded %q, states %q", left, there.loaded, there.states)
			}
		})
	}
}

// An archive whose sums are all right may still be forged. Nothing of it is put
// in place, and nothing is left where it would have been.
func TestForgedArchivesLeaveNothing(t *testing.T) {
	const files = "rows/00000/files.tar"
	good := recordOf("default", "t")
	config := []byte(`{"rootfs":{}}`)
	withImage := func(t *testing.T, f *forged, manifest []byte, id string) {
		f.row(t, "default", "t", files, recordOf("default", "t", record.ImageID, id))
		f.manifest.Rows[0].Image = id
		f.manifest.Images = []archive.Image{{ID: id, Manifest: f.blob(manifest)}}
	}
	for name, make := range map[string]func(t *testing.T, f *forged){
		"a record of another row": func(t *testing.T, f *forged) { f.row(t, "default", "t", files, recordOf("default", "u")) },
		"no record":               func(t *testing.T, f *forged) { f.row(t, "default", "t", files, func(string) error { return nil }) },
		"a record that is a link": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, func(dir string) error {
				return errors.Join(good(dir), os.Rename(filepath.Join(dir, record.TaskFile), filepath.Join(dir, "x")), os.Symlink("x", filepath.Join(dir, record.TaskFile)))
			})
		},
		"a row that leads out": func(t *testing.T, f *forged) { f.row(t, "default", "../../t", files, recordOf("default", "../../t")) },
		"a row among workspaces": func(t *testing.T, f *forged) {
			f.row(t, "default", "artifacts", files, recordOf("default", "artifacts"))
		},
		"a row among task dirs": func(t *testing.T, f *forged) {
			f.row(t, record.ImportedDir, "t", files, recordOf(record.ImportedDir, "t"))
		},
		"a variant with a slash": func(t *testing.T, f *forged) { f.row(t, "a/b", "t", files, recordOf("a/b", "t")) },
		"a row in another row": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, good)
			f.row(t, "default", "t/00/u", "rows/00001/files.tar", recordOf("default", "t/00/u"))
		},
		"a run that brings the row": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, good)
			f.manifest.Run = f.tree(t, "run.tar", func(dir string) error {
				return errors.Join(os.MkdirAll(filepath.Join(dir, "default/t/00"), 0o755), good(filepath.Join(dir, "default/t/00")))
			})
		},
		"a run that brings another row": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, good)
			f.manifest.Run = f.tree(t, "run.tar", func(dir string) error {
				return errors.Join(os.MkdirAll(filepath.Join(dir, "default/u/00"), 0o755), recordOf("default", "u")(filepath.Join(dir, "default/u/00")))
			})
		},
		"a row that brings another row": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, func(dir string) error {
				return errors.Join(good(dir), os.MkdirAll(filepath.Join(dir, "u/00"), 0o755), recordOf("default", "t/00/u")(filepath.Join(dir, "u/00")))
			})
		},
		"a run with another file": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, good)
			f.manifest.Run = f.tree(t, "run.tar", func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "execute.dsse.json"), []byte("{}"), 0o644)
			})
		},
		"files with a workspace": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, func(dir string) error {
				return errors.Join(good(dir), os.Mkdir(filepath.Join(dir, record.ArtifactsDir), 0o755))
			})
		},
		"files with a link": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, func(dir string) error {
				return errors.Join(good(dir), os.Symlink(record.TaskFile, filepath.Join(dir, "x")))
			})
		},
		"a run that leads the row elsewhere": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, good)
			f.manifest.Run = f.tree(t, "run.tar", func(dir string) error {
				return errors.Join(os.Mkdir(filepath.Join(dir, "elsewhere"), 0o755), os.Symlink("elsewhere", filepath.Join(dir, "default")))
			})
		},
		"a run that brings a task directory": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, good)
			part := f.tree(t, "", good)
			f.manifest.Rows[0].TaskDir = part
			f.manifest.Run = f.tree(t, "run.tar", func(dir string) error {
				return errors.Join(os.Mkdir(filepath.Join(dir, "elsewhere"), 0o755), os.Symlink("elsewhere", filepath.Join(dir, record.ImportedDir)))
			})
		},
		"files that bring a workspace": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, func(dir string) error {
				return errors.Join(good(dir), os.Mkdir(filepath.Join(dir, "x"), 0o755), os.Symlink("x", filepath.Join(dir, record.ArtifactsDir)))
			})
			f.manifest.Rows[0].Workspace = f.tree(t, "rows/00000/workspace.tar", func(string) error { return nil })
		},
		"a tree that is none": func(t *testing.T, f *forged) {
			f.manifest.Rows = []archive.Row{{VariantID: "default", TaskID: "t", Files: f.part(files, []byte(strings.Repeat("no tar ", 200)))}}
		},
		"more entries than it says": func(t *testing.T, f *forged) {
			f.row(t, "default", "t", files, good)
			f.manifest.Parts[0].Entries = 1
		},
		"an image of another configuration": func(t *testing.T, f *forged) {
			withImage(t, f, manifestOf(t, config, types.OCIUncompressedLayer, "layer"), strings.Repeat("1", 64))
		},
		"an image without its layers": func(t *testing.T, f *forged) {
			withImage(t, f, manifestOf(t, config, types.OCIUncompressedLayer, "layer"), sumOf(config))
			f.blob(config)
		},
		"an image with a compressed layer": func(t *testing.T, f *forged) {
			withImage(t, f, manifestOf(t, config, types.OCILayer, "layer"), sumOf(config))
			f.blob(config)
			f.blob([]byte("layer"))
		},
		"an image that is no JSON": func(t *testing.T, f *forged) { withImage(t, f, []byte("no"), sumOf(config)) },
		"a state layer without an image": func(t *testing.T, f *forged) {
			layer := f.blob([]byte("layer"))
			f.row(t, "default", "t", files, recordOf("default", "t", record.ImageID, strings.Repeat("2", 64), record.StateDiffID, layer))
			f.manifest.Rows[0].States = []string{layer}
			f.manifest.States = []archive.State{{DiffID: layer, Image: strings.Repeat("2", 64)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			work, f, there := t.TempDir(), newForged(), newTravel(t)
			make(t, f)
			f.write(t, filepath.Join(work, "a.tar"))
			imported, err := there.take(filepath.Join(work, "a.tar"), filepath.Join(work, "in"))
			if err == nil {
				t.Errorf("it was taken: %+v", imported)
			}
			if left, _ := os.ReadDir(work); len(left) != 1 {
				t.Errorf("there is %v", left)
			}
			if len(there.loaded)+len(there.states)+len(there.noted) > 0 {
				t.Errorf("loaded %q, states %q", there.loaded, there.states)
			}
		})
	}
}

// What fails on the way leaves nothing, and what is in the way stays.
func TestAnImportIsWholeOrNothing(t *testing.T) {
	here, work := newTravel(t), t.TempDir()
	run := filepath.Join(work, "run")
	here.row(run, "t", here.image("root"))
	file := filepath.Join(work, "a.tar")
	if _, err := here.export(run, file); err != nil {
		t.Fatal(err)
	}
	before := listing(t, work)
	there := newTravel(t)
	there.fail = errors.New("the disk is full")
	if _, err := there.take(file, filepath.Join(work, "in")); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Error(err)
	}
	taken := filepath.Join(work, "taken")
	if err := errors.Join(os.Mkdir(taken, 0o755), os.WriteFile(filepath.Join(taken, "mine"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{taken, filepath.Join(taken, "mine")} {
		if _, err := newTravel(t).take(file, in); regrade.KindOf(err) != regrade.User || strings.Contains(err.Error(), "\n") {
			t.Errorf("into %s: %v", in, err)
		}
	}
	if _, err := regrade.Import(t.Context(), file, filepath.Join(work, "in"), regrade.ImportOptions{Most: 1000}); regrade.KindOf(err) != regrade.Refused || !strings.Contains(err.Error(), "--max-size") {
		t.Error(err)
	}
	after := slices.DeleteFunc(listing(t, work), func(name string) bool { return name == "taken/mine" })
	if !slices.Equal(after, before) {
		t.Errorf("there is %q, was %q", after, before)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := regrade.Import(ctx, file, filepath.Join(work, "in"), regrade.ImportOptions{})
	if regrade.ExitCode(err) != regrade.ExitInterrupted {
		t.Errorf("interrupted: %v", err)
	}
}

// An image or a state layer that is gone, or is another one, makes no archive.
// What a task directory is handed on with does not depend on what was exported
// before: archives in it, whole or half, are no part of the task.
func TestAnExportHoldsNoOtherExport(t *testing.T) {
	f, work := newTravel(t), t.TempDir()
	run, source := filepath.Join(work, "run"), filepath.Join(work, "tasks")
	f.row(run, "t", f.image("root"))
	settled := func() {
		for _, dir := range []string{source, filepath.Join(source, "key")} {
			if err := os.Chtimes(dir, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	settled()
	first, err := f.export(run, filepath.Join(source, "first.tar"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(source, "first.tar"))
	if err == nil {
		err = os.WriteFile(filepath.Join(source, "key", ".half.tar.1.tmp"), text[:len(text)/2], 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	settled()
	second, err := f.export(run, filepath.Join(source, "second.tar"))
	if err != nil || second.Archive != first.Archive {
		t.Errorf("%v; %s, and without another archive in the task directory %s", err, second.Archive, first.Archive)
	}
}

func TestAnExportIsWholeOrNothing(t *testing.T) {
	for name, spoil := range map[string]func(f *travel, id string){
		"the image is gone": func(f *travel, id string) { delete(f.images, id) },
		"the image is another": func(f *travel, id string) {
			f.images[id]["manifest.json"] = manifestOf(f.t, []byte("{}"), types.OCIUncompressedLayer, "root")
		},
		"its layer is compressed": func(f *travel, id string) {
			f.images[id]["manifest.json"] = manifestOf(f.t, f.images[id][id], types.OCILayer, "root")
		},
		"its layer is missing":         func(f *travel, id string) { delete(f.images[id], sumOf([]byte("root"))) },
		"its layer has another length": func(f *travel, id string) { f.images[id][sumOf([]byte("root"))] = []byte("longer") },
		"its layer is another":         func(f *travel, id string) { f.images[id][sumOf([]byte("root"))] = []byte("tree") },
		"the state layer is another": func(f *travel, _ string) {
			for diffID := range f.states {
				f.states[diffID] += "x"
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, work := newTravel(t), t.TempDir()
			id := f.image("root")
			run := filepath.Join(work, "run")
			f.row(run, "t", id)
			spoil(f, id)
			before := listing(t, work)
			if _, err := f.export(run, filepath.Join(work, "a.tar")); err == nil {
				t.Error("an archive was made")
			}
			if after := listing(t, work); !slices.Equal(after, before) {
				t.Errorf("there is %q, was %q", after, before)
			}
		})
	}
}

// Both state layers of a row travel, and that of before the agent stays what it
// is.
func TestAStateLayerOfBeforeTheAgentStaysOne(t *testing.T) {
	here, work := newTravel(t), t.TempDir()
	run := filepath.Join(work, "run")
	row := here.row(run, "t", here.image("root"))
	const before = "what pre_run changed"
	here.states["sha256:"+sumOf([]byte(before))] = before
	text, err := os.ReadFile(filepath.Join(row, record.TaskFile))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `"podgrade_state": "kept"`, fmt.Sprintf(`"podgrade_state": "kept", %q: "sha256:%s"`, record.PreRunDiffID, sumOf([]byte(before))), 1)
	if err := os.WriteFile(filepath.Join(row, record.TaskFile), []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(work, "a.tar")
	if exported, err := here.export(row, file); err != nil || exported.States != 2 {
		t.Fatalf("%+v, %v", exported, err)
	}
	there := newTravel(t)
	imported, err := there.take(file, filepath.Join(work, "in"))
	if err != nil || len(there.noted) != 2 {
		t.Fatalf("%+v, noted %q, %v", imported, there.noted, err)
	}
	for n, id := range imported.States {
		if want := id == "sha256:"+sumOf([]byte(before)); there.before[n] != want {
			t.Errorf("%s is of before the agent: %v", id, there.before[n])
		}
	}
}

// What is packed is what was consented to, and what a grade has left whole.
func TestARowThatChangesMeanwhileIsNotPacked(t *testing.T) {
	for name, change := range map[string]func(f *travel, row string){
		"another record": func(f *travel, row string) {
			f.begun = func() { f.write(filepath.Join(row, record.TaskFile), `{"task_id": "t"}`) }
		},
		"another record while it is packed": func(f *travel, row string) {
			f.packs = func() { f.write(filepath.Join(row, record.TaskFile), `{"task_id": "t"}`) }
		},
		"a link in the row's place": func(f *travel, row string) {
			f.begun = func() {
				f.moved(row, row+"-other")
			}
		},
		"a link above the row": func(f *travel, row string) {
			f.begun = func() { f.moved(filepath.Dir(filepath.Dir(row)), filepath.Dir(filepath.Dir(row))+"-other") }
		},
	} {
		for _, alone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, alone %v", name, alone), func(t *testing.T) {
				f, work := newTravel(t), t.TempDir()
				run := filepath.Join(work, "run")
				row := f.row(run, "t", f.image("root"))
				change(f, row)
				what := run
				if alone {
					what = row
				}
				if _, err := f.export(what, filepath.Join(work, "a.tar")); err == nil {
					t.Error("it was packed")
				}
				if _, err := os.Lstat(filepath.Join(work, "a.tar")); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("an archive is there: %v", err)
				}
			})
		}
	}
}

func (f *travel) write(path, text string) {
	f.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// moved moves a directory and leaves a link to it.
func (f *travel) moved(from, to string) {
	f.t.Helper()
	if err := errors.Join(os.Rename(from, to), os.Symlink(to, from)); err != nil {
		f.t.Fatal(err)
	}
}

// While a row is packed nobody grades it, and what a grade has to write can be
// written: it loses no verdict to an export.
func TestAnExportKeepsGradesOutAndLosesNoVerdict(t *testing.T) {
	f, work := newTravel(t), t.TempDir()
	dir := f.row(filepath.Join(work, "run"), "t", f.image("root"))
	row, err := record.OpenRow(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	packed := 0
	f.packs = func() {
		packed++
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		if release, err := row.Claim(ctx, func() {}); err == nil {
			release()
			t.Error("a grade begins while the row is packed")
		}
		begun := time.Now()
		unlock, err := row.Lock()
		if err != nil || time.Since(begun) > time.Second {
			t.Fatalf("the record cannot be written: %v", err)
		}
		unlock()
	}
	if _, err := f.export(dir, filepath.Join(work, "a.tar")); err != nil || packed == 0 {
		t.Fatal(packed, err)
	}
	release, err := row.Claim(t.Context(), func() { t.Error("the export still holds the row") })
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	f.packs = nil
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err = regrade.Export(ctx, dir, filepath.Join(work, "b.tar"), regrade.ExportOptions{
		Paths: true, Start: func(context.Context) (regrade.ExportEngines, error) { return f, nil },
		Notice: &f.notice, Lookup: func(string) (string, bool) { return "", false }, Version: "1",
	})
	if err == nil || !strings.Contains(f.notice.String(), "waiting for a grade") {
		t.Errorf("a row that is being graded: %v\n%s", err, &f.notice)
	}
}

// What a dead podgrade left beside the name goes, and nothing else does.
func TestWhatADeadPodgradeLeftGoes(t *testing.T) {
	f, work := newTravel(t), t.TempDir()
	dir := f.row(filepath.Join(work, "run"), "t", f.image("root"))
	stays := []string{".a.tar.7.tmp", ".a.tar.x.tmp", ".b.tar.1.tmp", "a.tar.1.tmp", ".in.5.tmp", ".in.6.tmp/sub/file", ".a.tar.9.tmp/file"}
	for _, name := range append(stays, ".a.tar.1234.tmp", ".in.1234.tmp/default/t/00/task.json") {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		f.write(filepath.Join(work, name), "x")
	}
	for _, living := range []string{".a.tar.7.tmp", ".in.6.tmp"} {
		file, err := os.Open(filepath.Join(work, living))
		if err == nil {
			err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
	}
	f.begun = func() { // another export to the same name is the first to end
		f.begun = nil
		if _, err := f.export(dir, filepath.Join(work, "a.tar")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.export(dir, filepath.Join(work, "a.tar")); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("an archive was replaced: %v", err)
	}
	if _, err := newTravel(t).take(filepath.Join(work, "a.tar"), filepath.Join(work, "in")); err != nil {
		t.Fatal(err)
	}
	for _, name := range stays {
		if _, err := os.Lstat(filepath.Join(work, name)); err != nil {
			t.Error(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(work, ".*.tmp"))
	if err != nil || len(left) != 6 {
		t.Errorf("there is %q, %v", left, err)
	}
	if !strings.Contains(f.notice.String(), ".a.tar.1234.tmp") {
		t.Errorf("it is not said:\n%s", &f.notice)
	}
}

// What has its name is there, also where the disk does not say that it keeps it.
func TestWhatHasItsNameIsNotCalledFailed(t *testing.T) {
	regrade.FailSync(t)
	f, work := newTravel(t), t.TempDir()
	dir := f.row(filepath.Join(work, "run"), "t", f.image("root"))
	if _, err := f.export(dir, filepath.Join(work, "a.tar")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.take(filepath.Join(work, "a.tar"), filepath.Join(work, "in")); err != nil {
		t.Fatal(err)
	}
	if said := strings.Count(f.notice.String(), "the disk says no"); said != 2 {
		t.Errorf("it is said %d times:\n%s", said, &f.notice)
	}
}
