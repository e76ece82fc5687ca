package testimages

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Workbench is Debian with this machine's git and the sqlite3 module of its
// python3: programs that agents use and that are hard on a file system. The
// machine and the tree are of the same Debian, as .ci/prepare makes it.
func Workbench() Image {
	i := Debian().WithConfig("localhost/podgrade-test/workbench:1", Debian().Config)
	i.write = writeWorkbench
	return i
}

// WorkbenchAs is Workbench with a USER: a name, a uid or uid:gid.
func WorkbenchAs(user string) Image {
	i := Workbench()
	i.Reference = "localhost/podgrade-test/workbench-as:" + strings.NewReplacer(":", "-").Replace(user)
	i.Config.User = user
	return i
}

func writeWorkbench(a *archive) error {
	if err := writeDebian(a); err != nil {
		return err
	}
	has, err := namesOfDebian()
	if err != nil {
		return err
	}
	files, err := workbenchFiles()
	if err != nil {
		return err
	}
	for _, file := range files {
		name := strings.TrimPrefix(file, "/")
		if has[name] {
			continue
		}
		has[name] = true
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := a.file(name, 0o755, content); err != nil {
			return err
		}
	}
	return nil
}

// workbenchFiles are the files of this machine that Workbench adds: the
// programs, and the libraries that they are linked with.
func workbenchFiles() ([]string, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("finding git: %w; run .ci/prepare", err)
	}
	const modules = "import sqlite3, _sqlite3; print(sqlite3.__path__[0]); print(_sqlite3.__file__)"
	out, err := exec.Command("/usr/bin/python3", "-c", modules).Output()
	if err != nil {
		return nil, fmt.Errorf("finding python3's module sqlite3: %w; run .ci/prepare", err)
	}
	found := strings.Fields(string(out))
	if len(found) != 2 {
		return nil, fmt.Errorf("finding python3's module sqlite3: python3 said %q", out)
	}
	sources, err := filepath.Glob(found[0] + "/*.py")
	if err != nil {
		return nil, err
	}
	files := append(sources, git, found[1])
	for _, linked := range []string{git, found[1]} {
		libraries, err := librariesOf(linked)
		if err != nil {
			return nil, err
		}
		files = append(files, libraries...)
	}
	return files, nil
}

// librariesOf asks the loader, which prints "NAME => PATH (ADDRESS)".
func librariesOf(file string) ([]string, error) {
	out, err := exec.Command("ldd", file).Output()
	if err != nil {
		return nil, fmt.Errorf("finding the libraries of %s: %w", file, err)
	}
	var libraries []string
	for line := range strings.Lines(string(out)) {
		if _, found, ok := strings.Cut(line, " => "); ok {
			libraries = append(libraries, strings.Fields(found)[0])
		}
	}
	return libraries, nil
}

func namesOfDebian() (map[string]bool, error) {
	tree, err := DebianPath()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(tree)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names := map[string]bool{}
	nothing := newArchive(io.Discard)
	return names, nothing.copyFrom(f, func(h *tar.Header) bool {
		names[strings.TrimPrefix(path.Clean("/"+h.Name), "/")] = true
		return false
	})
}
