package isolation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

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

// maxImageList caps a list that is read, in bytes; an image has some 1500.
const maxImageList = 64 << 20

var imageID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// entryOf is what the list says of an image, in short, when that alone tells what
// a reference leads to: its id, or one of its full names, which Podman looks for
// before anything else. A short name, a digest or the beginning of an id may lead to
// another image as soon as there is another one.
func (l imageList) entryOf(id, reference string) (entry string, ok bool) {
	if !imageID.MatchString(id) || l.size > maxImageList {
		return "", false
	}
	text, err := os.ReadFile(l.path)
	if again, ok := readImageList(l.path); err != nil || !ok || again != l {
		return "", false // written while it was read
	}
	var entries []json.RawMessage
	if json.Unmarshal(text, &entries) != nil {
		return "", false
	}
	for _, raw := range entries {
		var image struct {
			ID    string   `json:"id"`
			Names []string `json:"names"`
		}
		if !bytes.Contains(raw, []byte(id)) || json.Unmarshal(raw, &image) != nil || image.ID != id {
			continue
		}
		if reference != id && !(isFullName(reference) && slices.Contains(image.Names, reference)) {
			return "", false
		}
		sum := sha256.Sum256(raw)
		return hex.EncodeToString(sum[:]), true
	}
	return "", false
}

// isFullName tells names that say their registry from short ones.
func isFullName(reference string) bool {
	host, rest, ok := strings.Cut(reference, "/")
	return ok && rest != "" && !strings.Contains(rest, "@") && (host == "localhost" || strings.ContainsAny(host, ".:"))
}
