package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"podgrade/oci"
	"podgrade/tasks"
)

// paths adds the paths of this host that the grade reads: the task directory
// and the reference, each as it resolves, since a link would hide where it
// leads (spec/regrade.md 2.6).
func (t *terms) paths(r Request) error {
	uses := t.runs || len(t.judges) > 0
	if uses || r.Task.Reference != nil {
		dir, err := taskDir(r)
		if err != nil {
			return err
		}
		if dir != "" && uses {
			t.taskDir = dir
			t.add(Path, dir, "the task directory: commands can read all of it, read-only")
		}
		if r.Task.Reference != nil {
			if err := t.referenceOf(r, dir); err != nil {
				return err
			}
		}
	}
	if r.Place == OnHost && t.runs {
		t.searchPathOf(r)
	}
	return nil
}

// taskDir is the directory of the recorded task file, resolved; "" when the
// file is not on this host, or out of the caller's reach as that of another
// user is, and nothing in the task says that it needs it.
func taskDir(r Request) (string, error) {
	if r.Imported.TaskDir != "" && !r.Given {
		return r.Imported.resolve("task directory", r.Imported.TaskDir)
	}
	missing := "no task file is recorded"
	if r.TaskFile != "" {
		dir, err := resolvedDir(filepath.Dir(r.TaskFile))
		if err == nil && !isRegular(filepath.Join(dir, filepath.Base(r.TaskFile))) {
			err = fs.ErrNotExist
		}
		if err == nil {
			return dir, nil
		}
		missing = "the recorded task file " + r.TaskFile + " is not on this host"
		if !errors.Is(err, fs.ErrNotExist) {
			missing = "the recorded task file " + r.TaskFile + " cannot be looked at: " + err.Error()
		}
	}
	if who := needsTaskDir(r.Task); who != "" {
		return "", &Refusal{
			What: missing + ", and " + who + " uses the task directory",
			Do:   "put the task file and what lies beside it at that path, or grade by it where it is (podgrade evaluate TASK ROW)",
		}
	}
	return "", nil
}

// needsTaskDir names the first thing of the task that speaks of the task
// directory; "" when nothing does.
func needsTaskDir(task *tasks.Task) string {
	speaks := func(s string) bool {
		return strings.Contains(s, oci.EnvTaskDir) || strings.Contains(s, oci.TaskDirPath)
	}
	for _, c := range task.SuccessCriteria {
		var texts []string
		switch c := c.(type) {
		case *tasks.RunCommand:
			texts = []string{c.Command}
		case *tasks.LLMJudge:
			texts = c.Files
		case *tasks.AgentJudge:
			texts = c.Files
		case *tasks.SystemOneJudge:
			texts = c.Files
		}
		for _, text := range texts {
			if speaks(text) {
				return "the criterion " + c.Common().Description
			}
		}
	}
	for _, hook := range task.PostRun {
		if speaks(hook.Command) {
			return "post_run"
		}
	}
	return ""
}

// resolve is where a directory lies that came with an imported row. The record
// could name any path: so it names an entry of the one directory where an import
// puts such things, and no link leads on from there.
func (i Imported) resolve(what, name string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", &Refusal{
			What: "the record says that its " + what + " was imported as " + name + ", and " + why,
			Do:   "import the row again (podgrade import), or grade it by its task file (podgrade evaluate TASK ROW)",
		}
	}
	if !filepath.IsLocal(name) || strings.ContainsRune(name, '/') || name == "." {
		return refuse("that is no name of an imported directory")
	}
	dir := filepath.Join(i.Dir, name)
	resolved, err := resolvedDir(dir)
	if err != nil {
		return refuse("it cannot be used: " + err.Error())
	}
	if resolved != dir {
		return refuse("it leads elsewhere, to " + resolved)
	}
	return dir, nil
}

func (t *terms) referenceOf(r Request, taskDir string) error {
	if r.Imported.Reference != "" && !r.Given {
		dir, err := r.Imported.resolve("reference", r.Imported.Reference)
		if err == nil {
			t.reference = dir
			t.add(Path, dir, "the reference: commands can read all of it, read-only")
		}
		return err
	}
	named := r.Task.Reference.Directory
	if !filepath.IsAbs(named) {
		if taskDir == "" {
			return &Refusal{What: "the reference " + named + " lies beside a task file that is not on this host", Do: "put both at the recorded path"}
		}
		named = filepath.Join(taskDir, named)
	}
	dir, err := resolvedDir(named)
	if err != nil {
		return &Refusal{What: "the reference " + named + " cannot be used: " + err.Error(), Do: "put it back, or grade where it is"}
	}
	t.reference = dir
	t.add(Path, dir, "the reference: commands can read all of it, read-only")
	return nil
}

// mostEntries bounds a recorded PATH.
const mostEntries = 256

// searchPathOf keeps the entries of the recorded PATH that may stand before
// the host's own: absolute, a directory, and nowhere in the run
// (spec/regrade.md 1.8). In a cell the supervisor does
// the same with the cell's own files.
func (t *terms) searchPathOf(r Request) {
	entries := strings.Split(r.SearchPath, ":")
	for _, entry := range entries[:min(len(entries), mostEntries)] {
		if !filepath.IsAbs(entry) {
			continue
		}
		dir, err := resolvedDir(entry)
		if err != nil || within(dir, r.RunDir) || onPath(dir, r.Lookup) || slices.Contains(t.searchPath, dir) {
			continue
		}
		t.searchPath = append(t.searchPath, dir)
	}
	if len(t.searchPath) > 0 {
		t.add(SearchPath, strings.Join(t.searchPath, ":"), "commands on this host look for programs there first")
	}
}

// onPath tells whether the host looks there anyway, so that naming it would
// only hide what is new.
func onPath(dir string, lookup func(string) (string, bool)) bool {
	own, _ := lookup("PATH")
	for _, entry := range strings.Split(own, ":") {
		if resolved, err := resolvedDir(entry); err == nil && resolved == dir {
			return true
		}
	}
	return false
}

// resolved is the path that a name leads to, so that a link hides nothing; the
// name itself where it leads to nothing.
func resolved(name string) string {
	if !filepath.IsAbs(name) {
		return name
	}
	if target, err := filepath.EvalSymlinks(name); err == nil {
		return target
	}
	return filepath.Clean(name)
}

func resolvedDir(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", errors.New("the path is not absolute")
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", errors.New("it is not a directory")
	}
	return resolved, nil
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// within tells whether path is dir or lies below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
