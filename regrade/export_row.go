package regrade

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"podgrade/isolation/tree"
	"podgrade/policy"
	"podgrade/regrade/archive"
	"podgrade/tasks/record"
)

// claimed is a row that nobody grades.
type claimed struct {
	*record.Row
	record  *record.Record
	text    []byte // of the record
	release func()
}

func (c *claimed) close() {
	c.release()
	c.Close()
}

// claim keeps grades of a row out, and refuses a record that is not the one that
// was consented to.
func (x *exporting) claim(ctx context.Context, l leaving) (*claimed, error) {
	row, err := x.open(l.in)
	if err != nil {
		return nil, err
	}
	c := &claimed{Row: row, release: func() {}}
	release, err := row.Claim(ctx, func() {
		fmt.Fprintf(x.options.Notice, "waiting for a grade of %s\n", policy.Neutral(row.Dir))
	})
	if err != nil {
		c.close()
		return nil, &Error{Kind: Infrastructure, Tried: "export", On: l.dir, Why: err, Do: "wait until it is graded, and export it again"}
	}
	c.release = release
	c.record, c.text, err = row.Read()
	if err == nil && (row.Dir != l.dir || sha256.Sum256(c.text) != l.sum) {
		err = errChangedMeanwhile
	}
	if err != nil {
		c.close()
		return nil, changedRow(l.dir, err)
	}
	return c, nil
}

func changedRow(on string, why error) error {
	return &Error{Kind: Refused, Tried: "export", On: on, Why: why, Do: "wait until nothing works on the row, and export it again"}
}

// row packs what belongs to a row. Nobody may grade it meanwhile.
func (x *exporting) row(ctx context.Context, l leaving) error {
	row, err := x.claim(ctx, l)
	if err != nil {
		return err
	}
	defer row.close()
	part := archive.Row{VariantID: l.id.VariantID, TaskID: l.id.TaskID, Replicate: l.id.Replicate}
	n := len(x.manifest.Rows)
	if part.Files, err = x.rowFiles(ctx, l.dir, archive.RowPart(n, archive.RowFiles)); err != nil {
		return err
	}
	if part.Workspace, err = x.workspace(ctx, l, row, archive.RowPart(n, archive.RowWorkspace)); err != nil {
		return err
	}
	if part.TaskDir, err = x.shared(ctx, l.carried.TaskDir, l); err != nil {
		return err
	}
	if part.Reference, err = x.shared(ctx, l.carried.Reference, l); err != nil {
		return err
	}
	if part.Image, part.States, err = x.cellOf(ctx, l.id, row.record.Environment); err != nil {
		return err
	}
	if !row.Unchanged(row.text) {
		return changedRow(l.dir, errChangedMeanwhile)
	}
	x.manifest.Rows = append(x.manifest.Rows, part)
	return nil
}

// rowFiles packs the files of the row directory: the record, logs, signatures,
// whatever there is, but not what a podgrade has half written.
func (x *exporting) rowFiles(ctx context.Context, dir, name string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", exportError(dir, err)
	}
	omitted := notOfFiles()
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") {
			omitted.Top = append(omitted.Top, e.Name())
		}
	}
	below := hiddenFrom("", x.options.Keys, x.options.Scratch)
	for _, other := range x.rows { // the id of a task may hold slashes
		if strings.HasPrefix(other.dir, dir+string(filepath.Separator)) {
			below = append(below, other.dir)
		}
	}
	return x.tree(ctx, dir, name, tree.PackOptions{Plain: true, Omission: omitted, Skip: idsOf(below...), Most: mostOfRow})
}

// workspace packs the artifacts of a row, owners and all; "" when there are
// none.
func (x *exporting) workspace(ctx context.Context, l leaving, row *claimed, name string) (string, error) {
	dir := filepath.Join(l.dir, record.ArtifactsDir)
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(x.options.Notice, "warning: %s: there is no workspace to take along\n", policy.Neutral(l.id.String()))
		return "", nil
	}
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err == nil {
		err = liesIn(dir, row.Row, row.record)
	}
	if err != nil {
		return "", exportError(dir, err)
	}
	return x.tree(ctx, dir, name, tree.PackOptions{})
}

// liesIn refuses a workspace that is elsewhere in the row directory than where it
// is looked for once the row is elsewhere.
func liesIn(artifacts string, row *record.Row, rec *record.Record) error {
	found, err := findWorkspace(row, rec, "")
	if err != nil {
		return nil // a grade says so: what there is travels all the same
	}
	if found != artifacts && !strings.HasPrefix(found, artifacts+string(filepath.Separator)) {
		return fmt.Errorf("the workspace lies beside it, at %s", found)
	}
	return nil
}

// shared packs a directory that rows share, once.
func (x *exporting) shared(ctx context.Context, dir string, l leaving) (string, error) {
	if dir == "" {
		return "", nil
	}
	if name, done := x.trees[dir]; done {
		return name, nil
	}
	if err := refuseTaskDirOfRun(dir, record.RunOf(l.dir, l.id)); err != nil {
		return "", err
	}
	left, err := leftOut(dir, hiddenFrom(record.RunOf(l.dir, l.id), x.options.Keys, x.options.Scratch))
	if err != nil {
		return "", exportError(dir, err)
	}
	name, err := x.tree(ctx, dir, "", tree.PackOptions{Plain: true, Filter: true, Skip: idsOf(left...), Most: mostCarried})
	x.trees[dir] = name
	return name, err
}

// leftOut is what lies below a task directory and is no part of the task: what is
// hidden, and runs and archives of them, which hold what agents answered.
func leftOut(dir string, without hidden) ([]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var left []string
	entries := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if entries++; entries > mostTreeEntries || len(left) > mostLeftOut {
			return fmt.Errorf("it holds more than %d entries or %d runs and archives", mostTreeEntries, mostLeftOut)
		}
		if err != nil || name == "." || entry.Type()&fs.ModeSymlink != 0 || !without.hides(root, name, entry.Type()) {
			return err
		}
		left = append(left, filepath.Join(dir, name))
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return left, err
}
