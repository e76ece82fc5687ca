package isolation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// keptLookups keep images that were looked up by id from one podgrade to the next: to
// ask Podman is a third of what a short podgrade takes. An id is the digest of the
// image's configuration, so it leads to one image in whatever store; a name does not,
// and is asked for each time. Each answer is a file of its own in the user's cache,
// and counts only while the image's entry in Podman's list has the same bytes.
//
// The zero value keeps none.
type keptLookups struct {
	dir      string // "": there is none
	settings string // those that lead Podman to its store
}

// keptLookup is one of them.
type keptLookup struct {
	Image Image
	List  string // path of Podman's list
	Entry string // digest of what the list says of the image
}

// Limits of what is kept.
const (
	maxKeptLookup  = 1 << 20 // bytes
	keptLookupsAge = 7 * 24 * time.Hour
)

// newKeptLookups keeps them in the user's cache; where there is none, nowhere.
func newKeptLookups(podman string) keptLookups {
	cache, err := os.UserCacheDir()
	if err != nil {
		return keptLookups{}
	}
	return keptLookups{dir: filepath.Join(cache, "podgrade", "images"), settings: storeSettings(podman)}
}

// file is where the answer for an id lies.
func (l keptLookups) file(id string) string {
	sum := sha256.Sum256([]byte(l.settings + id))
	return filepath.Join(l.dir, hex.EncodeToString(sum[:16])+".json")
}

// read returns what is kept of the image with an id, with the list that proves it.
func (l keptLookups) read(id string) (Image, imageList, bool) {
	if l.dir == "" || !imageID.MatchString(id) {
		return Image{}, imageList{}, false
	}
	text, ok := readOwn(l.file(id), keptLookupsAge, maxKeptLookup)
	var k keptLookup
	if !ok || json.Unmarshal(text, &k) != nil {
		return Image{}, imageList{}, false
	}
	list, ok := readImageList(k.List)
	if !ok {
		return Image{}, imageList{}, false
	}
	entry, ok := list.entry(id)
	if !ok || entry.sum != k.Entry || !entry.proves(k.Image, list) {
		return Image{}, imageList{}, false
	}
	k.Image.Pin.Reference = id
	return k.Image, list, true
}

// write keeps an answer. That it cannot costs time only.
func (l keptLookups) write(i Image, list imageList) {
	entry, ok := list.entry(i.Pin.ID)
	if l.dir == "" || !ok || !entry.proves(i, list) {
		return
	}
	text, err := json.Marshal(keptLookup{Image: i, List: list.path, Entry: entry.sum})
	if err != nil || len(text) > maxKeptLookup || os.MkdirAll(l.dir, 0o700) != nil {
		return
	}
	removeOlder(l.dir, keptLookupsAge)
	replace(l.file(i.Pin.ID), text)
}

// storeSettings is what decides which store Podman looks into, and what podgrade makes
// of its answer.
func storeSettings(podman string) string {
	var b strings.Builder
	for _, v := range hostEnv() {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "PATH", "LANG", "LC_ALL", tempVariable:
		default:
			fmt.Fprintln(&b, v)
		}
	}
	self, _ := os.Executable()
	files := []string{self, podman, os.Getenv("CONTAINERS_STORAGE_CONF"), os.Getenv("CONTAINERS_CONF")}
	dirs := []string{"/usr/share/containers", "/etc/containers"}
	if config, err := os.UserConfigDir(); err == nil {
		dirs = append(dirs, filepath.Join(config, "containers"))
	}
	for _, dir := range dirs {
		for _, name := range []string{"storage.conf", "containers.conf"} {
			files = append(files, filepath.Join(dir, name))
			more, _ := filepath.Glob(filepath.Join(dir, name+".d", "*")) // a fixed pattern
			files = append(files, more...)
		}
	}
	for _, file := range files {
		fmt.Fprintln(&b, file, versionOf(file))
	}
	return b.String()
}

// versionOf tells one version of a file from another, "" when there is none.
func versionOf(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim)
}
