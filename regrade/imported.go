package regrade

import (
	"errors"
	"fmt"
	"path/filepath"

	"podgrade/policy"
	"podgrade/tasks/record"
)

// importedBy is what a record says of where an import put the task directory and
// the reference; run is the directory of its run, every link resolved.
func importedBy(r *record.Record, run string) policy.Imported {
	return policy.Imported{
		Dir:       filepath.Join(run, record.ImportedDir),
		TaskDir:   r.Environment.Text(record.TaskDir),
		Reference: r.Environment.Text(record.ReferenceDir),
	}
}

// checkImportedTaskDir refuses a task directory that is not what was imported,
// or not the row's.
func (g *grading) checkImportedTaskDir(config record.TaskConfig) error {
	dir := g.accepted.TaskDir()
	if err := checkImported(dir, g.record.Environment.Text(record.TaskDirDigest)); err != nil {
		return changedImport("task directory", dir, err)
	}
	if err := isTaskFileOf(dir, config.SourceFile, g.task); err != nil {
		return changedImport("task directory", dir, err)
	}
	return nil
}

// checkImportedReference refuses a reference that is not what was imported. The
// digest that the run itself recorded is compared as of every row.
func (g *grading) checkImportedReference() error {
	dir := g.accepted.Reference()
	if dir == "" || g.options.Given != nil || g.record.Environment.Text(record.ReferenceDir) == "" {
		return nil
	}
	if err := checkImported(dir, g.record.Environment.Text(record.ReferenceDirDigest)); err != nil {
		return changedImport("reference", dir, err)
	}
	return nil
}

// checkImported compares a directory with the digest that the import noted.
func checkImported(dir, recorded string) error {
	now, err := importedDigest(dir)
	switch {
	case err != nil:
		return err
	case recorded == "":
		return errors.New("the record holds no digest of it")
	case now != recorded:
		return fmt.Errorf("its digest is %s and was %s when it was imported", now, recorded)
	}
	return nil
}

func changedImport(what, dir string, why error) error {
	return &Error{Kind: Refused, Tried: "use the imported " + what, On: dir, Why: why,
		Do: "import the row again (podgrade import), or grade it by its task file (podgrade evaluate TASK ROW)"}
}
