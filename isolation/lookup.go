package isolation

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// lookups are the images that Podman was asked for, by the name that they were
// asked for under. Asking takes 50 ms, more than a cell, and rows of one run
// ask for the same few images. An answer is good for as long as Podman's list
// of images is the file that it was: whatever makes, removes or names an image
// writes that list anew, and removes an image from it before its layers. Of an id the
// image's own entry in it tells as much, whatever became of others.
type lookups struct {
	mu     sync.Mutex
	known  map[string]known
	kept   keptLookups            // by podgrades before
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

// clockGrain is more than file times lag behind the clock.
const clockGrain = 20 * time.Millisecond

// before tells whether the list was written last before a time: what was asked for
// then is no older than the list.
func (l imageList) before(t time.Time) bool {
	return time.Unix(l.changed.Unix()).Before(t.Add(-clockGrain))
}

// keep remembers what was looked up since began, unless the list was written
// meanwhile: then the answer may be older than the list.
func (l *lookups) keep(reference string, image Image, began time.Time) {
	if len(image.Layers) == 0 {
		return // another driver than overlay: its store looks otherwise
	}
	list, ok := readImageList(imageListOf(image.Layers[0]))
	if !ok || !list.before(began) {
		return
	}
	l.remember(reference, known{image: image, list: list})
	if reference == image.Pin.ID {
		l.kept.write(image, list)
	}
}

func (l *lookups) remember(reference string, k known) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]known{}
	}
	l.known[reference] = k
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

// findKept returns the image with an id that was remembered, here or by another
// podgrade, and of which the list says what it said then.
func (l *lookups) findKept(id string) (Image, bool) {
	began := time.Now()
	image, list, ok := l.kept.read(id)
	if !ok {
		return Image{}, false
	}
	if list.before(began) {
		l.remember(id, known{image: image, list: list})
	}
	return image.clone(), true
}

// clone is a copy that shares nothing which its holder could change.
func (i Image) clone() Image {
	i.References, i.Env = slices.Clone(i.References), slices.Clone(i.Env)
	i.Volumes, i.Layers = slices.Clone(i.Volumes), slices.Clone(i.Layers)
	i.Labels, i.Digests = maps.Clone(i.Labels), slices.Clone(i.Digests)
	return i
}
