package regrade

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
	"unicode/utf8"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks/record"
)

// rowBound is how much of what a grade's commands changed is kept in the row.
var rowBound = isolation.Bound{Listed: 500, Files: 100, File: 1 << 20, Bytes: 8 << 20}

// The files of record.GradeChanges: what changed, and the bytes of files.
const (
	changesIndex   = "index.json"
	changesArchive = "files.tar"
)

// changesFound is what cell.grade.json says of the changes.
type changesFound struct {
	isolation.Changed
	Kept        int    `json:"kept"`                   // files, in grade.changes
	KeptBytes   int64  `json:"kept_bytes"`             //
	IndexSHA256 string `json:"index_sha256,omitempty"` // which holds the digests of the files
	Problem     string `json:"problem,omitempty"`      // why this is not all, or nothing
}

// changeEntry is what an index says of one change.
type changeEntry struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"` // where the path is no text
	What      string `json:"what"`
	Type      string `json:"type"`
	Mode      string `json:"mode"` // octal
	Size      int64  `json:"size,omitempty"`
	Target    string `json:"target,omitempty"` // of a link
	// File is where the bytes are; "": they were not kept. Kept and SHA256 are of
	// what is there: fewer than Size where the file shrank meanwhile.
	File   string `json:"file,omitempty"`
	Kept   int64  `json:"kept,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

func entryOf(c isolation.Change) changeEntry {
	e := changeEntry{Path: string(c.Path), What: string(c.What), Type: string(c.Type), Mode: fmt.Sprintf("%04o", c.Mode), Size: c.Size, Target: string(c.Target)}
	if !utf8.Valid(c.Path) {
		e.PathBytes = c.Path
	}
	return e
}

// path is the path as it is, were it no text.
func (e changeEntry) path() string {
	if len(e.PathBytes) > 0 {
		return string(e.PathBytes)
	}
	return e.Path
}

// changesTaker takes changes one after another.
type changesTaker interface {
	// take keeps a change, and its bytes where there are some.
	take(e changeEntry, content io.Reader) error
	// finish puts the index beside the files.
	finish() error
}

// keepChanges keeps what the commands of a grade changed in their view of the
// workspace, within bounds: it is evidence of how they came to what they said.
// No verdict depends on it, so that what fails is a warning.
func (g *grading) keepChanges(ctx context.Context, spot *place) changesFound {
	row := &rowChanges{files: g.attachChanges()}
	g.changes = row
	takers := []changesTaker{row}
	bound := rowBound
	if g.keeper != nil {
		takers, bound = append(takers, g.keeper), keeperBound
	}
	found := changesFound{}
	switch {
	case g.options.Live != nil:
		found.Problem = "the criteria were asked in the agent's own cell: what they changed is in the workspace itself"
	case spot.commands.Load() > 0:
		var err error
		found.Changed, err = spot.changes(ctx, bound, takers)
		found.Problem = g.changesProblem(err)
	}
	for _, taker := range takers {
		if err := taker.finish(); err != nil {
			g.warn("not all of what commands changed could be kept: " + err.Error())
		}
	}
	found.Kept, found.KeptBytes, found.IndexSHA256 = row.kept, row.bytes, row.index
	found.Untold = max(0, found.Total()-len(row.entries))
	return found
}

// changesProblem tells of changes that could not be found. That there is
// nothing to compare with was asked for.
func (g *grading) changesProblem(err error) string {
	if err == nil {
		return ""
	}
	if !errors.Is(err, isolation.ErrNoChanges) {
		g.warn("what commands changed in the workspace could not be told: " + err.Error())
	}
	return policy.NeutralText(err.Error())
}

// attachChanges are the row's own; nil: nothing is written.
func (g *grading) attachChanges() *record.Attachments {
	if g.options.Check {
		return nil
	}
	return g.row.Attach(record.GradeChanges)
}

// changes hands the changes of the cell to all takers.
func (p *place) changes(ctx context.Context, bound isolation.Bound, takers []changesTaker) (isolation.Changed, error) {
	p.mu.Lock()
	cell := p.cell
	p.mu.Unlock()
	if cell == nil {
		return isolation.Changed{}, nil
	}
	return cell.Changes(ctx, bound, func(c isolation.Change, content io.Reader) error {
		return give(takers, entryOf(c), content)
	})
}

// give hands a change to each taker; its bytes can be read once.
func give(takers []changesTaker, e changeEntry, content io.Reader) error {
	if content == nil || len(takers) == 1 {
		var errs []error
		for _, taker := range takers {
			errs = append(errs, taker.take(e, content))
		}
		return errors.Join(errs...)
	}
	// The row's share is small enough to be held.
	head, err := io.ReadAll(io.LimitReader(content, rowBound.File+1))
	if err != nil {
		return err
	}
	return errors.Join(
		takers[0].take(e, bytes.NewReader(head)),
		takers[1].take(e, io.MultiReader(bytes.NewReader(head), content)),
	)
}

// rowChanges are the changes that the row keeps: an index, and the files as one
// archive.
type rowChanges struct {
	files   *record.Attachments // nil: nothing is written
	entries []changeEntry
	archive *tar.Writer // nil: no file was kept yet
	kept    int
	bytes   int64
	index   string // its digest
	failed  error  // the first, after which no bytes are kept
	broken  bool   // a write into the archive failed: it ends anywhere
}

func (r *rowChanges) take(e changeEntry, content io.Reader) error {
	if r.files == nil || len(r.entries) >= rowBound.Listed {
		return nil
	}
	if content != nil && r.failed == nil && e.Size <= rowBound.File && r.kept < rowBound.Files && r.bytes+e.Size <= rowBound.Bytes {
		r.failed = r.keep(&e, content)
	}
	r.entries = append(r.entries, e)
	return nil // what else is told has its use without these bytes
}

// keep adds the bytes of a file to the archive.
func (r *rowChanges) keep(e *changeEntry, content io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(content, e.Size))
	if err != nil {
		return err
	}
	if r.archive == nil {
		draft, err := r.files.Add(changesArchive)
		if err != nil {
			return err
		}
		r.archive = tar.NewWriter(draft)
	}
	header := &tar.Header{Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: e.path(), Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(0, 0)}
	err = r.archive.WriteHeader(header)
	if err == nil {
		_, err = r.archive.Write(text)
	}
	if err != nil {
		r.broken = true
		return err
	}
	sum := sha256.Sum256(text)
	e.File, e.Kept, e.SHA256 = changesArchive, int64(len(text)), hex.EncodeToString(sum[:])
	r.kept++
	r.bytes += e.Kept
	return nil
}

// finish completes the archive and writes the index; publish puts both into the
// row.
func (r *rowChanges) finish() error {
	if r.files == nil || len(r.entries) == 0 {
		return nil
	}
	if r.archive != nil {
		if err := r.archive.Close(); err != nil || r.broken {
			r.failed = errors.Join(r.failed, err)
			r.forgetFiles()
		}
	}
	text, err := indexOf(r.entries)
	if err == nil {
		var draft *record.Draft
		if draft, err = r.files.Add(changesIndex); err == nil {
			_, err = draft.Write(text)
		}
	}
	if err != nil { // files of which nothing is told, or half of it, are no evidence
		r.files.Forget(changesIndex)
		r.forgetFiles()
		return errors.Join(r.failed, err)
	}
	sum := sha256.Sum256(text)
	r.index = hex.EncodeToString(sum[:])
	return r.failed
}

// forgetFiles drops an archive that is not whole; the index says of no file then
// that its bytes are kept.
func (r *rowChanges) forgetFiles() {
	r.files.Forget(changesArchive)
	r.kept, r.bytes = 0, 0
	for n := range r.entries {
		e := &r.entries[n]
		e.File, e.Kept, e.SHA256 = "", 0, ""
	}
}

// publish takes the place of what an earlier grade kept.
func (r *rowChanges) publish() error {
	if r.files == nil {
		return nil
	}
	files := r.files
	r.files = nil
	return files.Publish()
}

// drop forgets what was not published.
func (r *rowChanges) drop() {
	if r != nil && r.files != nil {
		r.files.Drop()
		r.files = nil
	}
}

func indexOf(entries []changeEntry) ([]byte, error) {
	if entries == nil {
		entries = []changeEntry{}
	}
	text, err := json.MarshalIndent(entries, "", "  ")
	return append(text, '\n'), err
}

// summed counts and digests what goes through it.
type summed struct {
	to     io.Writer
	bytes  int64
	digest hash.Hash
}

func (s *summed) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.bytes += int64(n)
	s.digest.Write(p[:n])
	return n, err
}

func (s *summed) hex() string { return hex.EncodeToString(s.digest.Sum(nil)) }
