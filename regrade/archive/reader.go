package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Damaged says which part of an archive is not what it should be.
type Damaged struct {
	Part string
	Why  error
}

// Error names the part.
func (d *Damaged) Error() string { return fmt.Sprintf("its part %s is damaged: %v", d.Part, d.Why) }

// Unwrap returns the cause.
func (d *Damaged) Unwrap() error { return d.Why }

// ErrNoArchive: the file is none of podgrade's.
var ErrNoArchive = errors.New("it is no archive of podgrade")

// Reader reads an archive. Of what it gives every byte has been compared with
// the manifest.
type Reader struct {
	Manifest *Manifest
	Sum      string // sha256 of the manifest, in hexadecimal

	from    io.ReaderAt
	size    int64
	offsets map[string]int64 // of the headers of the parts
	parts   map[string]Part
}

// Open reads the manifest of an archive of that size. Nothing of the parts is
// read, but that they fit into the file.
func Open(from io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{from: from, size: size, offsets: map[string]int64{}, parts: map[string]Part{}}
	text, err := r.manifest()
	if err != nil {
		return nil, err
	}
	at := room(int64(len(text)))
	digest := sha256.Sum256(text)
	r.Sum = hex.EncodeToString(digest[:])
	if err := r.manifestSum(at, sumText(digest)); err != nil {
		return nil, err
	}
	if r.Manifest, err = ParseManifest(text); err != nil {
		return nil, &Damaged{ManifestName, err}
	}
	at += room(sha256.Size*2 + 1)
	for _, p := range r.Manifest.Parts {
		r.offsets[p.Name], r.parts[p.Name] = at, p
		if at += room(p.Size); at > size || at < 0 {
			return nil, &Damaged{p.Name, fmt.Errorf("the file ends in it, after %d bytes", size)}
		}
	}
	if at+endSize != size {
		return nil, &Damaged{"end", fmt.Errorf("the file has %d bytes, and its manifest announces %d", size, at+endSize)}
	}
	return r, nil
}

// manifest reads the text of the manifest.
func (r *Reader) manifest() ([]byte, error) {
	head := make([]byte, blockSize)
	if _, err := r.from.ReadAt(head, 0); err != nil {
		return nil, errors.Join(ErrNoArchive, ignoreEnd(err))
	}
	h, err := tar.NewReader(bytes.NewReader(head)).Next()
	if err != nil || h.Name != ManifestName {
		half := len(ManifestName) / 2 // one changed byte leaves the other half
		if bytes.HasPrefix(head, []byte(ManifestName[:half])) || bytes.HasPrefix(head[half:], []byte(ManifestName[half:])) {
			return nil, &Damaged{ManifestName, errors.Join(errors.New("its header is another"), err)}
		}
		return nil, ErrNoArchive
	}
	if h.Size > MaxManifest || h.Size < 0 {
		return nil, &Damaged{ManifestName, fmt.Errorf("it has %d bytes, the limit is %d", h.Size, MaxManifest)}
	}
	return r.small(ManifestName, 0, h.Size)
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// small reads a file of the archive as a whole, header and padding and all.
func (r *Reader) small(name string, at, size int64) ([]byte, error) {
	var b bytes.Buffer
	err := r.file(context.Background(), name, at, size, &b)
	return b.Bytes(), err
}

func (r *Reader) manifestSum(at int64, want []byte) error {
	found, err := r.small(SumName, at, int64(len(want)))
	if err == nil && !bytes.Equal(found, want) {
		err = &Damaged{ManifestName, errors.New("its sum is another than " + SumName + " says")}
	}
	return err
}

// file copies a file of the archive, and refuses a header or a padding that is
// another than the one that it can have.
func (r *Reader) file(ctx context.Context, name string, at, size int64, to io.Writer) error {
	damaged := func(err error) error { return &Damaged{name, err} }
	want, err := header(name, size)
	if err != nil {
		return damaged(err)
	}
	head := make([]byte, blockSize)
	if _, err := r.from.ReadAt(head, at); err != nil {
		return damaged(err)
	}
	if !bytes.Equal(head, want) {
		return damaged(errors.New("its header is another"))
	}
	n, err := io.Copy(to, &readerUntil{ctx, io.NewSectionReader(r.from, at+blockSize, size)})
	if err != nil {
		return err
	}
	if n != size {
		return damaged(fmt.Errorf("the file ends after %d of its %d bytes", n, size))
	}
	rest := make([]byte, padding(size))
	if _, err := r.from.ReadAt(rest, at+blockSize+size); err != nil && len(rest) > 0 {
		return damaged(err)
	}
	if !bytes.Equal(rest, make([]byte, len(rest))) {
		return damaged(errors.New("what follows it should be zeros"))
	}
	return nil
}

// Part is what the manifest says of a part; nothing when it is not there.
func (r *Reader) Part(name string) Part { return r.parts[name] }

// Copy copies the content of a part. When it returns an error nothing that was
// copied may be used.
func (r *Reader) Copy(ctx context.Context, name string, to io.Writer) error {
	p, ok := r.parts[name]
	if !ok {
		return &Damaged{name, errors.New("it is not there")}
	}
	seen := sha256.New()
	if err := r.file(ctx, name, r.offsets[name], p.Size, io.MultiWriter(to, seen)); err != nil {
		return err
	}
	if found := hex.EncodeToString(seen.Sum(nil)); found != p.SHA256 {
		return &Damaged{name, fmt.Errorf("its sum is %s, and the manifest says %s", found, p.SHA256)}
	}
	return nil
}

// Offset is where the content of a part begins.
func (r *Reader) Offset(name string) int64 { return r.offsets[name] + blockSize }

// Verify reads every byte of the archive. read is told how many bytes have been
// read; it may be nil.
func (r *Reader) Verify(ctx context.Context, read func(n int64)) error {
	if read == nil {
		read = func(int64) {}
	}
	for _, p := range r.Manifest.Parts {
		if err := r.Copy(ctx, p.Name, io.Discard); err != nil {
			return err
		}
		read(r.offsets[p.Name] + room(p.Size))
	}
	end := make([]byte, endSize)
	if _, err := r.from.ReadAt(end, r.size-endSize); err != nil {
		return &Damaged{"end", err}
	}
	if !bytes.Equal(end, make([]byte, endSize)) {
		return &Damaged{"end", errors.New("it should be zeros")}
	}
	return nil
}

// Text reads a part as a whole, at most limit bytes.
func (r *Reader) Text(ctx context.Context, name string, limit int64) ([]byte, error) {
	if p := r.parts[name]; p.Size > limit {
		return nil, &Damaged{name, fmt.Errorf("it has %d bytes, the limit is %d", p.Size, limit)}
	}
	var b bytes.Buffer
	err := r.Copy(ctx, name, &b)
	return b.Bytes(), err
}

// readerUntil reads while somebody waits.
type readerUntil struct {
	ctx context.Context
	r   io.Reader
}

func (r *readerUntil) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
