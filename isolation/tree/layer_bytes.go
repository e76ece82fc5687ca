package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// FileSum is a regular file of a layer, by all its names.
type FileSum struct {
	Paths  []string
	Size   int64
	SHA256 string // in hexadecimal
}

// maxSums caps Layer.Sums, maxSummedPath a path there, in bytes: it can be opened
// at once then.
const (
	maxSums       = 200_000
	maxSummedPath = 2 << 10
)

// bytes writes those of a file, and sums them up where that is asked for.
func (l *layerWriter) bytes(file *os.File, path string, st *unix.Stat_t) error {
	if l.o.Hollow != nil && l.o.Hollow.Has(path) {
		elsewhere, err := l.o.Hollow.Open(path)
		if err != nil {
			return err
		}
		defer elsewhere.Close()
		file = elsewhere
	}
	var to io.Writer = l.tar
	sum := sha256.New()
	sums := l.sums(path, st)
	if sums {
		to = io.MultiWriter(l.tar, sum)
	}
	_, err := io.CopyN(to, &readerUntil{l.ctx, file}, st.Size)
	if err == nil && sums {
		l.summed[path] = len(l.layer.Sums)
		l.layer.Sums = append(l.layer.Sums, FileSum{Paths: []string{path}, Size: st.Size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	}
	return err
}

// statBlock is what stat counts the space of a file in, whatever its file system
// has.
const statBlock = 512

func (l *layerWriter) sums(path string, st *unix.Stat_t) bool {
	least := l.o.SumFrom
	return least > 0 && min(st.Size, st.Blocks*statBlock) >= least && len(path) <= maxSummedPath && len(l.layer.Sums) < maxSums
}

// alsoNamed notes a further name of a file. A file that has one of which no note
// can be kept is none of Layer.Sums.
func (l *layerWriter) alsoNamed(first, path string) {
	i, ok := l.summed[first]
	if !ok {
		return
	}
	if sum := &l.layer.Sums[i]; len(path) <= maxSummedPath && len(sum.Paths) > 0 {
		sum.Paths = append(sum.Paths, path)
	} else {
		sum.Paths = nil
	}
}
