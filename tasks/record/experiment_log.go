package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// mostLog bounds what the log of the run holds of one log of one row; the end
// is what is kept.
const mostLog = 4 << 20

// WriteExperimentLog joins the logs of the rows, in their order, each under a
// line that names it. A row without a log, or whose log is no plain file, is
// left out.
func WriteExperimentLog(runDir string, rows []Identity) error {
	root, err := os.OpenRoot(runDir)
	if err != nil {
		return err
	}
	defer root.Close()
	draft, err := newDraft(root, ExperimentLog)
	if err != nil {
		return err
	}
	for _, row := range rows {
		for _, name := range []string{TaskLog, GradeLog} {
			if err := copyLog(draft, root, path.Join(row.String(), name)); err != nil {
				draft.Drop()
				return err
			}
		}
	}
	return draft.Publish()
}

func copyLog(to io.Writer, root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil
	}
	left := ""
	if over := info.Size() - mostLog; over > 0 {
		if _, err := file.Seek(over, io.SeekStart); err != nil {
			return err
		}
		left = fmt.Sprintf(" (the last %d bytes)", mostLog)
	}
	if _, err := fmt.Fprintf(to, "==== %s%s\n", name, left); err != nil {
		return err
	}
	end := &lastByte{to: to, last: '\n'}
	if _, err := io.Copy(end, io.LimitReader(file, mostLog)); err != nil {
		return err
	}
	if end.last != '\n' {
		_, err = to.Write([]byte{'\n'})
	}
	return err
}

// lastByte knows whether a text ended with a line.
type lastByte struct {
	to   io.Writer
	last byte
}

func (w *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		w.last = p[len(p)-1]
	}
	return w.to.Write(p)
}
