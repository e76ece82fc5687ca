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

var errChangedMeanwhile = errors.New("its record is another than the one that was read first")

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

// notOfRun is what the part of a run's summaries never holds: anything but them,
// and what lies where none does.
func notOfRun() tree.Omission {
	return tree.Omission{NoLinks: true, Only: record.RunFiles(), Without: []string{record.ArtifactsDir, record.WorkspaceDraft, record.ImportedDir}}
}

// notOfFiles is what the part of a row's files never holds: the workspace, which
// is a part for itself, and the records of other rows.
func notOfFiles() tree.Omission {
	return tree.Omission{NoLinks: true, Top: []string{record.ArtifactsDir, record.WorkspaceDraft}, TopOnly: []string{record.TaskFile}}
}

// runFiles packs the summaries of the run.
func (x *exporting) runFiles(ctx context.Context) error {
	part, err := x.tree(ctx, x.run, "run.tar", tree.PackOptions{Plain: true, Omission: notOfRun(), Most: mostOfRow})
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

// mostLeftOut bounds the directories that are left out of a task directory: they
// are named in one message.
const mostLeftOut = 1000

func (x *exporting) warn(text string) {
	fmt.Fprintf(x.options.Notice, "warning: %s\n", policy.Neutral(text))
}
