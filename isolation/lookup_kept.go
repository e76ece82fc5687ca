package isolation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// keptLookups keep images that were looked up from one podgrade to the next: to ask
// Podman is a third of what a short podgrade takes. Only answers are kept that the
// image's own entry in Podman's list proves (see entryOf), and each is compared with
// that entry before it is used. The store is the one that the settings lead to
// which the file is named by.
//
// The zero value keeps none.
type keptLookups struct{ file string }

// keptLookup is one of them.
type keptLookup struct {
	Image Image
	List  string // path of Podman's list
	Entry string // see entryOf
	Asked time.Time
}

// Limits of what is kept.
const (
	maxKeptLookups     = 64
	maxKeptLookupsFile = 1 << 20 // bytes
	keptLookupsAge     = 7 * 24 * time.Hour
)

// newKeptLookups keeps them in the user's cache; where there is none, nowhere.
func newKeptLookups(podman string) keptLookups {
	cache, err := os.UserCacheDir()
	if err != nil {
		return keptLookups{}
	}
	sum := sha256.Sum256([]byte(storeSettings(podman)))
	return keptLookups{file: filepath.Join(cache, "podgrade", "images", hex.EncodeToString(sum[:16])+".json")}
}

// storeSettings is all that decides which store Podman looks into, and the shape of
// what is kept.
func storeSettings(podman string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", keptLookup{}) // the names of all fields
	for _, v := range hostEnv() {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "PATH", "LANG", "LC_ALL", tempVariable:
		default:
			fmt.Fprintln(&b, v)
		}
	}
	files := []string{podman, os.Getenv("CONTAINERS_STORAGE_CONF"), os.Getenv("CONTAINERS_CONF")}
	dirs := []string{"/usr/share/containers", "/etc/containers"}
	if config, err := os.UserConfigDir(); err == nil {
		dirs = append(dirs, filepath.Join(config, "containers"))
	}
	for _, dir := range dirs {
		for _, name := range []string{"storage.conf", "storage.conf.d", "containers.conf", "containers.conf.d"} {
			files = append(files, filepath.Join(dir, name))
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

// read returns what is kept of a reference.
func (l keptLookups) read(reference string) (known, bool) {
	k, ok := l.all()[reference]
	if !ok || k.Entry == "" || len(k.Image.Layers) == 0 || k.Image.Pin.Reference != reference {
		return known{}, false
	}
	for _, layer := range k.Image.Layers {
		if imageListOf(layer) != k.List {
			return known{}, false
		}
	}
	return known{image: k.Image, list: imageList{path: k.List}, entry: k.Entry}, true
}

// all reads the file; there is none where it is not as write leaves it.
func (l keptLookups) all() map[string]keptLookup {
	kept := map[string]keptLookup{}
	if text, ok := l.text(); !ok || json.Unmarshal(text, &kept) != nil {
		return map[string]keptLookup{}
	}
	return kept
}

func (l keptLookups) text() ([]byte, bool) {
	if l.file == "" {
		return nil, false
	}
	file, err := os.OpenFile(l.file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 || time.Since(info.ModTime()) > keptLookupsAge ||
		int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		return nil, false
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeptLookupsFile))
	return text, err == nil
}

// write keeps an answer. That it cannot costs time only.
func (l keptLookups) write(reference string, k known) {
	if l.file == "" || k.entry == "" {
		return
	}
	all := l.all()
	all[reference] = keptLookup{Image: k.image, List: k.list.path, Entry: k.entry, Asked: time.Now()}
	for len(all) > maxKeptLookups {
		delete(all, oldest(all))
	}
	text, err := json.Marshal(all)
	dir := filepath.Dir(l.file)
	if err != nil || os.MkdirAll(dir, 0o700) != nil {
		return
	}
	removeOlder(dir, keptLookupsAge)
	replace(l.file, text)
}

func oldest(all map[string]keptLookup) string {
	var name string
	for reference, k := range all {
		if name == "" || k.Asked.Before(all[name].Asked) {
			name = reference
		}
	}
	return name
}
