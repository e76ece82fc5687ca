package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks/record"
)

// isTaskForm tells whether the arguments are a task file and what it grades
// (spec/cli.md 5.1).
func isTaskForm(args []string) bool {
	if len(args) != 2 {
		return false
	}
	info, err := os.Stat(args[0])
	return err == nil && info.Mode().IsRegular() && filepath.Base(args[0]) != record.TaskFile
}

// checkForm refuses files that are named as rows, before any row is graded: a
// task file comes first, and one row or run follows it.
func checkForm(c *cli.Context) error {
	args := c.Args().Slice()
	for i, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err != nil || !info.Mode().IsRegular() || filepath.Base(arg) == record.TaskFile:
		case len(args) == 1:
			return usage(c, "%s is a file, and no row or run was named that is graded by it: evaluate TASK DIR", arg)
		case i == 0:
			return usage(c, "after the task file %s comes one row or run, and %s given", arg, argumentsWere(len(args)-1))
		default:
			return usage(c, "%s is a file, and was given as a row: a task file comes first, and one row or run follows it: evaluate TASK DIR", arg)
		}
	}
	return regrade.CheckNamed(args)
}

// fileForm is what the form with a task file is given.
type fileForm struct {
	layers    *selection
	file, dir string
	width     int
}

// evaluateFile grades a row, a run, or a tree that no run has left, by a task
// file of the operator.
func evaluateFile(c *cli.Context, form fileForm, o regrade.Options) error {
	if err := regrade.CheckNamed([]string{form.dir}); err != nil {
		return err
	}
	if info, err := os.Stat(form.dir); err != nil || !info.IsDir() {
		return &regrade.Error{Kind: regrade.TaskFault, Tried: "grade", On: form.dir, Why: errors.New("it is no directory"), Do: "name a row directory, or a directory to grade"}
	}
	request, err := form.layers.request(c)
	if err != nil {
		return err
	}
	file, err := regrade.OpenFile(form.file, request, o)
	if err != nil {
		return err
	}
	row, rec, err := readRow(form.dir)
	if err != nil {
		return err
	}
	if rec == nil && regrade.IsRun(form.dir) {
		return evaluateRun(c, form, file, o)
	}
	if rec == nil {
		return evaluateTree(c, form, file, o)
	}
	defer row.Close()
	if o.Given, err = file.ForRow(form.dir, rec); err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "graded by %s instead of the recorded task\n", policy.Neutral(form.file))
	if o.Check {
		return evaluateMany(c, []regrade.Target{{Dir: form.dir, Given: o.Given}}, 1, o)
	}
	return evaluateRow(c, row, o)
}

// evaluateRun grades the rows of a run by a task file, and shows what became of
// their verdicts.
func evaluateRun(c *cli.Context, form fileForm, file *regrade.GivenFile, o regrade.Options) error {
	if c.IsSet("workspace") || c.IsSet("run-dir") {
		return usage(c, "--workspace and --run-dir are for one row, and %s is a run", form.dir)
	}
	targets, others, err := file.TargetsOf(form.dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "graded by %s instead of the recorded task: %s\n", policy.Neutral(form.file), rowCount(len(targets)))
	if others > 0 {
		fmt.Fprintf(c.App.ErrWriter, "of other variants and tasks, and left as they are: %s\n", rowCount(others))
	}
	return evaluateMany(c, targets, form.width, o)
}

// readRow opens a directory and reads its record; nil when it holds none, or a
// file of that name that is none.
func readRow(dir string) (*record.Row, *record.Record, error) {
	row, err := regrade.OpenRow(dir)
	if err != nil {
		return nil, nil, err
	}
	rec, _, err := row.Read()
	if err == nil {
		return row, rec, nil
	}
	row.Close()
	if errors.Is(err, record.ErrNoRecord) {
		return nil, nil, nil
	}
	if errors.Is(err, record.ErrUnreadable) {
		return nil, nil, nil
	}
	return nil, nil, &regrade.Error{Kind: regrade.Refused, Tried: "read the record of", On: dir, Why: err, Do: "restore it, or grade another directory"}
}

// evaluateTree grades a tree that no run has left; the record of that lies in a
// directory of its own.
func evaluateTree(c *cli.Context, form fileForm, file *regrade.GivenFile, o regrade.Options) error {
	dir := form.dir
	if o.Check {
		return usage(c, "--check compares with a recorded verdict, and %s holds none", dir)
	}
	if c.IsSet("workspace") {
		return usage(c, "--workspace is for a row, and %s is none", dir)
	}
	if _, err := os.Lstat(filepath.Join(dir, record.TaskFile)); err == nil {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s is no record, so %s is graded as a tree that no run has left\n", record.TaskFile, policy.Neutral(dir))
	}
	given, err := file.Only()
	if err != nil {
		return err
	}
	path, explicit := c.String("run-dir"), true
	if path == "" {
		path, explicit = filepath.Join(baseOfRuns(), record.RunID(time.Now())), false
	}
	made, err := record.NewRunDir(path, explicit)
	if err != nil {
		return &regrade.Error{Kind: regrade.Infrastructure, Tried: "make the directory of the grade", On: path, Why: err, Do: "name one that you can write to with --run-dir"}
	}
	row, err := regrade.NewTree(made, given, version)
	if err != nil {
		return err
	}
	defer row.Close()
	fmt.Fprintf(c.App.ErrWriter, "the record of this grade is in %s\n", policy.Neutral(made))
	o.Given, o.Workspace, o.Run = given, dir, made
	return evaluateRow(c, row, o)
}
