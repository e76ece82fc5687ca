package testimages

import (
	"archive/tar"
	"io"
	"time"
)

// archive writes tar entries that do not depend on the machine: time 0, and
// the numeric owner that is asked for, without names.
type archive struct {
	tar *tar.Writer
}

func newArchive(w io.Writer) *archive { return &archive{tar: tar.NewWriter(w)} }

func (a *archive) close() error { return a.tar.Close() }

func (a *archive) header(kind byte, name string, mode int64) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
}

// dir writes directories, each with the mode and owner given.
func (a *archive) dir(mode int64, owner int, names ...string) error {
	for _, name := range names {
		h := a.header(tar.TypeDir, name+"/", mode)
		h.Uid, h.Gid = owner, owner
		if err := a.tar.WriteHeader(h); err != nil {
			return err
		}
	}
	return nil
}

// file writes a regular file that root owns.
func (a *archive) file(name string, mode int64, content []byte) error {
	h := a.header(tar.TypeReg, name, mode)
	h.Size = int64(len(content))
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := a.tar.Write(content)
	return err
}

// link writes a symbolic link.
func (a *archive) link(name, target string) error {
	h := a.header(tar.TypeSymlink, name, 0o777)
	h.Linkname = target
	return a.tar.WriteHeader(h)
}

// copyFrom writes the entries of another archive that keep says yes to, with
// their owners, modes and content, and time 0.
func (a *archive) copyFrom(r io.Reader, keep func(*tar.Header) bool) error {
	source := tar.NewReader(r)
	for {
		h, err := source.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !keep(h) {
			continue
		}
		h.ModTime, h.AccessTime, h.ChangeTime = time.Unix(0, 0), time.Time{}, time.Time{}
		h.Uname, h.Gname = "", ""
		h.Format = tar.FormatPAX
		if err := a.tar.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(a.tar, source); err != nil {
			return err
		}
	}
}
