package worker

import (
	"path"
	"slices"
	"strings"
)

// What Python runs or loads without being asked to, and where it looks for a
// module first: whoever writes there needs to replace no file of the image.

// venvConfig beside a program python3, or one directory above, tells it where its
// library is.
const venvConfig = "pyvenv.cfg"

// caches is the directory of what Python has compiled, beside the modules.
const caches = "__pycache__"

// siteDirs are the names of directories of installed modules. userSite begins the
// path of one in a home, where Python looks before those of the system.
var siteDirs = []string{"site-packages", "dist-packages"}

const userSite = ".local/lib/"

// pythonModules knows where the Python of an image looks for modules, and which
// it has.
type pythonModules struct {
	root   int             // of the image
	libs   []string        // directories in which libraries of Python are, or could be made
	places map[string]bool // directories of modules, below the root
	listed map[string]map[string]bool
}

// modulesInRoot looks into the libraries of Python below directories such as
// usr/lib.
func modulesInRoot(root int, libs []string) *pythonModules {
	m := &pythonModules{root: root, libs: libs, places: map[string]bool{}, listed: map[string]map[string]bool{}}
	for _, lib := range libs {
		for _, name := range namesInRoot(root, lib) {
			if !isPythonDir(name) {
				continue
			}
			m.places[path.Join(lib, name)] = true
			for _, site := range siteDirs {
				m.places[path.Join(lib, name, site)] = true
			}
		}
	}
	return m
}

// isPythonDir tells whether a name is that of a library of Python.
func isPythonDir(name string) bool { return strings.HasPrefix(name, "python") }

// moduleOf is the module that a file, or a package's directory, is found as.
func moduleOf(name string) string {
	for _, suffix := range []string{".py", ".pyc", ".so"} {
		if strings.HasSuffix(name, suffix) {
			module, _, _ := strings.Cut(name, ".")
			return module
		}
	}
	return name
}

// has tells whether a directory of the image holds a module.
func (m *pythonModules) has(dir, module string) bool {
	modules := m.listed[dir]
	if modules == nil {
		modules = map[string]bool{}
		for _, name := range namesInRoot(m.root, dir) {
			modules[moduleOf(name)] = true
		}
		m.listed[dir] = modules
	}
	return modules[module]
}

// bends tells whether a changed path makes Python load something else than the
// image has: a module that Python runs at its start, one that stands in front of a
// module of the image, lines of a .pth file, an archive that comes before the
// library itself, or the cache of a module.
func (m *pythonModules) bends(name string) bool {
	dir, base := path.Dir(name), path.Base(name)
	if len(m.places) == 0 {
		return false // there is none that could be bent
	}
	if isPythonDir(base) && strings.HasSuffix(base, ".zip") {
		return m.libraryIn(dir)
	}
	if path.Base(dir) == caches && strings.HasSuffix(base, ".pyc") {
		return m.isCache(name)
	}
	place := m.placeOf(name)
	if place == "" {
		return false
	}
	if path.Dir(name) == place && strings.HasSuffix(base, ".pth") {
		return true
	}
	return m.hides(place, strings.TrimPrefix(name, place+"/")) || existsInRoot(m.root, name)
}

// hides tells whether a path below a directory of modules stands in front of what
// the image has: at the first name that is new, for a module of that name. Below
// a package of the image only that package's own modules count.
func (m *pythonModules) hides(place, rest string) bool {
	at := place
	for {
		first, more, deeper := strings.Cut(rest, "/")
		module := moduleOf(first)
		if at == place && slices.Contains(startModules, module) {
			return true
		}
		if deeper && existsInRoot(m.root, path.Join(at, first)) {
			at, rest = path.Join(at, first), more
			continue
		}
		if at != place {
			return m.has(at, module)
		}
		for known := range m.places {
			if m.has(known, module) {
				return true
			}
		}
		return false
	}
}

// libraryIn tells whether the image has a library of Python in a directory.
func (m *pythonModules) libraryIn(dir string) bool {
	for place := range m.places {
		if path.Dir(place) == dir {
			return true
		}
	}
	return false
}

// placeOf is the directory of modules that a path lies in, the deepest one; "" when
// it lies in none.
func (m *pythonModules) placeOf(name string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if m.places[dir] || m.isSite(dir) {
			return dir
		}
	}
	return ""
}

// isSite tells whether Python would look for modules in a directory, were it new:
// LIB/python3.11/site-packages, of the system or in a home.
func (m *pythonModules) isSite(dir string) bool {
	library := path.Dir(dir)
	if !slices.Contains(siteDirs, path.Base(dir)) || !isPythonDir(path.Base(library)) {
		return false
	}
	return slices.Contains(m.libs, path.Dir(library)) || strings.Contains("/"+dir, "/"+userSite)
}

// isCache tells whether a path is a cache of a module of the image, or a directory
// of such caches.
func (m *pythonModules) isCache(name string) bool {
	dir, base := path.Dir(name), path.Base(name)
	if base == caches {
		return m.placeOf(name) != "" && existsInRoot(m.root, dir)
	}
	return path.Base(dir) == caches && strings.HasSuffix(base, ".pyc") &&
		m.placeOf(name) != "" && m.has(path.Dir(dir), moduleOf(base))
}

// pythonHomes are the directories of libraries beside directories of programs:
// /opt/venv/bin has /opt/venv/lib.
func (t *toolbox) pythonHomes() []string {
	var homes []string
	for _, dir := range t.programs {
		if lib, ok := placeInRoot(t.lower, path.Join(path.Dir(dir), "lib")); ok && !slices.Contains(t.libs, lib) && !slices.Contains(homes, lib) {
			homes = append(homes, lib)
		}
	}
	return homes
}

// belongsToPrograms tells whether a directory is one of programs, or holds one.
func (t *toolbox) belongsToPrograms(dir string) bool {
	return slices.ContainsFunc(t.programs, func(place string) bool { return place == dir || path.Dir(place) == dir })
}
