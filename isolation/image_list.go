package isolation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"

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

// readImageList looks at a list. One of somebody else (an additional store) is none:
// another store may come before it.
func readImageList(path string) (imageList, bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || int(st.Uid) != unix.Getuid() || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return imageList{}, false
	}
	return imageList{path: path, dev: st.Dev, ino: st.Ino, size: st.Size, changed: st.Ctim, written: st.Mtim}, true
}

// imageListOf finds the list that belongs to a layer: <store>/overlay/<id>/diff.
func imageListOf(layer string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(layer))), overlayDriver+"-images", "images.json")
}

// maxImageList caps a list that is read, in bytes; an image has some 1500.
const maxImageList = 64 << 20

var imageID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// listedImage is what a list says of one image.
type listedImage struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
	Layer  string `json:"layer"` // the top one
	sum    string // of the whole entry
}

// read does not wait for a writer, whatever became of the file.
func (l imageList) read() ([]byte, error) {
	file, err := os.OpenFile(l.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxImageList))
}

// entry returns what the list says of the image with an id.
func (l imageList) entry(id string) (listedImage, bool) {
	if !imageID.MatchString(id) || l.size > maxImageList {
		return listedImage{}, false
	}
	text, err := l.read()
	if again, ok := readImageList(l.path); err != nil || !ok || again != l {
		return listedImage{}, false // written while it was read
	}
	var entries []json.RawMessage
	if json.Unmarshal(text, &entries) != nil {
		return listedImage{}, false
	}
	for _, raw := range entries {
		var e listedImage
		if bytes.Contains(raw, []byte(id)) && json.Unmarshal(raw, &e) == nil && e.ID == id {
			sum := sha256.Sum256(raw)
			e.sum = hex.EncodeToString(sum[:])
			return e, true
		}
	}
	return listedImage{}, false
}

// proves tells whether an image is the one of the entry, as far as the entry says.
func (e listedImage) proves(i Image, list imageList) bool {
	if i.Pin.ID != e.ID || i.Pin.Digest != e.Digest || len(i.Layers) == 0 || filepath.Base(filepath.Dir(i.Layers[0])) != e.Layer {
		return false
	}
	for _, layer := range i.Layers {
		if imageListOf(layer) != list.path {
			return false // of a store that this list says nothing of
		}
		if info, err := os.Lstat(layer); err != nil || !info.IsDir() {
			return false
		}
	}
	// Another program than the kernel may have written the layers anew.
	return i.Driver == overlayDriver && driverOf(i.Layers[0], overlayDriver) == overlayDriver
}
