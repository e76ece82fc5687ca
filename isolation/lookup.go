package isolation

import (
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lookups are the images that Podman was asked for, by the name that they were
// asked for under. Asking takes 50 ms, more than a cell, and rows of one run
// ask for the same few images. An answer is good for as long as Podman's list
// of images is the file that it was: whatever makes, removes or names an image
// writes that list anew, and removes an image from it before its layers.
type lookups struct {
	mu     sync.Mutex
	known  map[string]known
	asking map[string]*sync.Mutex // held while Podman is asked for a name
}

// wait lets one at a time ask for a name: the rows that start together need one
// answer, and the others find it then.
func (l *lookups) wait(reference string) (done func()) {
	l.mu.Lock()
	if l.asking == nil {
		l.asking = map[string]*sync.Mutex{}
	}
	if l.asking[reference] == nil {
		l.asking[reference] = &sync.Mutex{}
	}
	turn := l.asking[reference]
	l.mu.Unlock()
	turn.Lock()
	return turn.Unlock
}

type known struct {
	image Image
	list  imageList
}

// imageList is a version of Podman's list of images.
type imageList struct {
	path    string
	dev     uint64
	ino     uint64
	size    int64
	changed unix.Timespec // its metadata; a rename does that, too
	written unix.Timespec
}

// readImageList finds the list that belongs to a layer:
// <store>/overlay/<id>/diff. Who does not own it (an additional store that
// root keeps) cannot tell from it what a name leads to: another store may come
// first.
func readImageList(path string) (imageList, bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || int(st.Uid) != unix.Getuid() {
		return imageList{}, false
	}
	return imageList{path: path, dev: st.Dev, ino: st.Ino, size: st.Size, changed: st.Ctim, written: st.Mtim}, true
}

func imageListOf(layer string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(layer))), overlayDriver+"-images", "images.json")
}

// clockGrain is more than file times lag behind the clock.
const clockGrain = 20 * time.Millisecond

// keep remembers what was looked up since began, unless the list was written
// meanwhile: then the answer may be older than the list.
func (l *lookups) keep(reference string, image Image, began time.Time) {
	if len(image.Layers) == 0 {
		return // another driver than overlay: its store looks otherwise
	}
	list, ok := readImageList(imageListOf(image.Layers[0]))
	if !ok || !time.Unix(list.changed.Unix()).Before(began.Add(-clockGrain)) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]known{}
	}
	l.known[reference] = known{image: image, list: list}
}

// find returns what is remembered and still true.
func (l *lookups) find(reference string) (Image, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.known[reference]
	if !ok {
		return Image{}, false
	}
	if now, ok := readImageList(k.list.path); !ok || now != k.list {
		delete(l.known, reference)
		return Image{}, false
	}
	return k.image.clone(), true
}

// clone is a copy that shares nothing which its holder could change.
func (i Image) clone() Image {
	i.References, i.Env = slices.Clone(i.References), slices.Clone(i.Env)
	i.Volumes, i.Layers = slices.Clone(i.Volumes), slices.Clone(i.Layers)
	i.Labels, i.Digests = maps.Clone(i.Labels), slices.Clone(i.Digests)
	return i
}
