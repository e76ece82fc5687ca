package isolation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/distribution/reference"

	"podgrade/oci"
)

// ImportFile makes images of a tar archive: of a root file system one image of
// one layer, as Import does; of what `docker save` wrote, and of an OCI
// archive, the images that it holds, under the names that it gives them. Where
// an archive holds one image it gets the reference as a name too. The archive
// may be compressed, and file a pipe. One of more than most bytes is refused;
// 0: MostArchive.
func (h *Host) ImportFile(ctx context.Context, file *os.File, most int64, name string, config ImageConfig) ([]oci.Pin, error) {
	if err := checkImport(name, config); err != nil {
		return nil, err
	}
	if most == 0 {
		most = MostArchive
	}
	whole, err := h.seekable(ctx, file, most)
	var refused *Fault
	switch {
	case errors.As(err, &refused):
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, &Fault{Tried: "read the archive", On: file.Name(), Why: err, Do: "check that there is space in the scratch directory"}
	}
	defer whole.Close()
	kind, err := kindOfArchive(whole)
	if err != nil {
		return nil, &Fault{Kind: Refusal, Tried: "import an image", On: "from " + file.Name(), Why: err,
			Do: "name a tar archive of a root file system, of docker save, or an OCI archive"}
	}
	if kind == imageArchive {
		return h.load(ctx, whole, file.Name(), most, name, config)
	}
	if name == "" {
		return nil, &Fault{Kind: Refusal, Tried: "import an image", On: "from " + file.Name(),
			Why: errors.New("it holds a root file system, which names no image"), Do: "add the image's name, as REGISTRY/NAME:TAG"}
	}
	if _, err := whole.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	pin, err := h.Import(ctx, whole, name, config)
	if err != nil {
		return nil, err
	}
	return []oci.Pin{pin}, nil
}

// spool copies a stream into a file without a name, and leaves it at its
// beginning.
func (h *Host) spool(ctx context.Context, r io.Reader, from string, most int64) (*os.File, error) {
	file, err := os.CreateTemp(h.run.dir, "archive-")
	if err != nil {
		return nil, err
	}
	if err = copyBounded(ctx, file, r, from, most); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err = errors.Join(err, os.Remove(file.Name())); err != nil {
		file.Close()
	}
	return file, err
}

// load has Podman load an image archive.
func (h *Host) load(ctx context.Context, archive *os.File, from string, most int64, name string, config ImageConfig) ([]oci.Pin, error) {
	if len(config.changes()) > 0 || config.Platform != "" {
		return nil, &Fault{Kind: Refusal, Tried: "import an image", On: "from " + from,
			Why: errors.New("it holds an image with a configuration of its own"), Do: "leave out --user, --env and --platform, or build on the image with podgrade images build"}
	}
	names, err := h.podmanLoad(ctx, archive, from, most)
	var refused *Fault
	switch {
	case errors.As(err, &refused):
		return nil, err
	case err != nil:
		return nil, &Fault{Tried: "import an image", On: "from " + from, Why: err, Do: "check that the archive is whole: podgrade images import takes what docker save and podman save wrote"}
	}
	if name != "" && len(names) > 1 {
		return nil, &Fault{Kind: Refusal, Tried: "name the image", On: name,
			Why: fmt.Errorf("the archive holds %d images, which are in the store now as %s", len(names), strings.Join(names, ", ")), Do: "leave out the reference"}
	}
	var pins []oci.Pin
	for _, loaded := range names {
		image, err := h.Image(ctx, loaded)
		if err == nil && name != "" {
			err = h.tag(ctx, image, name)
			image.Pin.Reference = name
		}
		if err != nil {
			return nil, err
		}
		pins = append(pins, image.Pin)
	}
	return pins, nil
}

// loadedLine begins the lines in which podman load names what it loaded.
const loadedLine = "Loaded image"

// podmanLoad returns the names of the images of an archive, or their ids where
// it gives them none.
func (h *Host) podmanLoad(ctx context.Context, archive *os.File, from string, most int64) ([]string, error) {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	plain, err := decompress(archive)
	if err != nil {
		return nil, err
	}
	if plain != io.Reader(archive) { // Podman knows some compressions only
		if archive, err = h.spool(ctx, plain, from, most); err != nil {
			return nil, err
		}
		defer archive.Close()
	}
	out, said, code, err := h.runPodmanOn(ctx, archive, "load", "--quiet")
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, saidByPodman(errors.New(said))
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		// "Loaded image: NAME", of old versions "Loaded image(s): NAME,NAME"
		if _, list, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(line, loadedLine) {
			for name := range strings.SplitSeq(strings.TrimSpace(list), ",") {
				names = append(names, strings.TrimPrefix(name, "sha256:"))
			}
		}
	}
	if len(names) == 0 {
		return nil, errors.New("podman load named no image")
	}
	return names, nil
}

