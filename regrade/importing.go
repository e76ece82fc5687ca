package regrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"podgrade/isolation"
	"podgrade/isolation/tree"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/regrade/archive"
	"podgrade/tasks/record"
)

// ImportEngines is what an import needs of the isolation layer. Nothing in it
// opens a cell.
type ImportEngines interface {
	ImageByPin(ctx context.Context, pin oci.Pin) (isolation.Image, error)
	// HoldState keeps a state layer here until it is released; isolation.ErrNoState
	// where there is none.
	HoldState(diffID string) (release func(), err error)
	// UnpackTree and StockState read archives, LoadImage an image's layout.
	UnpackTree(ctx context.Context, from, dir *os.File, o tree.UnpackOptions) error
	StockState(ctx context.Context, from *os.File, image isolation.Image, stock isolation.Stock) error
	LoadImage(ctx context.Context, layout string, pin oci.Pin) (isolation.Image, error)
	// NoteState says that a row needs a state layer.
	NoteState(diffID, row string) error
	RemoveTree(ctx context.Context, dir *os.File) error
	TempDir() (string, error)
	Close() error
}

// ImportOptions say how an archive is taken in.
type ImportOptions struct {
	// Most is how many bytes an archive may have; 0: MostImported.
	Most   int64
	Start  func(context.Context) (ImportEngines, error)
	Notice io.Writer // safe to print
}

// MostImported is how large an archive may be when nobody says otherwise, in
// bytes.
const MostImported = 100 << 30

// ImportedRows is what an import put where.
type ImportedRows struct {
	Run     string   `json:"run"`     // the run directory
	Rows    []string `json:"rows"`    // row directories, relative to it
	Images  []string `json:"images"`  // ids of those that were loaded
	Kept    []string `json:"kept"`    // ids of those that were there
	States  []string `json:"states"`  // diff ids of those that were taken in
	Archive string   `json:"archive"` // sum of the manifest
}

// Import puts the rows of an archive into a new run directory, their images into
// Podman's store and their state layers into podgrade's. Every byte is compared
// with the manifest first; then all is unpacked beside the run directory, which
// gets its name last. The rows are as little trusted as any others.
func Import(ctx context.Context, file, run string, o ImportOptions) (*ImportedRows, error) {
	i := &importing{options: o, file: file, run: absolute(run), trees: map[string]carriedTree{}}
	i.result = ImportedRows{Rows: []string{}, Images: []string{}, Kept: []string{}, States: []string{}}
	if o.Most == 0 {
		i.options.Most = MostImported
	}
	imported, err := i.do(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, &Interrupted{What: "no run directory was made"}
	}
	return imported, err
}

type importing struct {
	options ImportOptions
	file    string
	run     string
	archive *archive.Reader
	engines ImportEngines
	stage   string // the run directory before it has its name
	trees   map[string]carriedTree
	result  ImportedRows
	needs   map[string][]string // rows that need a state layer
	after   map[string]bool     // state layers that hold what an agent changed
	held    []func()            // release the state layers, once it is noted which rows need them
}

// carriedTree is a task directory or a reference that was unpacked.
type carriedTree struct{ name, digest string }

func (i *importing) refuse(why error, do string) error {
	return &Error{Kind: Refused, Tried: "import", On: i.file, Why: why, Do: do}
}

func (i *importing) failed(why error) error {
	do := "see that " + filepath.Dir(i.run) + " can be written to, and import it again"
	if isFull(why) {
		do = "free some space on the disk, and import it again"
	}
	return &Error{Kind: Infrastructure, Tried: "import", On: i.file, Why: why, Do: do}
}

// damaged explains an error of the reader.
func (i *importing) damaged(err error) error {
	var damaged *archive.Damaged
	switch {
	case errors.As(err, &damaged):
		return i.refuse(err, "get the file again from where it was exported; nothing of it was used")
	case errors.Is(err, archive.ErrNoArchive):
		return i.refuse(err, "name a file that podgrade export wrote")
	case errors.Is(err, context.Canceled):
		return err
	}
	return i.failed(err)
}

