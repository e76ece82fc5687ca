package regrade

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"podgrade/isolation"
	"podgrade/isolation/tree"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/regrade/archive"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// ExportEngines is what an export needs of the isolation layer. Nothing in it
// opens a cell.
type ExportEngines interface {
	ImageByPin(ctx context.Context, pin oci.Pin) (isolation.Image, error)
	// PackTree and PackState write archives, and SaveImage the files of an image.
	PackTree(ctx context.Context, dir *os.File, o tree.PackOptions, to io.Writer) (tree.Packed, error)
	PackState(ctx context.Context, diffID string, to io.Writer) (tree.Packed, error)
	SaveImage(ctx context.Context, image isolation.Image, dir string) error
	// TempDir makes a directory that goes with the engines.
	TempDir() (string, error)
	Close() error
}

// ExportOptions say what travels.
type ExportOptions struct {
	// Paths accepts that the directories which the records name are read.
	Paths bool
	// Policy is the operator's policy file; nil: there is none.
	Policy *policy.File
	// Keys and Scratch are what no archive holds anything of: this user's signing
	// key, and podgrade's own data.
	Keys    *policy.Keys
	Scratch string
	// WithoutImages leaves the images out: whoever imports the rows must have
	// them.
	WithoutImages bool
	Start         func(context.Context) (ExportEngines, error)
	Notice        io.Writer // receives what is taken and what is left out, safe to print
	Lookup        func(name string) (string, bool)
	Version       string
}

// Exported is what an archive holds.
type Exported struct {
	File    string `json:"file"`
	Rows    int    `json:"rows"`
	Images  int    `json:"images"`
	States  int    `json:"states"`
	Bytes   int64  `json:"bytes"`  // of the file
	Archive string `json:"sha256"` // of its manifest, which names all that is in it
}

// Export writes a row, or all rows of a run, into one file: records, workspaces,
// logs, what their tasks bring along, images and state layers. Nothing of that
// name may be there; when it fails nothing is.
func Export(ctx context.Context, dir, file string, o ExportOptions) (*Exported, error) {
	x := &exporting{options: o, target: dir, file: file, trees: map[string]string{}, parts: map[string]spooled{}, images: map[string]isolation.Image{}, manifests: map[string]builtOn{}}
	if err := x.prepare(); err != nil {
		return nil, err
	}
	exported, err := x.export(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, &Interrupted{What: "no archive was made"}
	}
	return exported, err
}

type exporting struct {
	options  ExportOptions
	target   string
	file     string
	run      string // directory of the run; "": a row alone travels
	rows     []leaving
	engines  ExportEngines
	dir      string // where parts lie until they are written
	manifest archive.Manifest

	parts     map[string]spooled // by name
	trees     map[string]string  // part of a directory of this host
	images    map[string]isolation.Image
	manifests map[string]builtOn // of images, by id
}

// leaving is a row on its way. Its record is read again when it is packed: of
// many rows not all records are held.
type leaving struct {
	in      string            // relative to the run
	dir     string            // absolute, every link resolved
	sum     [sha256.Size]byte // of the record that was consented to
	id      record.Identity
	carried policy.Carried
}

// spooled is a part that lies in a file until it is written.
type spooled struct {
	archive.Part
	path string
}

// mostExported bounds the rows of one archive.
const mostExported = 10_000

// prepare does all that needs no engine: it reads the records and asks for
// consent.
func (x *exporting) prepare() error {
	if _, err := os.Lstat(x.file); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = errors.New("it is there already")
		}
		return &Error{Kind: User, Tried: "write the archive", On: x.file, Why: err, Do: "name another file with -o"}
	}
	dirs := []string{"."}
	if rows := rowsBelow(x.target); rows != nil {
		run, err := filepath.EvalSymlinks(absolute(x.target))
		if err != nil {
			return exportError(x.target, err)
		}
		dirs, x.run = rows, run
	}
	if len(dirs) > mostExported {
		return exportError(x.target, fmt.Errorf("it holds %d rows, an archive at most %d", len(dirs), mostExported))
	}
	for _, dir := range dirs {
		leaving, err := x.read(dir)
		if err != nil {
			return err
		}
		x.rows = append(x.rows, leaving)
	}
	return nil
}

