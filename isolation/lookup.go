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
// writes that list anew, and removes an image from it before its layers. Where the
// list is another file meanwhile, what it says of the one image can tell it too.
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
	entry string // of the image in that list; "": only the list itself tells whether the answer is still true
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
	entry, _ := list.entryOf(image.Pin.ID, reference)
	k := known{image: image, list: list, entry: entry}
	l.remember(reference, k)
	l.kept.write(reference, k)
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
	if !k.renew(reference) {
		delete(l.known, reference)
		return Image{}, false
	}
	l.known[reference] = k
	return k.image.clone(), true
}

// findKept returns what another podgrade remembered and what is still true.
func (l *lookups) findKept(reference string) (Image, bool) {
	k, ok := l.kept.read(reference)
	if !ok || !k.renew(reference) {
		return Image{}, false
	}
	l.remember(reference, k)
	return k.image.clone(), true
}

// renew tells whether an answer is still true: the list is the file that it was, or
// says the same of the image.
func (k *known) renew(reference string) bool {
	now, ok := readImageList(k.list.path)
	if !ok || now == k.list {
		return ok
	}
	entry, ok := now.entryOf(k.image.Pin.ID, reference)
	if !ok || entry != k.entry {
		return false
	}
	k.list = now
	return true
}

// clone is a copy that shares nothing which its holder could change.
func (i Image) clone() Image {
	i.References, i.Env = slices.Clone(i.References), slices.Clone(i.Env)
	i.Volumes, i.Layers = slices.Clone(i.Volumes), slices.Clone(i.Layers)
	i.Labels, i.Digests = maps.Clone(i.Labels), slices.Clone(i.Digests)
	return i
}
