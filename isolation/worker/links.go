package worker

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// mostLinks is how many links the kernel follows in one path (path_resolution(7)).
const mostLinks = 40

// mostSteps bounds how many names of an image are looked at for links, whatever links
// the image brings: some twenty times as many as a whole Debian has.
const mostSteps = 1 << 20

// trail is all that a path of an image leads through, each link resolved: the links on
// its way, by where they lie, and the place at its end, whatever is there. Whoever
// changes one of them gives the path another meaning, and touches nothing else of it.
// Each name that is looked at is taken from left; with none left it ends early.
func trail(root int, name string, left *int) []string {
	var places []string
	at, rest := "", strings.Split(name, "/")
	for len(rest) > 0 {
		next := rest[0]
		rest = rest[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			at = strings.TrimPrefix(path.Dir("/"+at), "/")
			continue
		}
		if *left--; *left < 0 {
			*left = 0
			return places
		}
		at = path.Join(at, next)
		target, isLink := linkInRoot(root, at)
		if !isLink {
			continue
		}
		if places = append(places, at); len(places) > mostLinks {
			return places
		}
		at = strings.TrimPrefix(path.Dir("/"+at), "/")
		if path.IsAbs(target) {
			at = ""
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return append(places, at)
}

// linkInRoot is where the link at a place leads; no link on the way there is followed
// out of the root.
func linkInRoot(root int, place string) (string, bool) {
	fd, err := openInRoot(root, place, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", target)
	if err != nil || n == len(target) {
		return "", false
	}
	return string(target[:n]), true
}

// linksInRoot are the names of the links in a directory, and of all that is in it.
func linksInRoot(root int, dir string) (links, all []string) {
	fd, err := openInRoot(root, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil
	}
	// By this name it is asked what an entry is, where the file system does not say.
	open := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	defer open.Close()
	entries, _ := open.ReadDir(-1)
	for _, e := range entries {
		all = append(all, e.Name())
		if e.Type() == os.ModeSymlink {
			links = append(links, e.Name())
		}
	}
	return links, all
}

// standsOn notes all that a path of the image leads through, and what that lies in.
func (t *toolbox) standsOn(name string) {
	for _, place := range trail(t.lower, name, &t.steps) {
		for ; place != "" && place != "."; place = path.Dir(place) {
			t.stands[place] = true
		}
	}
}
