package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
)

// blockSize is the unit of a tar archive.
const blockSize = 512

// endSize is what ends a tar archive: two blocks of zeros.
const endSize = 2 * blockSize

// header is the one header of a file in an archive: its name and its size are
// all that it says.
func header(name string, size int64) ([]byte, error) {
	var b bytes.Buffer
	err := tar.NewWriter(&b).WriteHeader(&tar.Header{Format: tar.FormatGNU, Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size})
	if err == nil && b.Len() != blockSize {
		err = fmt.Errorf("the header of %q has %d bytes", name, b.Len())
	}
	return b.Bytes(), err
}

// Starts tells whether a file starts as an archive of this form does, of whatever
// version, and be it that its writer came no further.
func Starts(r io.Reader) bool {
	const named, magic = 100, 257 // bytes of a header that hold the name, and what a tar archive is known by
	block := make([]byte, blockSize)
	if _, err := io.ReadFull(r, block); err != nil {
		return false
	}
	name := make([]byte, named)
	copy(name, ManifestName)
	return bytes.Equal(block[:named], name) && bytes.HasPrefix(block[magic:], []byte("ustar"))
}

// padding is how many zeros follow the content.
func padding(size int64) int64 { return -size & (blockSize - 1) }

// room is what a file takes in an archive, header and padding and all.
func room(size int64) int64 { return blockSize + size + padding(size) }