func (i *importing) do(ctx context.Context) (*ImportedRows, error) {
	file, err := openArchive(i.file)
	if err != nil {
		return nil, &Error{Kind: User, Tried: "import", On: i.file, Why: err, Do: "name a file that podgrade export wrote"}
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, i.failed(err)
	}
	if info.Size() > i.options.Most {
		return nil, i.refuse(fmt.Errorf("it has %d bytes, the limit is %d", info.Size(), i.options.Most), "raise the limit with --max-size")
	}
	if i.archive, err = archive.Open(file, info.Size()); err != nil {
		return nil, i.damaged(err)
	}
	if err := i.checkPlaces(); err != nil {
		return nil, err
	}
	if err := i.archive.Verify(ctx, nil); err != nil {
		return nil, i.damaged(err)
	}
	if i.engines, err = i.options.Start(ctx); err != nil {
		return nil, err
	}
	err = i.place(ctx)
	if err = errors.Join(err, i.engines.Close()); err != nil {
		return nil, err
	}
	return &i.result, nil
}

// openArchive opens a regular file: all of it is read before any of it is used.
func openArchive(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// checkPlaces refuses what cannot be put anywhere.
func (i *importing) checkPlaces() error {
	entries, err := os.ReadDir(i.run)
	if err == nil && len(entries) > 0 {
		err = errors.New("something is there already")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &Error{Kind: User, Tried: "make the run directory", On: i.run, Why: err, Do: "name a new directory with -o"}
	}
	var paths []string
	for _, row := range i.archive.Manifest.Rows {
		paths = append(paths, idOf(row).String()+"/")
	}
	slices.Sort(paths)
	for n := 1; n < len(paths); n++ {
		if strings.HasPrefix(paths[n], paths[n-1]) {
			return i.refuse(fmt.Errorf("the row %s would lie in the row %s", paths[n], paths[n-1]), "export the rows one by one")
		}
	}
	if len(unfinished(i.run, true)) > 0 { // which are removed first
		return nil
	}
	return i.checkRoom()
}

// checkRoom refuses what the disk has no room for.
func (i *importing) checkRoom() error {
	var room unix.Statfs_t
	parent := filepath.Dir(i.run)
	if err := unix.Statfs(parent, &room); err != nil {
		return &Error{Kind: User, Tried: "make the run directory", On: i.run, Why: err, Do: "make the directory that it lies in"}
	}
	var needed, entries int64
	for _, p := range i.archive.Manifest.Parts {
		if strings.HasSuffix(p.Name, ".tar") {
			needed += p.Size
			entries += int64(p.Entries)
		}
	}
	// A file system that makes inodes as they are needed says that it has none.
	if room.Files > 0 && uint64(entries) > room.Ffree {
		return &Error{Kind: Infrastructure, Tried: "make the run directory", On: i.run,
			Why: fmt.Errorf("it takes up to %d files, and its disk has room for %d", entries, room.Ffree), Do: "make room, or name another place with -o"}
	}
	if free := int64(room.Bavail) * room.Bsize; needed > free {
		return &Error{Kind: Infrastructure, Tried: "make the run directory", On: i.run,
			Why: fmt.Errorf("it takes up to %d bytes, and its disk has %d left", needed, free), Do: "make room, or name another place with -o"}
	}
	return nil
}

func idOf(row archive.Row) record.Identity {
	return record.Identity{VariantID: row.VariantID, TaskID: row.TaskID, Replicate: row.Replicate}
}

// place puts everything in its place, the run directory last.
func (i *importing) place(ctx context.Context) (err error) {
	i.result.Archive, i.needs, i.after = i.archive.Sum, map[string][]string{}, map[string]bool{}
	sweep(i.run, true, func(left *os.File) error { return i.removeTree(ctx, left) }, i.warn)
	if err := i.checkRoom(); err != nil {
		return err
	}
	locked, err := begin(i.run, newDirectory)
	if err != nil {
		return i.failed(err)
	}
	defer locked.Close()
	i.stage = locked.Name()
	defer func() {
		if err != nil {
			err = errors.Join(err, i.unstage(context.WithoutCancel(ctx)))
		}
	}()
	if i.stage, err = filepath.EvalSymlinks(i.stage); err != nil {
		return i.failed(err)
	}
	if part := i.archive.Manifest.Run; part != "" {
		if err := i.unpack(ctx, part, i.stage, tree.UnpackOptions{Plain: true, Omission: notOfRun()}); err != nil {
			return err
		}
	}
	defer i.release()
	for _, row := range i.archive.Manifest.Rows {
		if err := i.row(ctx, row); err != nil {
			return err
		}
	}
	if err := i.nothingElse(); err != nil {
		return err
	}
	if err := i.summary(); err != nil {
		return err
	}
	if err := i.images(ctx); err != nil {
		return err
	}
	if err := i.states(ctx); err != nil {
		return err
	}
	return i.name()
}

// nothingElse refuses rows that lie in the run directory and that the manifest
// does not announce: nobody has looked at their records.
func (i *importing) nothingElse() error {
	found, err := record.RowDirs(i.stage)
	if err != nil {
		return i.failed(err)
	}
	announced := map[string]bool{}
	for _, row := range i.result.Rows {
		announced[row] = true
	}
	for _, dir := range found {
		if !announced[dir] {
			return i.refuse(fmt.Errorf("its files hold the row %s, which its manifest does not announce", policy.Neutral(dir)), "nothing of it was used")
		}
	}
	return nil
}

// unstage removes what was unpacked.
func (i *importing) unstage(ctx context.Context) error {
	dir, err := os.Open(i.stage)
	if err != nil {
		return err
	}
	defer dir.Close()
	return i.removeTree(ctx, dir)
}

func (i *importing) removeTree(ctx context.Context, dir *os.File) error {
	return errors.Join(i.engines.RemoveTree(ctx, dir), os.Remove(dir.Name()))
}

// name gives the run directory its name. Only the caller may look into it: an
// archive may hold programs with the set-user-id bit, which would be his.
func (i *importing) name() error {
	err := os.Chmod(i.stage, 0o700)
	if err == nil {
		err = os.Remove(i.run) // an empty directory
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = renameNew(i.stage, i.run)
	}
	if err != nil {
		return i.failed(err)
	}
	i.result.Run = i.run
	if err := syncParent(i.run); err != nil {
		i.warn("the run directory is there, and a crash of the machine may take it: " + err.Error())
	}
	for state, rows := range i.needs {
		for _, row := range rows {
			if err := i.engines.NoteState(state, filepath.Join(i.run, row)); err != nil {
				i.warn("the state layer " + state + ", which the row " + row + " needs, is gone or does not know it: " + err.Error() + "; import the archive again before the row is graded")
			}
		}
	}
	return nil
}

// release lets the state layers be pruned.
func (i *importing) release() {
	for _, release := range i.held {
		release()
	}
}

func (i *importing) warn(text string) {
	fmt.Fprintf(i.options.Notice, "warning: %s\n", policy.Neutral(text))
}

// unpack makes the tree of a part in an empty directory. What it reads is
// compared with the manifest again: the file may have changed meanwhile.
func (i *importing) unpack(ctx context.Context, part, dir string, o tree.UnpackOptions) error {
	p := i.archive.Part(part)
	o.Most = tree.Bound{Entries: p.Entries, Bytes: p.Size}
	to, err := isolation.OpenTree(dir)
	if err != nil {
		return i.failed(err)
	}
	defer to.Close()
	err = i.stream(ctx, part, func(from *os.File) error { return i.engines.UnpackTree(ctx, from, to, o) })
	if err != nil {
		return fmt.Errorf("%s of %s: %w", part, policy.Neutral(i.file), err)
	}
	return nil
}

// stream lets somebody read a part.
func (i *importing) stream(ctx context.Context, part string, read func(from *os.File) error) error {
	from, to, err := os.Pipe()
	if err != nil {
		return i.failed(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	copied := make(chan error, 1)
	go func() {
		err := i.archive.Copy(ctx, part, to)
		to.Close()
		copied <- err
	}()
	err = read(from)
	// Who stopped reading must not leave the writer waiting.
	from.Close()
	copying := <-copied
	var damaged *archive.Damaged
	switch {
	case errors.As(copying, &damaged):
		return i.damaged(copying)
	case err != nil:
		return err
	case copying != nil && !errors.Is(copying, unix.EPIPE):
		return i.failed(copying)
	}
	return nil
}