func (h *Host) tag(ctx context.Context, image Image, name string) error {
	_, err := h.podmanSays(ctx, "tag", image.Pin.ID, name)
	if err != nil {
		return &Fault{Tried: "name the image", On: name, Why: err, Do: "see what `podman tag` says"}
	}
	return nil
}

// Forms of what an imported image says about itself. Podman takes nearly
// anything, and the cell would be refused later, or be another one than meant.
var (
	platformForm = regexp.MustCompile(`^linux/(386|amd64|arm|arm64|loong64|mips64le|ppc64le|riscv64|s390x)(/v[0-9]{1,2})?$`)
	userForm     = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]{0,63}\$?|[0-9]{1,10})(:([A-Za-z_][A-Za-z0-9_.-]{0,63}|[0-9]{1,10}))?$`)
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
)

// checkImport refuses a name and a configuration that make no sense.
func checkImport(name string, config ImageConfig) error {
	refuse := func(on string, why error, do string) error {
		return &Fault{Kind: Refusal, Tried: "import an image", On: on, Why: why, Do: do}
	}
	if name != "" {
		if err := checkReference(name); err != nil {
			return err
		}
	}
	if config.Platform != "" && !platformForm.MatchString(config.Platform) {
		return refuse(fmt.Sprintf("for the platform %q", config.Platform), errors.New("a cell runs no such platform"), "write it as linux/ARCH or linux/ARCH/VARIANT, such as linux/arm64/v8")
	}
	if config.User != "" && !userForm.MatchString(config.User) {
		return refuse(fmt.Sprintf("with the user %q", config.User), errors.New("that is no user"), "write it as NAME, UID, NAME:GROUP or UID:GID")
	}
	for _, entry := range config.Env {
		if !variableForm.MatchString(entry) {
			return refuse(fmt.Sprintf("with the variable %q", entry), errors.New("that is no variable"), "write it as NAME=VALUE")
		}
		if strings.ContainsAny(entry, "\x00\r\n") {
			return refuse(fmt.Sprintf("with the variable %q", entry), errors.New("an image's variable has one line"), "leave the line feed out")
		}
	}
	return nil
}

// checkReference refuses a name that an image cannot have.
func checkReference(name string) error {
	named, err := reference.ParseNormalizedNamed(name)
	if err == nil {
		if _, digested := named.(reference.Digested); digested {
			err = errors.New("a digest is found out, not given")
		}
	}
	if err != nil {
		return &Fault{Kind: Refusal, Tried: "name an image", On: name, Why: err, Do: "name it as REGISTRY/NAME:TAG, such as " + localDomain + "/NAME:1"}
	}
	return nil
}

// check refuses a build whose files are not there, by their names as the
// caller wrote them.
func (b *BuildOrder) check() error {
	refuse := func(on string, why error, do string) error {
		return &Fault{Kind: Refusal, Tried: "build the image", On: on, Why: why, Do: do}
	}
	if err := checkReference(b.Reference); err != nil {
		return err
	}
	for _, path := range []string{b.ContextDir, b.Containerfile} {
		if err := nameFault(path); err != nil {
			return refuse("from "+strconv.QuoteToASCII(path), err, "rename it")
		}
	}
	info, err := os.Stat(b.ContextDir)
	switch {
	case err != nil:
		return refuse("in the context "+b.ContextDir, errors.Unwrap(err), "name a directory that is there")
	case !info.IsDir():
		return refuse("in the context "+b.ContextDir, errors.New("it is no directory"), "name a directory")
	}
	info, err = os.Stat(b.Containerfile)
	switch {
	case err != nil:
		return refuse("from the Containerfile "+b.Containerfile, errors.Unwrap(err), "name a file that is there; the path counts from here, not from the context")
	case !info.Mode().IsRegular():
		return refuse("from the Containerfile "+b.Containerfile, errors.New("it is no regular file"), "name a file")
	}
	if err := linesFit(b.Containerfile); err != nil {
		return refuse("from the Containerfile "+b.Containerfile, err, "write it in several lines, each but the last with a backslash at its end")
	}
	// The bindings would look for a relative path in the context.
	b.Containerfile, err = filepath.Abs(b.Containerfile)
	return err
}

// mostLine is what Podman reads of one line of a Containerfile, in bytes: it leaves out
// the rest of the file from a longer one on, and says nothing (seen with 4.3.1).
const mostLine = 64 << 10

// linesFit refuses a Containerfile of which Podman would read the beginning only.
func linesFit(containerfile string) error {
	file, err := os.Open(containerfile)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, mostLine)
	n := 1
	for ; lines.Scan(); n++ {
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d has %d bytes or more, and Podman would leave it out with all that follows", n, mostLine)
	}
	return lines.Err()
}
