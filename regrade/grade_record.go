package regrade

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-multierror"

	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// gaps says what the row may have had when the agent ran and a grade cannot
// give it, where nothing is certain enough for a refusal or a stamp.
func (g *grading) gaps() []string {
	var gaps []string
	for _, problem := range g.task.Warnings() {
		gaps = append(gaps, "the recorded task: "+problem.Error())
	}
	if g.lostTaskFile() != "" {
		gaps = append(gaps, "the recorded task file is not on this host, or out of reach, so commands find no task directory")
	}
	for _, installed := range []struct {
		what     string
		packages *tasks.Packages
		again    *tasks.Packages // what this grade installs
		dir      string
	}{
		{"python", g.task.Sandbox.Python, g.accepted.Setup().Python, venvDir},
		{"node", g.task.Sandbox.Node, g.accepted.Setup().Node, nodeDir},
	} {
		switch {
		case installed.again != nil:
			gaps = append(gaps, fmt.Sprintf("the workspace has lost %s, so %s packages are installed again, perhaps in other versions: %s",
				installed.dir, installed.what, strings.Join(installed.again.EnvPackages, " ")))
		case installed.packages == nil || len(installed.packages.EnvPackages) == 0 || isDir(filepath.Join(g.workspace, installed.dir)) || g.record.Environment.Text(record.StateDiffID) != "":
		default:
			gaps = append(gaps, fmt.Sprintf("the task installs %s packages and the agent left no %s: a grade installs nothing", installed.what, installed.dir))
		}
	}
	return gaps
}

func (g *grading) read() error {
	var err error
	g.record, g.before, err = g.row.Read()
	if errors.Is(err, record.ErrNoRecord) {
		return withoutRecord(triedGrade, g.row.Dir)
	}
	if err != nil {
		kind, do := kindOfReading(err), "restore it, or execute the row again"
		switch {
		case errors.Is(err, fs.ErrPermission):
			do = "grade it as the user who owns it, or make " + record.TaskFile + " readable"
		case kind == Infrastructure:
			do = "see to the disk, and grade it again"
		}
		return &Error{Kind: kind, Tried: "read the record of", On: g.row.Dir, Why: err, Do: do}
	}
	if endedEarly(g.record) && !g.record.HasVerdict() && g.options.Live == nil {
		return nothingToGrade(g.row.Dir, g.record, "podgrade run, with its task file and --resume --retry error")
	}
	g.task, err = g.taskOf()
	if err == nil && len(g.task.SuccessCriteria) == 0 {
		err = errNoCriteria
	}
	if g.options.Check && !g.record.HasVerdict() {
		return &Error{Kind: User, Tried: "check the verdict of", On: g.row.Dir, Why: errors.New("it has none"), Do: "grade it first, without --check"}
	}
	if err != nil {
		return &Error{Kind: Refused, Tried: "rebuild the task from the record of", On: g.row.Dir, Why: err,
			Do: "grade it by a task file (podgrade evaluate TASK ROW), or execute the row again"}
	}
	return authorErrors(g.row.Dir, g.task)
}

// kindOfReading tells a disk that gave an error from a record that is none: the
// one may work the next time.
func kindOfReading(err error) Kind {
	var failed *fs.PathError
	if errors.As(err, &failed) && !errors.Is(err, fs.ErrPermission) {
		return Infrastructure
	}
	return Refused
}

// taskOf is the task that the row is graded by.
func (g *grading) taskOf() (*tasks.Task, error) {
	if g.options.Given != nil {
		return g.options.Given.task, nil
	}
	config, err := g.record.TaskConfig()
	if err != nil {
		return nil, err
	}
	task, err := tasks.FromRecord(config.Resolved)
	if err == nil || config.SourceYAML == "" {
		return task, err
	}
	return g.taskOfSource(config, err)
}

// taskOfSource is the task of the recorded text of the task file, for a record
// whose resolved task is not valid any more (spec/regrade.md 1.9). It is as
// untrusted as the rest of the record. A row of a dataset has another task_id than
// its file, and nothing of its own in the text: it is refused, as whatever else is
// not of the row.
func (g *grading) taskOfSource(config record.TaskConfig, invalid error) (*tasks.Task, error) {
	task, err := tasks.FromSource([]byte(config.SourceYAML), filepath.Dir(config.SourceFile))
	if err == nil && task.TaskID != g.record.TaskID {
		err = fmt.Errorf("the recorded text of the task file is of the task %q, and the row of %q", task.TaskID, g.record.TaskID)
	}
	if err == nil && task.Dataset != nil {
		err = errors.New("the recorded text of the task file has a dataset, of which nothing says the row")
	}
	if err != nil {
		return nil, fmt.Errorf("%w; and the recorded text of its task file cannot take its place: %w", invalid, err)
	}
	g.warn("the recorded task is not valid any more, so that the row is graded by the recorded text of its task file: what --experiment, -D and other layers of the run had changed is not in it (" + firstLine(invalid) + ")")
	return task, nil
}

// firstLine is an error on one line.
func firstLine(err error) string {
	line, _, more := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	if more {
		line += " ..."
	}
	return line
}

// taskFile is the path of the task file that the row is graded by.
func (g *grading) taskFile() (string, error) {
	if g.options.Given != nil {
		return g.options.Given.path, nil
	}
	config, err := g.record.TaskConfig()
	return config.SourceFile, err
}

// authorErrors refuses criteria that no cell is needed to find wrong, all of
// them in one go.
func authorErrors(dir string, task *tasks.Task) error {
	var all *multierror.Error
	for _, wrong := range criteria.Validate(task.SuccessCriteria) {
		all = multierror.Append(all, wrong)
	}
	if all == nil {
		return nil
	}
	all.ErrorFormat = oneALine
	return &Error{Kind: TaskFault, Tried: "check the criteria of", On: dir, Why: all, Do: correctTask(dir)}
}

// correctTask is the way out where a criterion is wrong: nothing that the agent did
// depends on one.
func correctTask(dir string) string {
	return "correct the criterion in the task file and grade by that, without executing the row again: podgrade evaluate TASK " + dir
}

// mostErrorLine bounds one of many errors, in bytes. One may be a page of grants.
const mostErrorLine = 16 << 10

// oneALine lists errors, each on a line of its own.
func oneALine(errs []error) string {
	var b strings.Builder
	for _, err := range errs {
		if rows, ok := err.(*refusedRows); ok {
			b.WriteString("\n  - " + rows.lines())
			continue
		}
		b.WriteString("\n  - " + policy.Neutral(cutText(err.Error(), mostErrorLine)))
	}
	return b.String()
}
