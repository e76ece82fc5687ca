package worker

import (
	"path"
	"slices"
	"strings"
)

// hwcaps are directories that the loader looks into before the one that they lie in
// (ld.so(8)): those of now, and what older loaders had in their place.
var hwcaps = []string{"glibc-hwcaps", "tls", "haswell", "xeon_phi", "avx512_1", "x86_64", "aarch64", "atomics"}

// nameServices begins the names of libraries that every look-up of a user or a host
// may load, by /etc/nsswitch.conf.
const nameServices = "libnss_"

// libraryNames takes the names of an image's libraries, and notes what their links
// lead through.
func (t *toolbox) libraryNames(dir string) {
	links, all := linksInRoot(t.lower, dir)
	for _, name := range all {
		if isLibrary(name) {
			t.libraries[name] = true
		}
	}
	for _, name := range links {
		if isLibrary(name) {
			t.standsOn(path.Join(dir, name))
		}
	}
}

func isLibrary(name string) bool { return strings.Contains(name, ".so") }

// isTriplet tells whether a directory is that of an architecture, as x86_64-linux-gnu.
func isTriplet(name string) bool { return strings.Contains(name, "-linux-") }

// inFront tells whether a path below a directory of libraries stands in front of what
// the loader finds there, though nothing of the image was at its place.
func (t *toolbox) inFront(rest string) bool {
	parts := strings.Split(rest, "/")
	if isTriplet(parts[0]) {
		parts = parts[1:]
	}
	if slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(hwcaps, part) }) {
		return len(parts) == 1 || isLibrary(parts[len(parts)-1])
	}
	return len(parts) == 1 && (t.libraries[parts[0]] || strings.HasPrefix(parts[0], nameServices))
}
