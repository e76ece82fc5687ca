package tasks

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Loader reads task and experiment files. The zero value is ready to use.
type Loader struct {
	// Env looks up a variable of the host; nil is os.LookupEnv.
	Env func(name string) (value string, ok bool)
	// Kinds are kinds of agents that are known besides the built-in ones.
	Kinds []string
	// Regex reports what is wrong with a Python regular expression. An error
	// that wraps ErrUntranslatable is an author error at load. nil: patterns
	// are not looked at.
	Regex func(pattern string, flags int) error
	// Expression reports what is wrong with a JMESPath expression, which is only
	// a warning: its assertion fails. nil: expressions are not looked at.
	Expression func(text string) error
	// Sub is Python's re.sub, for prompt mutations with regex: true.
	Sub func(pattern, replacement, text string) (string, error)
}

// File is one task file that loaded, or one row of its dataset.
type File struct {
	Path   string // as given
	Dir    string // absolute directory of the file: the task directory
	Source []byte // text of the file
	// Task is what the file says by itself, before any layer.
	Task     *Task
	Warnings []Problem

	root *node
}

// Load reads one task file with the zero Loader.
func Load(path string) (*File, error) { return (&Loader{}).Load(path) }

// Load reads and validates one task file (task-file 1). Paths are resolved, the
// prompt files read. A file that is not valid gives an *Invalid with all of its
// problems.
func (l *Loader) Load(path string) (*File, error) {
	const what = "task file"
	data, src, err := open(path, what, maxYAMLBytes, LayerTask)
	if err != nil {
		return nil, err
	}
	return l.parse(path, data, src)
}

// parse is Load for a text that was read.
func (l *Loader) parse(path string, data []byte, src *source) (*File, error) {
	const what = "task file"
	r := &report{}
	n := parseYAML(data, src, r)
	if n == nil {
		return nil, r.err(what, path)
	}
	if n.kind == nullNode {
		n.kind = mapNode // an empty file lacks every key
	}
	l.decoder(r, true).task(n)
	n = l.resolvePaths(n, r)
	if err := r.err(what, path); err != nil {
		return nil, err
	}
	// Once more, with the prompts in place: a file can turn out to be blank.
	again := &report{}
	t := l.decoder(again, true).task(n)
	if err := again.err(what, path); err != nil {
		return nil, err
	}
	f := &File{Path: path, Dir: src.dir, Source: data, Task: t, Warnings: tidy(r.warnings), root: n}
	t.warnings = f.Warnings
	return f, nil
}

// FileID returns the task_id that a task file says, whatever else is in it.
func FileID(path string) (string, error) {
	const what = "task file"
	data, src, err := open(path, what, maxYAMLBytes, LayerTask)
	if err != nil {
		return "", err
	}
	r := &report{}
	n := parseYAML(data, src, r)
	if err := r.err(what, path); err != nil {
		return "", err
	}
	id, ok := n.get("task_id").isString()
	if !ok {
		return "", fmt.Errorf("%s %s says no task_id", what, quoteFile(path))
	}
	return id, nil
}

func (l *Loader) decoder(r *report, loading bool) *decoder {
	return &decoder{report: r, loading: loading, kinds: l.Kinds, regex: l.Regex, expression: l.Expression}
}

// open reads a file that an operator named, in bounds.
func open(path, what string, limit int64, layer string) ([]byte, *source, error) {
	data, err := readRegular(path, limit)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil, fmt.Errorf("cannot load %s %s: no such file: %w", what, quoteFile(path), err)
	case errors.Is(err, syscall.EISDIR):
		return nil, nil, fmt.Errorf("cannot load %s %s: it is a directory; name its files, such as %s", what, quoteFile(path), quoteFile(filepath.Join(path, "*.yaml")))
	case err != nil:
		return nil, nil, fmt.Errorf("cannot load %s %s: %w", what, quoteFile(path), err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot load %s %s: %w", what, quoteFile(path), err)
	}
	return data, &source{file: path, dir: filepath.Dir(absolute), layer: layer}, nil
}

// readRegular returns the bytes of a regular file. It never waits for a fifo.
func readRegular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, plainError(err)
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, plainError(err)
	case info.IsDir():
		return nil, syscall.EISDIR
	case !info.Mode().IsRegular():
		return nil, errText("it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, plainError(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, nil
}

