package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// MostArchive is how many bytes an archive of images may have, as it is and
// unpacked, when nobody says otherwise.
const MostArchive = 100 << 30

// CheckArchive refuses what is neither a regular file nor a pipe: a device, for
// one, may never end.
func CheckArchive(file *os.File) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case info.Mode().IsRegular(), info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0:
		return nil
	case info.IsDir():
		return errors.New("it is a directory")
	}
	return errors.New("it is neither a regular file nor a pipe")
}

// seekable is the file itself, or a copy where it is a pipe.
func (h *Host) seekable(ctx context.Context, file *os.File, most int64) (*os.File, error) {
	if err := CheckArchive(file); err != nil {
		return nil, &Fault{Kind: Refusal, Tried: "import an image", On: "from " + file.Name(), Why: err, Do: "name a tar archive"}
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		// A pipe into which nobody writes ends with the context.
		stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Now()) })
		defer stop()
		return h.spool(ctx, file, file.Name(), most)
	case info.Size() > most:
		return nil, tooLarge(file.Name(), fmt.Errorf("it has %d bytes, the limit is %d", info.Size(), most))
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
}

func tooLarge(from string, why error) error {
	return &Fault{Kind: Refusal, Tried: "import an image", On: "from " + from, Why: why, Do: "raise the limit with --max-size"}
}

// copyBounded copies a stream of at most so many bytes, as long as the context
// lasts.
func copyBounded(ctx context.Context, to io.Writer, r io.Reader, from string, most int64) error {
	copied, err := io.Copy(to, &whileWanted{ctx, io.LimitReader(r, most)})
	if err != nil || copied < most {
		return err
	}
	n, err := io.ReadFull(r, make([]byte, 1))
	switch {
	case n > 0:
		return tooLarge(from, fmt.Errorf("it has more than %d bytes, which is the limit, as it is or unpacked", most))
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// whileWanted reads until the context ends.
type whileWanted struct {
	ctx  context.Context
	from io.Reader
}

func (w *whileWanted) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.from.Read(p)
}
