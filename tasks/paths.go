package tasks

import (
	"os"
	"path/filepath"
	"strings"
)

// CheckPaths looks at the host paths of a task that a run would fail on but
// that loading does not check (task-file 1.3, 11.5): template directories,
// starter files that leave the workspace, the reference, the solution. dir is
// the task directory.
func (t *Task) CheckPaths(dir string) []Problem {
	r := &report{}
	sources := t.root.at("sandbox", "template_sources")
	for i, source := range t.Sandbox.TemplateSources {
		at, path := sources, item("sandbox.template_sources", i)
		if sources != nil && i < len(sources.items) {
			at = sources.items[i]
		}
		switch source.Type {
		case TemplateDir:
			directory(r, at, path+".path", source.Path)
		case StarterFiles:
			for j, file := range source.Files {
				if !filepath.IsLocal(file.Path) {
					r.fail(at, item(path+".files", j)+".path", "leaves the workspace: %s", quote(file.Path))
				}
			}
		}
	}
	if t.Reference != nil {
		directory(r, t.root.at("reference", "directory"), "reference.directory", absolute(dir, t.Reference.Directory))
	}
	if p := t.Sandbox.Podman; p != nil && p.Solution != "" {
		at := t.root.at("sandbox", "podman", "solution")
		if info, err := os.Stat(absolute(dir, p.Solution)); err != nil {
			r.fail(at, "sandbox.podman.solution", "no script there: %s: %s", quote(p.Solution), plainError(err))
		} else if !info.Mode().IsRegular() {
			r.fail(at, "sandbox.podman.solution", "%s is not a file", quote(p.Solution))
		}
	}
	return r.problems
}

func directory(r *report, at *node, path, name string) {
	switch info, err := os.Stat(name); {
	case err != nil:
		r.fail(at, path, "no directory there: %s: %s", quoteFile(name), plainError(err))
	case !info.IsDir():
		r.fail(at, path, "%s is not a directory", quoteFile(name))
	}
}

// PluginDir returns the host directory of a plugin: variables and a leading ~
// are expanded, a relative path starts from the task directory. ok is false
// when there is no such directory; the plugin is then left out (task-file 1.2).
func (l *Loader) PluginDir(p Plugin, dir string) (name string, ok bool) {
	name, _ = l.expand(p.Path)
	if rest, home := strings.CutPrefix(name, "~"); home && (rest == "" || rest[0] == '/') {
		name, _ = l.expand("$HOME")
		name += rest
	}
	name = absolute(dir, name)
	info, err := os.Stat(name)
	return name, err == nil && info.IsDir()
}

// absolute makes a relative path start from a directory.
func absolute(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
