// Package states is the store of state layers: where they lie, and how they share
// bytes.
//
// Rows of one task leave much the same outside of their workspaces, but never at
// the same time, so their layers are different ones. What they share are files: a
// layer that is kept gives up the bytes of each file that another layer holds
// already, and keeps a hole of the file's size with all else that it has. Whoever
// reads the layer takes the bytes from where they are.
//
//	<scratch>/state/<diff id>/layer        the layer
//	<scratch>/state/<diff id>/files        which of its files can be shared, and are
//	<scratch>/state/<diff id>/state.json   what it is, last of all
//	<scratch>/state-bytes/<sha256>         where bytes are: a link that says in which
//	                                       layer, or a file when that layer is gone
package states

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// StoreDir is where the state layers of a scratch directory are.
func StoreDir(scratch string) string { return filepath.Join(scratch, "state") }

// LayerDir is the layer itself in the directory of a state.
func LayerDir(dir string) string { return filepath.Join(dir, "layer") }

// InfoFile describes the layer, in the directory of a state.
func InfoFile(dir string) string { return filepath.Join(dir, "state.json") }

// listFile lists the files of a layer that are large enough to be shared.
func listFile(dir string) string { return filepath.Join(dir, "files") }

// bytesDir is where bytes are found by their sum.
func bytesDir(scratch string) string { return filepath.Join(scratch, "state-bytes") }

// scratchOf is the scratch directory that the directory of a state lies in.
func scratchOf(dir string) string { return filepath.Dir(filepath.Dir(dir)) }

// Info says what a state layer is.
type Info struct {
	DiffID  string    `json:"diff_id"` // sha256:..., of the archive that stands for it
	Entries int       `json:"entries"`
	Bytes   int64     `json:"bytes"` // of regular files
	Image   string    `json:"image"` // the pin it lies above
	Made    time.Time `json:"made"`
	// SharedBytes are those of Bytes that other layers held when it was kept.
	SharedBytes int64 `json:"shared_bytes,omitempty"`
	// Files is the sum of the list of its files; "": it has none.
	Files string `json:"files,omitempty"`
	// BeforeAgent: it was made before an agent worked, of what its task changed.
	BeforeAgent bool `json:"before_agent,omitempty"`
	// Replaced are programs of the image, and what they are started by, that the
	// layer replaces, deletes or stands in front of, at most so many.
	Replaced     []string `json:"replaced_tools,omitempty"`
	ReplacedMore int      `json:"replaced_tools_more,omitempty"` // beyond these
}

// maxInfo caps what is read of a layer's description, in bytes.
const maxInfo = 16 << 10

// ReadInfo reads the description of the layer in the directory of a state, and
// says when it was last used.
func ReadInfo(dir string) (info Info, used time.Time, err error) {
	file, err := os.Open(InfoFile(dir))
	if err != nil {
		return info, used, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxInfo))
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	if stat, statErr := file.Stat(); err == nil && statErr == nil {
		used = stat.ModTime().UTC()
	}
	return info, used, err
}

const diffPrefix = "sha256:"

// hexOf is the name of a layer's directory.
func hexOf(diffID string) string { return strings.TrimPrefix(diffID, diffPrefix) }

// isComplete tells whether a state describes itself: one that does not is still
// being made, or half removed.
func isComplete(dir string) bool {
	_, err := os.Lstat(InfoFile(dir))
	return err == nil
}

func isMissing(err error) bool { return errors.Is(err, os.ErrNotExist) }