// plainError drops the operation and the path, which the caller says better.
func plainError(err error) error {
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// resolvePaths does what follows validation (task-file 1, item 4): templates,
// prompt file, system prompt file, Dockerfile.
func (l *Loader) resolvePaths(n *node, r *report) *node {
	if n.kind != mapNode {
		return n
	}
	if sources := n.at("sandbox", "template_sources"); sources != nil {
		n = n.with(l.templates(sources, "sandbox.template_sources", r), "sandbox", "template_sources")
	}
	n = promptFile(n, "", "initial_prompt", r)
	if agent := n.get("agent"); agent != nil && agent.kind == mapNode {
		n = n.with(promptFile(agent, "agent", "system_prompt", r), "agent")
	}
	return l.dockerfile(n, r)
}

// promptFile reads KEY_file into KEY, stripped, relative to the file that names
// it. What is wrong with the keys themselves the decoder has said.
func promptFile(n *node, path, key string, r *report) *node {
	at := n.get(key + "_file")
	name, ok := at.isString()
	if !ok || at.src.dir == "" {
		return n
	}
	if text := n.get(key); text != nil && text.kind != nullNode {
		return n
	}
	data, err := readRegular(absolute(at.src.dir, name), maxYAMLBytes)
	if err != nil {
		r.fail(at, join(path, key+"_file"), "cannot read %s: %s", quote(name), plainError(err))
		return n
	}
	if !utf8.Valid(data) {
		r.fail(at, join(path, key+"_file"), "cannot read %s: it is not UTF-8 text", quote(name))
		return n
	}
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
	return n.without(key+"_file").with(at.str(strings.TrimSpace(text)), key)
}

// dockerfile makes the path absolute; it must be a file whatever the driver is.
func (l *Loader) dockerfile(n *node, r *report) *node {
	const path = "sandbox.docker.dockerfile_path"
	at := n.at("sandbox", "docker", "dockerfile_path")
	name, ok := at.isString()
	if !ok || at.src.dir == "" {
		return n
	}
	name, _ = l.expand(name) // an unknown variable stays as it is (task-file 1.2)
	name = absolute(at.src.dir, name)
	switch info, err := os.Stat(name); {
	case err != nil:
		r.fail(at, path, "no Dockerfile there: %s: %s", quoteFile(name), plainError(err))
	case !info.Mode().IsRegular():
		r.fail(at, path, "no Dockerfile there: %s is not a file", quoteFile(name))
	}
	return n.with(at.str(name), "sandbox", "docker", "dockerfile_path")
}

// templates makes the paths of template_dir entries absolute.
func (l *Loader) templates(list *node, path string, r *report) *node {
	if list.kind != listNode {
		return list
	}
	c := *list
	c.items = slices.Clone(list.items)
	for i, entry := range c.items {
		at := entry.get("path")
		name, ok := at.isString()
		if !ok || entry.kind != mapNode || (&TemplateSource{}).kindOf(entry) != TemplateDir || at.src.dir == "" {
			continue
		}
		name, undefined := l.expand(name)
		if len(undefined) > 0 {
			r.fail(at, item(path, i)+".path", "uses variables that are not set: %s", strings.Join(undefined, ", "))
			continue
		}
		c.items[i] = entry.with(at.str(absolute(at.src.dir, name)), "path")
	}
	return &c
}

var variable = regexp.MustCompile(`\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})`)

// expand replaces $NAME and ${NAME} by variables of the host; those that are
// not set stay and are returned.
func (l *Loader) expand(text string) (expanded string, undefined []string) {
	lookup := l.Env
	if lookup == nil {
		lookup = os.LookupEnv
	}
	return ExpandVariables(text, lookup)
}

// ExpandVariables replaces $NAME and ${NAME} by what lookup says; names that it
// does not know stay in the text and are returned. Only the fields of task-file
// 1.2 are expanded: template and Dockerfile paths by Load, build arguments and
// plugin paths by whoever uses them.
func ExpandVariables(text string, lookup func(string) (string, bool)) (expanded string, undefined []string) {
	expanded = variable.ReplaceAllStringFunc(text, func(m string) string {
		name := strings.Trim(m, "${}")
		if value, ok := lookup(name); ok {
			return value
		}
		if !slices.Contains(undefined, name) {
			undefined = append(undefined, name)
		}
		return m
	})
	return expanded, undefined
}