func exportError(on string, why error) error {
	return &Error{Kind: Refused, Tried: "export", On: on, Why: why, Do: "name a row directory or a run directory"}
}

// read reads the record of a row and asks for what it brings along.
func (x *exporting) read(dir string) (leaving, error) {
	row, err := x.open(dir)
	if err != nil {
		return leaving{}, err
	}
	defer row.Close()
	rec, text, err := row.Read()
	if errors.Is(err, record.ErrNoRecord) {
		return leaving{}, withoutRecord("export", row.Dir)
	}
	if errors.Is(err, record.ErrNoRecord) {
		return leaving{}, withoutRecord("export", row.Dir)
	}
	if err != nil {
		return leaving{}, exportError(row.Dir, err)
	}
	l := leaving{in: dir, dir: row.Dir, sum: sha256.Sum256(text), id: identityOf(row, rec)}
	l.carried, err = x.consent(l, rec)
	return l, err
}

// open opens a row: of a run without following a link.
func (x *exporting) open(dir string) (*record.Row, error) {
	if x.run == "" {
		return OpenRow(x.target)
	}
	row, err := record.OpenRowDir(x.run, dir)
	if err != nil {
		return nil, exportError(filepath.Join(x.run, dir), err)
	}
	return row, nil
}

// claimed is a row that nobody grades.
type claimed struct {
	*record.Row
	record  *record.Record
	text    []byte // of the record
	release func()
}

func (c *claimed) close() {
	c.release()
	c.Close()
}

// claim keeps grades of a row out, and refuses a record that is not the one that
// was consented to.
func (x *exporting) claim(ctx context.Context, l leaving) (*claimed, error) {
	row, err := x.open(l.in)
	if err != nil {
		return nil, err
	}
	c := &claimed{Row: row, release: func() {}}
	release, err := row.Claim(ctx, func() {
		fmt.Fprintf(x.options.Notice, "waiting for a grade of %s\n", policy.Neutral(row.Dir))
	})
	if err != nil {
		c.close()
		return nil, &Error{Kind: Infrastructure, Tried: "export", On: l.dir, Why: err, Do: "wait until it is graded, and export it again"}
	}
	c.release = release
	c.record, c.text, err = row.Read()
	if err == nil && (row.Dir != l.dir || sha256.Sum256(c.text) != l.sum) {
		err = errChangedMeanwhile
	}
	if err != nil {
		c.close()
		return nil, changedRow(l.dir, err)
	}
	return c, nil
}

var errChangedMeanwhile = errors.New("its record is another than the one that was read first")

func changedRow(on string, why error) error {
	return &Error{Kind: Refused, Tried: "export", On: on, Why: why, Do: "wait until nothing works on the row, and export it again"}
}

// consent asks for the directories of this host that the record names.
func (x *exporting) consent(l leaving, rec *record.Record) (policy.Carried, error) {
	config, err := rec.TaskConfig()
	if errors.Is(err, record.ErrNoTaskConfig) {
		fmt.Fprintf(x.options.Notice, "warning: %s: the record holds no task, so nothing is taken along for it\n", policy.Neutral(l.id.String()))
		return policy.Carried{}, nil
	}
	if err != nil {
		return policy.Carried{}, exportError(l.dir, err)
	}
	task, err := tasks.FromRecord(config.Resolved)
	if err != nil {
		return policy.Carried{}, exportError(l.dir, err)
	}
	run := record.RunOf(l.dir, l.id)
	carried, err := policy.ConsentToCarry(policy.Request{
		Task: task, Phase: oci.Grade, Place: policy.InCell, TaskFile: config.SourceFile,
		Imported: importedBy(rec, run), RunDir: run, Lookup: x.options.Lookup, KeyDir: keyDirOf(x.options.Keys),
	}, policy.Answer{RecordedPaths: x.options.Paths, Policy: x.options.Policy}, x.options.Notice)
	if err != nil || carried.TaskDir == "" || rec.Environment.Text(record.TaskDir) != "" {
		return carried, err
	}
	// As a grade asks: the directory of something else must not be handed on.
	if err := isTaskFileOf(carried.TaskDir, config.SourceFile, task); err != nil {
		return carried, &Error{Kind: Refused, Tried: "take the recorded task file along", On: config.SourceFile, Why: err,
			Do: "put the task file of the run back there: the directory that it lies in is the task directory"}
	}
	return carried, nil
}

