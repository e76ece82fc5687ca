package isolation

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// archiveKind says what a tar archive holds.
type archiveKind int

const (
	rootFSArchive archiveKind = iota // the files of a root file system
	imageArchive                     // what `docker save`, or a copy to oci-archive, wrote
)

// Files of image archives.
const (
	dockerManifest = "manifest.json" // of `docker save`
	ociIndex       = "index.json"    // of an OCI layout
	ociLayout      = "oci-layout"
)

// imageEntry is what names in an image archive look like; a root file system
// has others.
var imageEntry = regexp.MustCompile(`^(manifest\.json|index\.json|oci-layout|repositories|blobs(/.*)?|(sha256:)?[0-9a-f]{64}(\.json|\.tar(\.gz)?|/.*)?|[0-9a-f]{12,64}/(json|VERSION|layer\.tar))$`)

// maxArchiveEntries is more entries than an image archive has: some per layer.
const maxArchiveEntries = 10_000

// kindOfArchive looks at an archive's names. Of a root file system it reads
// the first few only.
func kindOfArchive(r io.Reader) (archiveKind, error) {
	plain, err := decompress(r)
	if err != nil {
		return 0, err
	}
	seen := map[string]bool{}
	entries := tar.NewReader(plain)
	for n := 0; ; n++ {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if n == 0 {
				return 0, fmt.Errorf("it is no tar archive: %w", err)
			}
			return 0, fmt.Errorf("it is damaged after %d entries: %w", n, err)
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if name == "" { // the entry of the root itself
			continue
		}
		if n > maxArchiveEntries || !imageEntry.MatchString(name) {
			return rootFSArchive, nil
		}
		seen[name] = true
	}
	if seen[dockerManifest] || seen[ociIndex] && seen[ociLayout] {
		return imageArchive, nil
	}
	return rootFSArchive, nil
}

// decompress reads what Podman reads of root file systems: plain, gzip, bzip2,
// xz and zstd. A plain file that can be sought is given back at its beginning.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	magic, err := b.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
		return gzip.NewReader(b)
	case bytes.HasPrefix(magic, []byte("BZh")):
		return bzip2.NewReader(b), nil
	case bytes.HasPrefix(magic, []byte("\xfd7zXZ\x00")):
		return xz.NewReader(b)
	case bytes.HasPrefix(magic, []byte("\x28\xb5\x2f\xfd")):
		return zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	}
	if s, ok := r.(io.Seeker); ok { // so that the content of files is skipped
		if _, err := s.Seek(0, io.SeekStart); err == nil {
			return r, nil
		}
	}
	return b, nil
}
