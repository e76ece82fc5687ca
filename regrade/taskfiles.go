package regrade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"podgrade/tasks"
)

// tasksDir is where task files are looked for when none is named, and
// experimentsDir where an experiment is that is given by its name.
const (
	tasksDir       = "tasks"
	experimentsDir = "experiments"
)

// mostTaskFiles bounds what patterns can find.
const mostTaskFiles = 100_000

// FindTaskFiles returns the task files that the operator names by paths and
// patterns, each once, in the order of the arguments and sorted within a
// pattern; without arguments every *.yaml below tasks (cli 2.1). unmatched are
// the arguments that name nothing.
//
// A path that exists is taken as it is, even with the characters of a pattern
// in it. In a pattern, ** stands for any number of directories; links to
// directories are not followed there, and * and ? do not match a leading dot.
func FindTaskFiles(arguments []string) (files, unmatched []string, err error) {
	if len(arguments) == 0 {
		arguments = []string{filepath.Join(tasksDir, "**", "*.yaml")}
	}
	seen := map[string]bool{}
	for _, argument := range arguments {
		found := []string{argument}
		if _, err := os.Stat(argument); err != nil {
			if found, err = expandPattern(argument); err != nil {
				return nil, nil, err
			}
		}
		if len(found) == 0 {
			unmatched = append(unmatched, argument)
		}
		for _, file := range found {
			if !seen[file] {
				seen[file] = true
				files = append(files, file)
			}
		}
	}
	return files, unmatched, nil
}

func expandPattern(pattern string) ([]string, error) {
	if !strings.ContainsAny(pattern, "*?[") {
		return nil, nil
	}
	clean := filepath.Clean(pattern)
	base := ""
	if filepath.IsAbs(clean) {
		base, clean = "/", clean[1:]
	}
	x := &expansion{seen: map[string]bool{}}
	if err := x.expand(base, strings.Split(clean, "/")); err != nil {
		return nil, &Error{Kind: User, Tried: "find the task files of", On: pattern, Why: err, Do: "name the files, or a pattern such as tasks/**/*.yaml"}
	}
	slices.Sort(x.files)
	return x.files, nil
}

// expansion collects what a pattern matches.
type expansion struct {
	files   []string
	seen    map[string]bool
	visited int
}

// expand matches the parts below a directory; "" is the current one.
func (x *expansion) expand(dir string, parts []string) error {
	part, rest := parts[0], parts[1:]
	if part == "**" {
		return x.anyDepth(dir, rest)
	}
	if !strings.ContainsAny(part, "*?[") {
		return x.step(filepath.Join(dir, part), rest)
	}
	entries, err := x.list(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		ok, err := path.Match(part, name)
		if err != nil {
			return err
		}
		if !ok || name[0] == '.' && part[0] != '.' {
			continue
		}
		if err := x.step(filepath.Join(dir, name), rest); err != nil {
			return err
		}
	}
	return nil
}

// step goes on below a path, or takes it when it is the pattern's end.
func (x *expansion) step(name string, rest []string) error {
	if len(rest) > 0 {
		return x.expand(name, rest)
	}
	if info, err := os.Stat(name); err == nil && !info.IsDir() && !x.seen[name] {
		x.seen[name] = true
		x.files = append(x.files, name)
	}
	return nil
}

// anyDepth matches the parts after ** in the directory and in all below it.
func (x *expansion) anyDepth(dir string, rest []string) error {
	if len(rest) == 0 {
		rest = []string{"*"}
	}
	if err := x.expand(dir, rest); err != nil {
		return err
	}
	entries, err := x.list(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() && entry.Name()[0] != '.' {
			if err := x.anyDepth(filepath.Join(dir, entry.Name()), rest); err != nil {
				return err
			}
		}
	}
	return nil
}

// list reads a directory; one that is not there, or not readable, is empty.
func (x *expansion) list(dir string) ([]os.DirEntry, error) {
	if dir == "" {
		dir = "."
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil
	}
	if x.visited += len(entries); x.visited > 10*mostTaskFiles || len(x.files) > mostTaskFiles {
		return nil, fmt.Errorf("it leads through more than %d files", 10*mostTaskFiles)
	}
	return entries, nil
}

// LoadExperiment loads the experiment that -e names: a path, or the name of a
// file in experiments, with or without .yaml or .yml (cli 2.1). The empty name
// is the built-in default experiment.
func LoadExperiment(loader *tasks.Loader, name string) (*tasks.Experiment, error) {
	if name == "" {
		return tasks.DefaultExperiment(), nil
	}
	file, err := findExperiment(name)
	if err != nil {
		return nil, err
	}
	experiment, err := loader.LoadExperiment(file)
	if err != nil {
		return nil, &Error{Kind: TaskFault, Tried: "use the experiment", On: name, Why: err}
	}
	return experiment, nil
}

func findExperiment(name string) (string, error) {
	for _, candidate := range []string{
		name,
		filepath.Join(experimentsDir, name+".yaml"),
		filepath.Join(experimentsDir, name+".yml"),
		filepath.Join(experimentsDir, name),
	} {
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() {
			return candidate, nil
		}
	}
	return "", &Error{Kind: User, Tried: "find the experiment", On: name, Why: fs.ErrNotExist, Do: knownExperiments()}
}

func knownExperiments() string {
	entries, err := os.ReadDir(experimentsDir)
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		if stem, ext := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name); slices.Contains(taskFileEndings, ext) {
			names = append(names, stem)
		}
	}
	if len(names) == 0 || errors.Is(err, fs.ErrNotExist) {
		return "give the path of an experiment file; there is none in " + experimentsDir
	}
	return "give a path, or one of the names in " + experimentsDir + ": " + strings.Join(names, ", ")
}