func (x *exporting) export(ctx context.Context) (exported *Exported, err error) {
	if x.engines, err = x.options.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.engines.Close()) }()
	if x.dir, err = x.engines.TempDir(); err != nil {
		return nil, spoolError(x.file, err)
	}
	defer os.RemoveAll(x.dir)
	x.manifest.MadeBy = "podgrade " + x.options.Version
	if x.run != "" {
		if err := x.runFiles(ctx); err != nil {
			return nil, err
		}
	}
	for _, l := range x.rows {
		if err := x.row(ctx, l); err != nil {
			return nil, err
		}
	}
	if err := x.layout(ctx); err != nil {
		return nil, err
	}
	return x.write(ctx)
}

func spoolError(on string, why error) error {
	return &Error{Kind: Infrastructure, Tried: "collect the parts of", On: on, Why: why, Do: "make room in the scratch directory, or choose another with --scratch"}
}

// notOfRun are directories in which no summary of a run lies.
func notOfRun() []string {
	return []string{record.ArtifactsDir, record.WorkspaceDraft, record.ImportedDir}
}

// notOfFiles are the names in a row directory that are no files of the row: the
// workspace is a part for itself.
func notOfFiles() []string { return []string{record.ArtifactsDir, record.WorkspaceDraft} }

// runFiles packs the summaries of the run.
func (x *exporting) runFiles(ctx context.Context) error {
	part, err := x.tree(ctx, x.run, "run.tar", tree.PackOptions{
		Plain: true, NoLinks: true, Only: record.RunFiles(), Most: mostOfRow,
		Without: notOfRun(),
	})
	x.manifest.Run = part
	return err
}

// idsOf are the identities of the directories that are there, wherever links lead
// to them.
func idsOf(dirs ...string) []tree.FileID {
	var ids []tree.FileID
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			ids = append(ids, tree.FileID{Dev: st.Dev, Ino: st.Ino})
		}
	}
	return ids
}

// mostOfRow bounds the files of a row and of a run, without the workspace; a
// workspace is as large as it is.
var mostOfRow = tree.Bound{Entries: 100_000, Bytes: 16 << 30}

// mostCarried bounds what a task brings along, as for a cell.
var mostCarried = tree.Bound{Entries: mostTreeEntries, Bytes: mostTreeBytes}

// row packs what belongs to a row. Nobody may grade it meanwhile.
func (x *exporting) row(ctx context.Context, l leaving) error {
	row, err := x.claim(ctx, l)
	if err != nil {
		return err
	}
	defer row.close()
	part := archive.Row{VariantID: l.id.VariantID, TaskID: l.id.TaskID, Replicate: l.id.Replicate}
	n := len(x.manifest.Rows)
	if part.Files, err = x.rowFiles(ctx, l.dir, archive.RowPart(n, archive.RowFiles)); err != nil {
		return err
	}
	if part.Workspace, err = x.workspace(ctx, l, row, archive.RowPart(n, archive.RowWorkspace)); err != nil {
		return err
	}
	if part.TaskDir, err = x.shared(ctx, l.carried.TaskDir, l); err != nil {
		return err
	}
	if part.Reference, err = x.shared(ctx, l.carried.Reference, l); err != nil {
		return err
	}
	if part.Image, part.States, err = x.cellOf(ctx, l.id, row.record.Environment); err != nil {
		return err
	}
	if !row.Unchanged(row.text) {
		return changedRow(l.dir, errChangedMeanwhile)
	}
	x.manifest.Rows = append(x.manifest.Rows, part)
	return nil
}

