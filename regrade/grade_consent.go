package regrade

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// where routes the grade (spec/regrade.md 1.2).
func (g *grading) where() (policy.Place, error) {
	if g.options.AllowHost || g.task.Sandbox.Driver == tasks.DriverTempdir && !g.executedInCell() {
		return policy.OnHost, nil
	}
	if value, _ := g.options.Lookup(oci.EnvInContainer); value == "1" {
		return "", &Error{Kind: Refused, Tried: "open a cell for", On: g.row.Dir,
			Why: fmt.Errorf("%s=1 says that podgrade itself runs in a container", oci.EnvInContainer),
			Do:  "unset it, or use --allow-host-grading to grade right here"}
	}
	return policy.InCell, nil
}

// executedInCell tells whether podgrade executed the row in a cell, which its
// driver does not say: tempdir means the host to upstream.
func (g *grading) executedInCell() bool {
	_, onHost := g.record.Environment.Get(record.ExecutedOnHost)
	return !onHost && record.Pin(g.record.Environment).Known()
}

// checkFair refuses a row whose cell this release cannot make: the verdict of
// another cell would say nothing about the row, and no stamp says so.
func (g *grading) checkFair(place policy.Place) error {
	if place == policy.OnHost {
		return nil
	}
	var needs []string
	need := func(what, value string) {
		if value != "" {
			needs = append(needs, what+" "+policy.Neutral(value))
		}
	}
	if podman := g.task.Sandbox.Podman; podman != nil {
		if podman.ReadOnly {
			need("a root file system", "that cannot be written")
		}
	}
	if len(needs) == 0 {
		return nil
	}
	return &Error{Kind: Refused, Tried: "open a cell for", On: g.row.Dir,
		Why: fmt.Errorf("the record names %s, and this release cannot give that to a grading cell", strings.Join(needs, ", ")),
		Do:  "use the release of podgrade that executed the row, or grade with --allow-host-grading"}
}

func (g *grading) consent() error {
	request, err := g.request()
	if err != nil {
		return err
	}
	answer := g.options.Answer
	if g.options.Given != nil {
		answer.TaskFile = true
	}
	if request.SignedBy == policy.Unsigned || answer.Explicit() {
		g.accepted, err = policy.Consent(request, answer, g.options.Notice)
		return err
	}
	var said strings.Builder // until the workspace is seen, which is signed too
	g.accepted, err = policy.Consent(request, answer, &said)
	g.bySigner = said.String()
	return err
}

// signatureHolds says what the signature of the row has accepted.
func (g *grading) signatureHolds() {
	if g.bySigner != "" {
		io.WriteString(g.options.Notice, g.bySigner)
		g.bySigner = ""
	}
}

// Asks finds out what a grade of the row would ask for, and what of that is left
// to answer. Nothing is started or changed; errors are those of Grade.
func Asks(row *record.Row, o Options) (policy.Asked, error) {
	g := &grading{row: row, options: o}
	if err := g.read(); err != nil {
		return policy.Asked{}, err
	}
	if err := g.vouch(); err != nil {
		return policy.Asked{}, err
	}
	request, err := g.request()
	if err != nil {
		return policy.Asked{}, err
	}
	return policy.Ask(request, o.Answer.Policy)
}

// request is what the grade is accepted for: all that may steer it.
func (g *grading) request() (policy.Request, error) {
	place, err := g.where()
	if err == nil {
		err = g.checkFair(place)
	}
	if err != nil {
		return policy.Request{}, err
	}
	file, err := g.taskFile()
	if err != nil {
		return policy.Request{}, err
	}
	searchPath := g.record.Environment.Text(record.CommandBasePath)
	if g.options.Given != nil && !g.options.Answer.RecordedCommands {
		searchPath = "" // nobody is asked about what only the record says
	}
	return policy.Request{
		Task:            g.task,
		Phase:           oci.Grade,
		Given:           g.options.Given != nil,
		Place:           place,
		HostAllowed:     g.options.AllowHost,
		Pin:             record.Pin(g.record.Environment),
		State:           record.GradeState(g.record.Environment),
		CleanState:      g.cleanState(),
		ImageDrift:      g.options.ImageDrift,
		RecordedNetwork: g.network() == NetworkRecorded,
		TaskFile:        file,
		Imported:        importedBy(g.record, g.run()),
		RunDir:          g.run(),
		KeyDir:          keyDirOf(g.options.Keys),
		SearchPath:      searchPath,
		PostRunDone:     g.postRunDone(),
		LostVenv:        g.lost(venvDir),
		LostNodeModules: g.lost(nodeDir),
		SignedBy:        g.signedBy(place),
		Passed:          passed(g.record.Environment),
		Baseline:        g.options.Answer.Policy.Baseline(),
		Lookup:          g.options.Lookup,
	}, nil
}

// checkTaskFile refuses a recorded task file that is not the row's: the cell
// would get the directory of something else, such as /etc, as its task
// directory. It reads the file, so it is asked after consent.
func (g *grading) checkTaskFile() error {
	if g.accepted.TaskDir() == "" || g.options.Given != nil {
		return nil
	}
	config, err := g.record.TaskConfig()
	if err != nil {
		return err
	}
	if g.record.Environment.Text(record.TaskDir) != "" {
		return g.checkImportedTaskDir(config)
	}
	if err := isTaskFileOf(g.accepted.TaskDir(), config.SourceFile, g.task); err != nil {
		return &Error{Kind: Refused, Tried: "use the recorded task file", On: config.SourceFile, Why: err,
			Do: "put the task file of the run back there: the directory that it lies in is the task directory"}
	}
	return nil
}

// isTaskFileOf refuses a task directory whose task file is another task's. Only
// the name counts of what the record says: dir is what was accepted, and the rest
// of the path may lead elsewhere by now, or never have led there.
func isTaskFileOf(dir, source string, task *tasks.Task) error {
	name := filepath.Base(source)
	if name == "." || !filepath.IsLocal(name) {
		return fmt.Errorf("the record names no task file: %q", source)
	}
	id, err := tasks.FileID(filepath.Join(dir, name))
	if err == nil && id != task.TaskID && id != task.SuiteID {
		err = fmt.Errorf("its task_id is %q, and the row is of %q", id, task.TaskID)
	}
	return err
}

// network is one of the networks that can be chosen for a grade.
func (g *grading) network() string {
	if g.options.Network == "" && g.options.Given != nil {
		return g.options.Given.network()
	}
	return g.options.Network
}

// passed names the host variables that the agent's cell had; nil for a record
// that does not say, as every record of coder-eval.
func passed(info *record.Object) *[]string {
	if value, ok := info.Value(record.Variables).Text(); ok {
		names := strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		return &names
	}
	return nil
}

func (g *grading) postRunDone() bool {
	return g.record.Get(record.FieldPostRunResults).Length() > 0
}
