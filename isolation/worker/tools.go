package worker

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mostReplaced caps the paths of a toolbox, longestReplaced each of them in
// bytes: the description of a layer is small.
const (
	mostReplaced    = 50
	longestReplaced = 200
)

// usualPath are directories where programs are looked for whatever the image's
// PATH says: by shells that were given none.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// libraryDirs hold what programs are made of: the loader, libraries, and the
// modules of interpreters.
var libraryDirs = []string{"lib", "lib32", "lib64", "libx32", "usr/lib", "usr/lib32", "usr/lib64", "usr/libx32", "usr/libexec", "usr/local/lib"}

// startFiles are read by every program, or by the start of one: whoever writes
// them needs to replace no program.
var startFiles = []string{
	"etc/ld.so.preload", "etc/ld.so.cache", "etc/ld.so.conf", "etc/ld.so.conf.d", "etc/passwd", "etc/nsswitch.conf",
	"etc/ld-musl-x86_64.path", "etc/ld-musl-aarch64.path",
}

// startModules are run by an interpreter wherever it finds them among its own;
// those of Python as a file, a package or a library.
var startModules = []string{"sitecustomize", "usercustomize", "sitecustomize.pl"}

// toolbox is what a criterion's command stands on: programs of the image, and
// what they are started by. It collects those that a state layer replaces,
// deletes or stands in front of (design: State layers).
type toolbox struct {
	lower    int             // root of the image
	programs []string        // directories of PATH below the root, every link resolved
	names    map[string]bool // of the programs in them
	libs     []string        // libraryDirs that there are, every link resolved
	python   *pythonModules  // of the image

	// stands are what programs, libraries and directories of the image are reached
	// through, links above all, with every directory above them.
	stands    map[string]bool
	libraries map[string]bool // names of those that the loader finds
	steps     int             // that are left to follow links; with none, any path may be one

	found []string // absolute paths
	more  int
}

// openToolbox looks at an image whose root is lower. A directory that cannot
// be looked into holds no program that a criterion could start.
func openToolbox(lower int, searchPath string) *toolbox {
	t := &toolbox{lower: lower, names: map[string]bool{}, stands: map[string]bool{}, libraries: map[string]bool{}, steps: mostSteps}
	for _, file := range startFiles {
		t.standsOn(file)
	}
	for _, dir := range strings.Split(searchPath+":"+usualPath, ":") {
		if !path.IsAbs(dir) {
			continue
		}
		place := expectedInRoot(lower, path.Clean(dir))
		t.standsOn(path.Clean(dir))
		if slices.Contains(t.programs, place) {
			continue
		}
		t.programs = append(t.programs, place)
		links, all := linksInRoot(lower, place)
		for _, name := range all {
			t.names[name] = true
		}
		for _, name := range links {
			t.standsOn(path.Join(place, name))
		}
	}
	for _, dir := range libraryDirs {
		place, ok := placeInRoot(lower, dir)
		if !ok {
			continue
		}
		t.standsOn(dir)
		if !slices.Contains(t.libs, place) {
			t.libs = append(t.libs, place)
		}
	}
	for _, lib := range t.libs {
		t.libraryNames(lib)
		for _, name := range namesInRoot(lower, lib) {
			if isTriplet(name) {
				t.libraryNames(path.Join(lib, name))
			}
		}
	}
	t.python = modulesInRoot(lower, slices.Concat(libraryDirs, t.libs, t.pythonHomes()))
	for place := range t.python.places {
		links, _ := linksInRoot(lower, place)
		for _, name := range links {
			t.standsOn(path.Join(place, name))
		}
	}
	return t
}

// notice takes a changed path, as tree.WriteLayer tells it.
func (t *toolbox) notice(name string) {
	if !t.concerns(name) {
		return
	}
	if len(t.found) == mostReplaced {
		t.more++
		return
	}
	t.found = append(t.found, "/"+strings.ToValidUTF8(name[:min(len(name), longestReplaced)], "?"))
}

func (t *toolbox) concerns(name string) bool {
	if t.stands[name] || t.steps == 0 { // it, or all that it lies in
		return true
	}
	dir, base := path.Split(name)
	if base == venvConfig && t.belongsToPrograms(path.Dir(name)) {
		return true
	}
	if slices.Contains(t.programs, strings.TrimSuffix(dir, "/")) {
		return t.names[base]
	}
	if strings.HasPrefix(name, "etc/ld.so.conf.d/") {
		return true
	}
	if t.python.bends(name) {
		return true
	}
	for _, lib := range t.libs {
		if strings.HasPrefix(name, lib+"/") {
			return slices.Contains(startModules, base) || existsInRoot(t.lower, name) || t.inFront(strings.TrimPrefix(name, lib+"/"))
		}
	}
	return false
}

// placeInRoot is where a directory of the image lies below its root, every
// link resolved.
func placeInRoot(root int, dir string) (string, bool) {
	fd, err := openInRoot(root, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	top, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", root))
	if err != nil {
		return "", false
	}
	place, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "", false
	}
	place, below := strings.CutPrefix(place, strings.TrimSuffix(top, "/")+"/")
	return place, below
}

// expectedInRoot is where a directory lies, or would lie if it was made: what is
// put there stands in front of the image's programs too.
func expectedInRoot(root int, dir string) string {
	if dir == "/" {
		return ""
	}
	if place, ok := placeInRoot(root, dir); ok {
		return place
	}
	return path.Join(expectedInRoot(root, path.Dir(dir)), path.Base(dir))
}

func namesInRoot(root int, dir string) []string {
	_, all := linksInRoot(root, dir)
	return all
}
