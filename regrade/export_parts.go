package regrade

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"podgrade/isolation"
	"podgrade/isolation/tree"
	"podgrade/policy"
	"podgrade/regrade/archive"
)

// spooled is a part that lies in a file until it is written.
type spooled struct {
	archive.Part
	path string
}

func spoolError(on string, why error) error {
	return &Error{Kind: Infrastructure, Tried: "collect the parts of", On: on, Why: why, Do: "make room in the scratch directory, or choose another with --scratch"}
}

// tree packs a directory into a part; without a name it gets that of its sum.
func (x *exporting) tree(ctx context.Context, dir, name string, o tree.PackOptions) (string, error) {
	open, err := isolation.OpenTree(dir)
	if err != nil {
		return "", exportError(dir, err)
	}
	defer open.Close()
	var packed tree.Packed
	part, err := x.spool(func(to io.Writer) error {
		packed, err = x.engines.PackTree(ctx, open, o, to)
		return err
	})
	if err != nil {
		return "", err
	}
	for _, left := range packed.Left {
		fmt.Fprintf(x.options.Notice, "warning: left out of %s: %s\n", policy.Neutral(dir), policy.Neutral(left))
	}
	part.Name, part.Entries = name, packed.Entries
	if name == "" {
		part.Name = archive.TreePart(part.SHA256)
	}
	return part.Name, x.add(part)
}

// spool collects a part in a file.
func (x *exporting) spool(fill func(to io.Writer) error) (spooled, error) {
	file, err := os.CreateTemp(x.dir, "part-")
	if err != nil {
		return spooled{}, spoolError(x.file, err)
	}
	count := &summed{to: file, digest: sha256.New()}
	err = fill(count)
	if closing := file.Close(); err == nil && closing != nil {
		err = spoolError(x.file, closing)
	}
	return spooled{Part: archive.Part{Size: count.bytes, SHA256: count.hex()}, path: file.Name()}, err
}

// add takes a part into the archive; one that is there already is there once.
func (x *exporting) add(part spooled) error {
	if _, there := x.parts[part.Name]; there {
		return os.Remove(part.path)
	}
	x.parts[part.Name] = part
	x.manifest.Parts = append(x.manifest.Parts, part.Part)
	return nil
}

// write puts the archive into place, as a whole.
func (x *exporting) write(ctx context.Context) (*Exported, error) {
	failed := func(err error) error {
		do := "make room on its disk, or name another file with -o"
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			do = "name a file with -o in a directory that you can write to"
		}
		return &Error{Kind: Infrastructure, Tried: "write the archive", On: x.file, Why: err, Do: do}
	}
	target := absolute(x.file)
	sweep(target, false, func(left *os.File) error { return os.Remove(left.Name()) }, x.warn)
	temp, err := begin(target, os.CreateTemp)
	if err != nil {
		return nil, failed(err)
	}
	defer os.Remove(temp.Name()) // which has another name when all went well
	defer temp.Close()           // not before: it holds the lock
	count := &summed{to: temp, digest: sha256.New()}
	err = archive.Write(&writerUntil{ctx, count}, &x.manifest, func(p archive.Part) (io.ReadCloser, error) { return os.Open(x.parts[p.Name].path) })
	if err == nil {
		err = temp.Sync()
	}
	if err == nil {
		err = renameNew(temp.Name(), target)
	}
	if err != nil {
		return nil, failed(err)
	}
	if err := syncParent(target); err != nil {
		x.warn("the archive is there, and a crash of the machine may take it: " + err.Error())
	}
	sum, err := x.manifest.Sum()
	return &Exported{File: x.file, Rows: len(x.manifest.Rows), Images: len(x.manifest.Images), States: len(x.manifest.States), Bytes: count.bytes, Archive: sum}, err
}

// writerUntil writes while somebody waits.
type writerUntil struct {
	ctx context.Context
	to  io.Writer
}

func (w *writerUntil) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.to.Write(p)
}
