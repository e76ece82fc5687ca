package testimages

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Toolbox is Workbench with what installs packages: python3 with its whole
// library and the wheel of pip, node and npm, all of this machine.
func Toolbox() Image {
	i := Debian().WithConfig("localhost/podgrade-test/toolbox:1", Debian().Config)
	i.write = writeToolbox
	return i
}

// wheels is where Debian's ensurepip finds pip.
const wheels = "/usr/share/python-wheels"

func writeToolbox(a *archive) error {
	if err := writeDebian(a); err != nil {
		return err
	}
	has, err := namesOfDebian()
	if err != nil {
		return err
	}
	p := &toolPutter{archive: a, has: has}
	files, err := workbenchFiles()
	if err != nil {
		return err
	}
	library, err := exec.Command("/usr/bin/python3", "-c", "import sysconfig, ensurepip, venv; print(sysconfig.get_path('stdlib'))").Output()
	if err != nil {
		return fmt.Errorf("finding python3's module venv: %w; run .ci/prepare", err)
	}
	for _, dir := range []string{strings.TrimSpace(string(library)), wheels} {
		if err := p.tree(dir); err != nil {
			return err
		}
	}
	node, err := p.node()
	if err != nil {
		return err
	}
	return p.files(append(files, node...))
}

// toolPutter puts files of this machine at the place that they have here.
type toolPutter struct {
	archive *archive
	has     map[string]bool // names that are there already
}

func (p *toolPutter) files(paths []string) error {
	for _, path := range paths {
		name := strings.TrimPrefix(path, "/")
		if p.has[name] {
			continue
		}
		p.has[name] = true
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := p.archive.file(name, 0o755, content); err != nil {
			return err
		}
	}
	return nil
}

// notNeeded are directories that no program of a test looks into.
var notNeeded = []string{"__pycache__", "test", "tests", "idlelib", "lib2to3", "pydoc_data", "docs", "man", "dist-packages"}

// tree puts the files of a directory.
func (p *toolPutter) tree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			for _, name := range notNeeded {
				if entry.Name() == name {
					return fs.SkipDir
				}
			}
			return nil
		case entry.Type()&fs.ModeSymlink != 0:
			return p.link(path)
		}
		return p.files([]string{path})
	})
}

func (p *toolPutter) link(path string) error {
	target, err := os.Readlink(path)
	name := strings.TrimPrefix(path, "/")
	if err != nil || p.has[name] {
		return err
	}
	p.has[name] = true
	return p.archive.link(name, target)
}

// node puts npm, and returns the files of node.
func (p *toolPutter) node() ([]string, error) {
	const hint = "run .ci/prepare"
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("finding node: %w; %s", err, hint)
	}
	libraries, err := librariesOf(node)
	if err != nil {
		return nil, err
	}
	npm, err := exec.LookPath("npm")
	if err == nil {
		npm, err = filepath.EvalSymlinks(npm)
	}
	if err != nil {
		return nil, fmt.Errorf("finding npm: %w; %s", err, hint)
	}
	// MODULES/npm/bin/npm-cli.js. Debian keeps the modules that npm needs beside
	// it, other builds inside of it.
	module := filepath.Dir(filepath.Dir(npm))
	if modules := filepath.Dir(module); filepath.Base(modules) == "nodejs" {
		module = modules
	}
	if err := p.tree(module); err != nil {
		return nil, err
	}
	if err := p.archive.link("usr/local/bin/npm", npm); err != nil {
		return nil, err
	}
	return append(libraries, node), nil
}
