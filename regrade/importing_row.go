package regrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"podgrade/isolation/tree"
	"podgrade/regrade/archive"
	"podgrade/tasks/record"
)

// row unpacks a row into its place.
func (i *importing) row(ctx context.Context, part archive.Row) error {
	id := idOf(part)
	row, err := record.Create(i.stage, id)
	if err != nil {
		return i.refuse(err, "nothing of it was used")
	}
	defer row.Close()
	if entries, err := os.ReadDir(row.Dir); err != nil || len(entries) > 0 {
		return i.refuse(errors.Join(fmt.Errorf("the files of the run lie where the row %s lies", id), err), "nothing of it was used")
	}
	if err := i.unpack(ctx, part.Files, row.Dir, tree.UnpackOptions{Plain: true, Omission: notOfFiles()}); err != nil {
		return err
	}
	if part.Workspace != "" {
		artifacts := filepath.Join(row.Dir, record.ArtifactsDir)
		if err := os.Mkdir(artifacts, 0o700); err != nil {
			return i.refuse(err, "nothing of it was used")
		}
		if err := i.unpack(ctx, part.Workspace, artifacts, tree.UnpackOptions{}); err != nil {
			return err
		}
	}
	if err := i.rewrite(ctx, row, part); err != nil {
		return err
	}
	i.result.Rows = append(i.result.Rows, id.String())
	for _, state := range part.States {
		i.needs[state] = append(i.needs[state], id.String())
	}
	return nil
}

// rewrite says in the record where things are now. All else keeps its bytes.
func (i *importing) rewrite(ctx context.Context, row *record.Row, part archive.Row) error {
	rec, _, err := row.Read()
	if err == nil && (rec.TaskID != part.TaskID || rec.VariantID != part.VariantID) {
		err = fmt.Errorf("its record is of %s/%s", rec.VariantID, rec.TaskID)
	}
	if err == nil {
		err = saysOtherwise(part, rec.Environment)
	}
	if err != nil {
		return i.refuse(fmt.Errorf("the row %s: %w", idOf(part), err), "nothing of it was used")
	}
	i.after[rec.Environment.Text(record.StateDiffID)] = true
	for _, key := range record.ImportFacts() {
		rec.Environment.Delete(key)
	}
	rec.Environment.Set(record.Imported, i.archive.Sum)
	for _, carried := range []struct{ part, dir, digest string }{
		{part.TaskDir, record.TaskDir, record.TaskDirDigest}, {part.Reference, record.ReferenceDir, record.ReferenceDirDigest},
	} {
		if carried.part == "" {
			continue
		}
		put, err := i.carry(ctx, carried.part)
		if err != nil {
			return err
		}
		rec.Environment.Set(carried.dir, put.name)
		rec.Environment.Set(carried.digest, put.digest)
	}
	if err := row.Write(record.TaskFile, rec.Bytes()); err != nil {
		return i.failed(err)
	}
	return nil
}

// saysOtherwise compares what the manifest says that a row needs with the row's
// record, which a grade goes by.
func saysOtherwise(part archive.Row, info *record.Object) error {
	pin, layers := record.Pin(info), record.StateLayers(info)
	// A pin by the digest alone names the same image by another identity.
	if part.Image != "" && part.Image != pin.ID && (pin.ID != "" || !pin.Known()) {
		return fmt.Errorf("its record pins the image %q, and the manifest says %s", pin.ID, part.Image)
	}
	for _, state := range part.States {
		if !slices.Contains(layers, state) {
			return fmt.Errorf("its record needs the state layers %q, and the manifest says %s", layers, state)
		}
	}
	return nil
}

// carry unpacks a task directory or a reference, once.
func (i *importing) carry(ctx context.Context, part string) (carriedTree, error) {
	if put, done := i.trees[part]; done {
		return put, nil
	}
	p := i.archive.Part(part)
	put := carriedTree{name: p.SHA256}
	dir := filepath.Join(i.stage, record.ImportedDir, put.name)
	if err := os.Mkdir(filepath.Dir(dir), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return put, i.failed(err)
	}
	if info, err := os.Lstat(filepath.Dir(dir)); err != nil || !info.IsDir() {
		return put, i.refuse(errors.Join(errors.New("the files of the run lie where task directories are put"), err), "nothing of it was used")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return put, i.refuse(err, "nothing of it was used")
	}
	if err := i.unpack(ctx, part, dir, tree.UnpackOptions{Plain: true}); err != nil {
		return put, err
	}
	var err error
	if put.digest, err = importedDigest(dir); err != nil {
		return put, i.failed(err)
	}
	i.trees[part] = put
	return put, nil
}

// summary gives rows that travel alone the summary of a run.
func (i *importing) summary() error {
	root, err := os.OpenRoot(i.stage)
	if err != nil {
		return i.failed(err)
	}
	defer root.Close()
	if _, err := root.Lstat(record.RunFile); err == nil {
		return nil
	}
	s, _, err := record.Rebuild(i.stage)
	if err == nil {
		s.RunID = filepath.Base(i.run)
		err = s.Write(i.stage)
	}
	if err != nil {
		return i.failed(err)
	}
	return nil
}