// rowFiles packs the files of the row directory: the record, logs, signatures,
// whatever there is, but not what a podgrade has half written.
func (x *exporting) rowFiles(ctx context.Context, dir, name string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", exportError(dir, err)
	}
	top := notOfFiles()
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") {
			top = append(top, e.Name())
		}
	}
	below := hiddenFrom("", x.options.Keys, x.options.Scratch)
	for _, other := range x.rows { // the id of a task may hold slashes
		if strings.HasPrefix(other.dir, dir+string(filepath.Separator)) {
			below = append(below, other.dir)
		}
	}
	return x.tree(ctx, dir, name, tree.PackOptions{Plain: true, NoLinks: true, Top: top, TopOnly: []string{record.TaskFile}, Skip: idsOf(below...), Most: mostOfRow})
}

// workspace packs the artifacts of a row, owners and all; "" when there are
// none.
func (x *exporting) workspace(ctx context.Context, l leaving, row *claimed, name string) (string, error) {
	dir := filepath.Join(l.dir, record.ArtifactsDir)
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(x.options.Notice, "warning: %s: there is no workspace to take along\n", policy.Neutral(l.id.String()))
		return "", nil
	}
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err == nil {
		err = liesIn(dir, row.Row, row.record)
	}
	if err != nil {
		return "", exportError(dir, err)
	}
	return x.tree(ctx, dir, name, tree.PackOptions{})
}

// liesIn refuses a workspace that is elsewhere in the row directory than where it
// is looked for once the row is elsewhere.
func liesIn(artifacts string, row *record.Row, rec *record.Record) error {
	found, err := findWorkspace(row, rec, "")
	if err != nil {
		return nil // a grade says so: what there is travels all the same
	}
	if found != artifacts && !strings.HasPrefix(found, artifacts+string(filepath.Separator)) {
		return fmt.Errorf("the workspace lies beside it, at %s", found)
	}
	return nil
}

// shared packs a directory that rows share, once.
func (x *exporting) shared(ctx context.Context, dir string, l leaving) (string, error) {
	if dir == "" {
		return "", nil
	}
	if name, done := x.trees[dir]; done {
		return name, nil
	}
	if err := refuseTaskDirOfRun(dir, record.RunOf(l.dir, l.id)); err != nil {
		return "", err
	}
	left, err := leftOut(dir, hiddenFrom(record.RunOf(l.dir, l.id), x.options.Keys, x.options.Scratch))
	if err != nil {
		return "", exportError(dir, err)
	}
	name, err := x.tree(ctx, dir, "", tree.PackOptions{Plain: true, Filter: true, Skip: idsOf(left...), Most: mostCarried})
	x.trees[dir] = name
	return name, err
}

// mostLeftOut bounds the directories that are left out of a task directory: they
// are named in one message.
const mostLeftOut = 1000

// leftOut are the directories below a task directory that are no part of the task:
// what is hidden, and runs, which hold what agents answered.
func leftOut(dir string, without hidden) ([]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var left []string
	entries := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if entries++; entries > mostTreeEntries || len(left) > mostLeftOut {
			return fmt.Errorf("it holds more than %d entries or %d runs", mostTreeEntries, mostLeftOut)
		}
		if err != nil || !entry.IsDir() || name == "." {
			return err
		}
		if without.hides(root, name, entry.Type()) {
			left = append(left, filepath.Join(dir, name))
			return fs.SkipDir
		}
		return nil
	})
	return left, err
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
		return &Error{Kind: Infrastructure, Tried: "write the archive", On: x.file, Why: err, Do: "make room on its disk, or name another file with -o"}
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

func (x *exporting) warn(text string) {
	fmt.Fprintf(x.options.Notice, "warning: %s\n", policy.Neutral(text))
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
