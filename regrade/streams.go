package regrade

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"

	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// Names of a command's streams.
const (
	streamStdout = "stdout"
	streamStderr = "stderr"
)

// Bounds of what is kept of the commands of one grade, in bytes.
const (
	mostStream  = 16 << 20
	mostStreams = 128 << 20
)

// streamsIndex is the file that says what the others are.
const streamsIndex = "index.json"

// streams keep all that the commands of a grade print, where the record cuts it:
// a file for each stream, as it came.
type streams struct {
	mu    sync.Mutex
	files *record.Attachments
	room  int64
	kept  map[string]*stream
	order []string
	err   error // the first
}

// stream is what the index says of a file.
type stream struct {
	File   string `json:"file"`
	Of     string `json:"of"` // as in grade.log
	Stream string `json:"stream"`
	Bytes  int64  `json:"bytes"`  // that the command printed
	Kept   int64  `json:"kept"`   // of them, the first
	SHA256 string `json:"sha256"` // of all that was printed
}

func newStreams(row *record.Row) *streams {
	return &streams{files: row.Attach(record.CriterionLogs), room: mostStreams, kept: map[string]*stream{}}
}

// open begins a file. Where it cannot be written nothing is kept: no verdict
// depends on it.
func (s *streams) open(label, name string) io.Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	file := strings.ReplaceAll(label, " ", "-") + "." + name
	draft, err := s.files.Add(file)
	if err != nil {
		s.err = errors.Join(s.err, err)
		return io.Discard
	}
	if s.kept[file] == nil {
		s.order = append(s.order, file)
	}
	s.kept[file] = &stream{File: file, Of: label, Stream: name}
	return &streamWriter{all: s, to: draft, of: s.kept[file]}
}

// ended notes what a stream came to.
func (s *streams) ended(label, name string, out criteria.Output) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, each := range s.kept {
		if each.Of == label && each.Stream == name {
			each.Bytes, each.SHA256 = out.Bytes, out.SHA256
		}
	}
}

// close puts the files and their index into the row, or drops them.
func (s *streams) close(keep bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !keep {
		s.files.Drop()
		return nil
	}
	if len(s.order) > 0 {
		s.err = errors.Join(s.err, s.index())
	}
	return errors.Join(s.err, s.files.Publish())
}

func (s *streams) index() error {
	var list []*stream
	for _, file := range s.order {
		list = append(list, s.kept[file])
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	draft, err := s.files.Add(streamsIndex)
	if err == nil {
		_, err = draft.Write(append(text, '\n'))
	}
	return err
}

// streamWriter writes the head of one stream.
type streamWriter struct {
	all *streams
	to  io.Writer
	of  *stream
}

// Write never fails: a full disk must not change a verdict.
func (w *streamWriter) Write(p []byte) (int, error) {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	part := p[:min(int64(len(p)), w.all.room, mostStream-w.of.Kept)]
	n, err := w.to.Write(part)
	w.of.Kept += int64(n)
	w.all.room -= int64(n)
	if err != nil {
		w.all.room = 0
		w.all.err = errors.Join(w.all.err, err)
	}
	return len(p), nil
}
