package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io/fs"

	"golang.org/x/sys/unix"
)

// regular copies a file and adds its bytes to the digest, in one pass over
// them. Further names of the same file become hard links again.
func (w *walker) regular(srcDir, dstDir int, base, name string, listed *unix.Stat_t) error {
	src, err := openQuietly(srcDir, base, unix.O_RDONLY)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(src)
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Ino != listed.Ino {
		return &fs.PathError{Op: "copy", Path: name, Err: errChanged}
	}
	w.note(name, &st)
	if st.Nlink > 1 {
		id := FileID{st.Dev, st.Ino}
		if first, ok := w.links[id]; ok {
			w.noteBytes([]byte("link to " + first))
			return w.hardLink(dstDir, first, base, name)
		}
		w.links[id] = name
		w.hazard("hard link: %q", name)
	}
	w.bytes += st.Size
	attrs := w.xattrs(src, name)
	if dstDir < 0 {
		return w.content(src, -1, name, &st)
	}
	dst, err := unix.Openat(dstDir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &fs.PathError{Op: "make", Path: name, Err: err}
	}
	defer unix.Close(dst)
	if w.meta {
		err = standIn(dst, name, st.Size)
	} else {
		err = w.content(src, dst, name, &st)
	}
	if err != nil {
		return err
	}
	return w.attributes(dst, name, &st, attrs)
}

func (w *walker) hardLink(dstDir int, first, base, name string) error {
	if dstDir < 0 {
		return nil
	}
	// first lies in our own copy; a deep path may be longer than PATH_MAX.
	from, err := openBelow(w.dstRoot, first)
	if err != nil {
		return &fs.PathError{Op: "find the first name of", Path: name, Err: err}
	}
	defer unix.Close(from.dir)
	if err := unix.Linkat(from.dir, from.base, dstDir, base, 0); err != nil {
		return &fs.PathError{Op: "link", Path: name, Err: err}
	}
	return nil
}

// content copies the bytes of src to dst (-1: only reads them) and notes their
// digest. Holes stay holes, and where the file system shares blocks it does.
//
// A block of zeros counts the same whether it is a hole or written, and holes
// are not read: a file of terabytes that holds nothing takes no time.
func (w *walker) content(src, dst int, name string, st *unix.Stat_t) error {
	cloned := dst >= 0 && st.Size > 0 && unix.IoctlFileClone(dst, src) == nil
	sum := sha256.New()
	for at := nextData(src, 0, st.Size); at < st.Size; at = nextData(src, at, st.Size) {
		chunk := w.buf[:min(int64(len(w.buf)), st.Size-at)]
		if err := readFull(src, chunk, at); err != nil {
			return &fs.PathError{Op: "read", Path: name, Err: err}
		}
		for offset := 0; offset < len(chunk); offset += block {
			noteBlock(sum, at+int64(offset), chunk[offset:min(offset+block, len(chunk))])
		}
		if dst >= 0 && !cloned {
			if err := writeChunk(dst, chunk, at); err != nil {
				return &fs.PathError{Op: "write", Path: name, Err: err}
			}
		}
		at += int64(len(chunk))
	}
	if dst >= 0 && !cloned {
		if err := unix.Ftruncate(dst, st.Size); err != nil {
			return &fs.PathError{Op: "write", Path: name, Err: err}
		}
	}
	w.noteBytes(fmt.Appendf(nil, "%d %x", st.Size, sum.Sum(nil)))
	return nil
}

// nextData is the first block at or after offset that is no hole, size when
// there is none. A file system that knows no holes has none.
func nextData(fd int, offset, size int64) int64 {
	at, err := unix.Seek(fd, offset, unix.SEEK_DATA)
	switch {
	case err == unix.ENXIO:
		return size
	case err != nil || at < offset:
		return offset
	}
	return max(offset, at-at%block)
}

// readFull fills buf from an offset; a file that ends before has changed.
func readFull(fd int, buf []byte, offset int64) error {
	for done := 0; done < len(buf); {
		n, err := unix.Pread(fd, buf[done:], offset+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return errChanged
		}
		done += n
	}
	return nil
}

// noteBlock adds a block that is not all zeros to a file's digest, with its
// place.
func noteBlock(sum hash.Hash, offset int64, b []byte) {
	if bytes.Equal(b, zeros[:len(b)]) {
		return
	}
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(offset)))
	sum.Write(b)
}

const block = 4096

var zeros [block]byte

// writeChunk writes chunk at offset, leaving blocks of zeros as holes: the
// file is new, so what is not written reads as zeros.
func writeChunk(fd int, chunk []byte, offset int64) error {
	for len(chunk) > 0 {
		n := run(chunk)
		if !bytes.Equal(chunk[:min(n, block)], zeros[:min(n, block)]) {
			for written := 0; written < n; {
				k, err := unix.Pwrite(fd, chunk[written:n], offset+int64(written))
				if err != nil {
					return err
				}
				written += k
			}
		}
		chunk, offset = chunk[n:], offset+int64(n)
	}
	return nil
}

// run is how many of the first bytes of chunk are either one block of zeros or
// blocks none of which is zeros.
func run(chunk []byte) int {
	if len(chunk) >= block && bytes.Equal(chunk[:block], zeros[:]) {
		return block
	}
	n := block
	for n+block <= len(chunk) && !bytes.Equal(chunk[n:n+block], zeros[:]) {
		n += block
	}
	if n+block > len(chunk) {
		return len(chunk)
	}
	return n
}
