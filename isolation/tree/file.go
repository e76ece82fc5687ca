package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"golang.org/x/sys/unix"
)

// regular copies a file and adds its bytes to the digest, in one pass over
// them. Further names of the same file become hard links again.
func (w *walker) regular(src, dst *directory, base string, listed *unix.Stat_t) error {
	fd, err := openQuietly(src.fd, base, unix.O_RDONLY)
	if err != nil {
		return src.fault("open", base, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return src.fault("stat", base, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Ino != listed.Ino {
		return src.fault("copy", base, errChanged)
	}
	w.note(src, base, &st)
	if st.Nlink > 1 {
		id := w.identity(src, base, &st)
		if known, ok := w.links[id]; ok {
			w.noteBytes([]byte("link to " + known.dir.path(known.base)))
			return w.hardLink(src, dst, known, base)
		}
		w.links[id] = first{src, base}
		w.hazard("hard link", src, base)
	}
	w.bytes += st.Size
	attrs := w.xattrs(src, fd, base)
	from, done, err := w.bytesOf(fd, src, base)
	if err != nil {
		return err
	}
	defer done()
	if dst == nil {
		return w.content(from, noCopy, src, base, &st)
	}
	to, err := unix.Openat(dst.fd, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return src.fault("make", base, err)
	}
	defer unix.Close(to)
	if w.meta {
		err = standIn(to, src, base, st.Size)
	} else {
		err = w.content(from, to, src, base, &st)
	}
	if err != nil {
		return err
	}
	return w.attributes(to, src, base, &st, attrs)
}

// identity is the same for all names of a file.
func (w *walker) identity(d *directory, base string, st *unix.Stat_t) FileID {
	id := FileID{st.Dev, st.Ino}
	if w.o.Upper == 0 {
		return id
	}
	dir, err := openBelow(w.o.Upper, d.parts(""))
	if err != nil {
		return id // nothing changed there
	}
	defer unix.Close(dir)
	var upper unix.Stat_t
	if unix.Fstatat(dir, base, &upper, unix.AT_SYMLINK_NOFOLLOW) == nil {
		id = FileID{upper.Dev, upper.Ino}
	}
	return id
}

func (w *walker) hardLink(src, dst *directory, known first, base string) error {
	if dst == nil {
		return nil
	}
	// The first lies in our own copy; a deep path may be longer than PATH_MAX.
	from, err := openBelow(w.dstRoot, known.dir.parts(""))
	if err != nil {
		return src.fault("find the first name of", base, err)
	}
	defer unix.Close(from)
	if err := unix.Linkat(from, known.base, dst.fd, base, 0); err != nil {
		return src.fault("link", base, err)
	}
	return nil
}

// content copies the bytes of src to dst (noCopy: only reads them) and notes their
// digest. Holes stay holes, and where the file system shares blocks it does.
//
// A block of zeros counts the same whether it is a hole or written, and holes
// are not read: a file of terabytes that holds nothing takes no time.
func (w *walker) content(src, dst int, d *directory, base string, st *unix.Stat_t) error {
	cloned := dst >= 0 && st.Size > 0 && unix.IoctlFileClone(dst, src) == nil
	sum := sha256.New()
	for at := nextData(src, 0, st.Size); at < st.Size; at = nextData(src, at, st.Size) {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		chunk := w.chunk(st.Size - at)
		if err := readFull(src, chunk, at); err != nil {
			return d.fault("read", base, err)
		}
		for offset := 0; offset < len(chunk); offset += block {
			noteBlock(sum, at+int64(offset), chunk[offset:min(offset+block, len(chunk))])
		}
		if dst >= 0 && !cloned {
			if err := writeChunk(dst, chunk, at); err != nil {
				return d.fault("write", base, err)
			}
		}
		at += int64(len(chunk))
	}
	if dst >= 0 && !cloned {
		if err := unix.Ftruncate(dst, st.Size); err != nil {
			return d.fault("write", base, err)
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
