package supervisor

import (
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"podgrade/isolation/protocol"
)

// listPart is how many entries one answer holds: with the longest names, every
// byte of them escaped, it stays below a frame.
const listPart = 512

// listBytes bounds what the names and paths of one list take on the host.
const listBytes = 64 << 20

// stat carries OpStat out.
func (s *supervisor) stat(p *protocol.Path) protocol.Answer {
	t, failure := s.paths.resolve(p)
	if failure != nil {
		return protocol.Answer{Failure: failure}
	}
	defer t.close()
	return protocol.Answer{File: describe(lastPart(p.Name), t.path, &t.stat)}
}

// read carries OpRead out: the regular file's bytes as chunks, up to its end as
// it is found, and never more than the limit.
func (s *supervisor) read(id uint32, p *protocol.Path) protocol.Answer {
	t, failure := s.paths.resolve(p)
	if failure != nil {
		return protocol.Answer{Failure: failure}
	}
	defer t.close()
	if t.stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return failed(protocol.NotRegular, "read %q: it is a %s", p.Name, typeOf(t.stat.Mode))
	}
	if t.stat.Size > p.Limit {
		return tooLarge(p, t.stat.Size)
	}
	f, err := t.reopen(0)
	if err != nil {
		return failed(classify(err), "open %q for reading: %v", p.Name, errno(err))
	}
	defer f.Close()
	sent, err := s.copy(id, f, p.Limit)
	if err != nil {
		return failed(classify(err), "read %q: %v", p.Name, errno(err))
	}
	if sent > p.Limit {
		return tooLarge(p, sent)
	}
	file := describe(lastPart(p.Name), t.path, &t.stat)
	file.Size = sent
	return protocol.Answer{File: file}
}

// tooLarge is the answer for a file above its limit.
func tooLarge(p *protocol.Path, size int64) protocol.Answer {
	return failed(protocol.TooLarge, "read %q: it has at least %d bytes, the limit is %d", p.Name, size, p.Limit)
}

// copy sends f's bytes. It stops when there is one more than the limit, which
// is counted and not sent.
func (s *supervisor) copy(id uint32, f *os.File, limit int64) (int64, error) {
	buf := make([]byte, protocol.ChunkSize)
	for sent := int64(0); ; {
		n, err := f.Read(buf)
		if sent+int64(n) > limit {
			return limit + 1, nil
		}
		if n > 0 {
			s.send(s.out.WriteChunk(id, protocol.Content, buf[:n]))
			sent += int64(n)
		}
		if err == io.EOF {
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
	}
}

// list carries OpList out. It sends all parts of the answer but the last.
func (s *supervisor) list(id uint32, p *protocol.Path) protocol.Answer {
	t, failure := s.paths.resolve(p)
	if failure != nil {
		return protocol.Answer{Failure: failure}
	}
	defer t.close()
	if t.stat.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return failed(protocol.NotDir, "list %q: it is a %s", p.Name, typeOf(t.stat.Mode))
	}
	files, failure := entries(t, p)
	if failure != nil {
		return protocol.Answer{Failure: failure}
	}
	for len(files) > listPart {
		s.send(s.out.WriteJSON(protocol.KindAnswer, protocol.Answer{ID: id, More: true, Files: files[:listPart]}))
		files = files[listPart:]
	}
	return protocol.Answer{File: describe(lastPart(p.Name), t.path, &t.stat), Files: files}
}

// entries reads a directory, sorted by the bytes of the names. An entry that
// vanishes meanwhile is left out.
func entries(t *target, p *protocol.Path) ([]protocol.File, *protocol.Failure) {
	names, failure := entryNames(t, p)
	if failure != nil {
		return nil, failure
	}
	slices.Sort(names)
	files := make([]protocol.File, 0, len(names))
	for _, name := range names {
		var st syscall.Stat_t
		err := syscall.Lstat(t.self()+"/"+name, &st)
		if err == syscall.ENOENT {
			continue
		}
		if err != nil {
			return nil, failed(classify(err), "list %q: look at %q: %v", p.Name, name, err).Failure
		}
		file := describe(name, "", &st)
		file.Link = file.Type == protocol.Symlink
		files = append(files, *file)
	}
	return files, nil
}

// entryNames reads a directory's names, within the limits.
func entryNames(t *target, p *protocol.Path) ([]string, *protocol.Failure) {
	f, err := t.reopen(oDirectory)
	if err != nil {
		return nil, failed(classify(err), "open directory %q: %v", p.Name, errno(err)).Failure
	}
	defer f.Close()
	var names []string
	for bytes := 0; ; {
		more, err := f.Readdirnames(listPart)
		for _, name := range more {
			bytes += len(t.path) + 1 + 2*len(name)
		}
		names = append(names, more...)
		if int64(len(names)) > p.Limit {
			return nil, failed(protocol.TooLarge, "list %q: it has more than %d entries, the limit", p.Name, p.Limit).Failure
		}
		if bytes > listBytes {
			return nil, failed(protocol.TooLarge, "list %q: its names take more than %d MiB", p.Name, listBytes>>20).Failure
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, failed(classify(err), "list %q: %v", p.Name, errno(err)).Failure
		}
	}
}

// describe makes a File of what stat says.
func describe(name, path string, st *syscall.Stat_t) *protocol.File {
	return &protocol.File{
		Name:    name,
		Path:    path,
		Type:    typeOf(st.Mode),
		Mode:    st.Mode & 0o7777,
		Size:    st.Size,
		UID:     st.Uid,
		GID:     st.Gid,
		ModTime: time.Unix(st.Mtim.Unix()).UTC(),
	}
}

// typeOf is the kind of a file by its mode.
func typeOf(mode uint32) protocol.FileType {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return protocol.Regular
	case syscall.S_IFDIR:
		return protocol.Directory
	case syscall.S_IFLNK:
		return protocol.Symlink
	case syscall.S_IFIFO:
		return protocol.Fifo
	case syscall.S_IFSOCK:
		return protocol.Socket
	case syscall.S_IFCHR:
		return protocol.CharDev
	}
	return protocol.BlockDev
}
