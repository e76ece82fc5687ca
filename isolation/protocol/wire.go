package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// The JSON forms of the messages that carry bytes of any kind. The Go types
// stay plain strings: only the wire knows of the escapes.

// MarshalJSON writes the command with its strings escaped.
func (r Run) MarshalJSON() ([]byte, error) {
	type plain Run
	p := plain(r)
	p.Argv, p.Env, p.Dir = escapeAll(r.Argv), escapeAll(r.Env), escape(r.Dir)
	return marshal(p)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Run) UnmarshalJSON(data []byte) error {
	type plain Run
	var p plain
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	for _, list := range [][]string{p.Argv, p.Env} {
		if err := unescapeAll(list); err != nil {
			return err
		}
	}
	if err := unescapeEach(&p.Dir); err != nil {
		return err
	}
	*r = Run(p)
	return nil
}

// MarshalJSON writes the path with its names escaped.
func (p Path) MarshalJSON() ([]byte, error) {
	type plain Path
	q := plain(p)
	q.Base, q.Name = escape(p.Base), escape(p.Name)
	return marshal(q)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Path) UnmarshalJSON(data []byte) error {
	type plain Path
	var q plain
	if err := json.Unmarshal(data, &q); err != nil {
		return err
	}
	if err := unescapeEach(&q.Base, &q.Name); err != nil {
		return err
	}
	*p = Path(q)
	return nil
}

// plainPut is Put with a time as numbers, like plainFile.
type plainPut struct {
	Put     noPutMethods `json:"put"`
	ModTime *[2]int64    `json:"time,omitempty"`
}

// noPutMethods is Put without its JSON methods.
type noPutMethods Put

// MarshalJSON writes the entry with its target escaped and its time as numbers.
func (p Put) MarshalJSON() ([]byte, error) {
	plain := plainPut{Put: noPutMethods(p)}
	plain.Put.Target = escape(p.Target)
	if !p.ModTime.IsZero() {
		plain.ModTime = &[2]int64{p.ModTime.Unix(), int64(p.ModTime.Nanosecond())}
	}
	return marshal(plain)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Put) UnmarshalJSON(data []byte) error {
	var plain plainPut
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	if err := unescapeEach(&plain.Put.Target); err != nil {
		return err
	}
	*p = Put(plain.Put)
	if plain.ModTime != nil {
		p.ModTime = time.Unix(plain.ModTime[0], plain.ModTime[1]).UTC()
	}
	return nil
}

// MarshalJSON writes the process with its texts escaped.
func (p Process) MarshalJSON() ([]byte, error) {
	type plain Process
	q := plain(p)
	q.Name, q.Command = escape(p.Name), escape(p.Command)
	return marshal(q)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Process) UnmarshalJSON(data []byte) error {
	type plain Process
	var q plain
	if err := json.Unmarshal(data, &q); err != nil {
		return err
	}
	if err := unescapeEach(&q.Name, &q.Command); err != nil {
		return err
	}
	*p = Process(q)
	return nil
}

// plainFile is File with a time that JSON can carry whatever its year is:
// seconds and nanoseconds. A hostile file may be dated after the year 9999,
// which time.Time refuses to write.
type plainFile struct {
	File    noMethods `json:"file"`
	ModTime [2]int64  `json:"time"`
}

// noMethods is File without its JSON methods.
type noMethods File

// MarshalJSON writes the file with its names escaped and its time as numbers.
func (f File) MarshalJSON() ([]byte, error) {
	p := plainFile{File: noMethods(f), ModTime: [2]int64{f.ModTime.Unix(), int64(f.ModTime.Nanosecond())}}
	p.File.Name, p.File.Path = escape(f.Name), escape(f.Path)
	p.File.ModTime = time.Time{}
	return marshal(p)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *File) UnmarshalJSON(data []byte) error {
	var p plainFile
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	if err := unescapeEach(&p.File.Name, &p.File.Path); err != nil {
		return err
	}
	*f = File(p.File)
	f.ModTime = time.Unix(p.ModTime[0], p.ModTime[1]).UTC()
	return nil
}

// maxCalls bounds the system calls of one OpOpen.
const maxCalls = 64

// ParseHello reads the payload of a KindHello frame.
func ParseHello(payload []byte) (Hello, error) {
	var h Hello
	if err := json.Unmarshal(payload, &h); err != nil {
		return Hello{}, fmt.Errorf("%w: a hello cannot be read: %v", ErrFrame, err)
	}
	return h, nil
}

// ParseRequest reads the payload of a KindRequest frame and checks that the
// part which its operation needs is there.
func ParseRequest(payload []byte) (Request, error) {
	var q Request
	if err := json.Unmarshal(payload, &q); err != nil {
		return Request{}, fmt.Errorf("%w: a request cannot be read: %v", ErrFrame, err)
	}
	if q.Input && q.Op != OpRun && q.Op != OpPut {
		return Request{}, fmt.Errorf("%w: request %d (%s) takes no input", ErrFrame, q.ID, q.Op)
	}
	switch q.Op {
	case OpRun:
		if q.Run == nil || len(q.Run.Argv) == 0 || q.Run.Timeout < 0 {
			return Request{}, fmt.Errorf("%w: request %d runs nothing", ErrFrame, q.ID)
		}
	case OpStat, OpRead, OpList, OpRemove:
		if q.Path == nil || q.Path.Limit < 0 {
			return Request{}, fmt.Errorf("%w: request %d (%s) names no path", ErrFrame, q.ID, q.Op)
		}
	case OpPut:
		if q.Path == nil || q.Put == nil || !q.Put.valid() || q.Input != (q.Put.Type == Regular) {
			return Request{}, fmt.Errorf("%w: request %d puts nothing that can be made", ErrFrame, q.ID)
		}
	case OpResize:
		if q.Size == nil {
			return Request{}, fmt.Errorf("%w: request %d names no size", ErrFrame, q.ID)
		}
	case OpKillAll, OpRecord:
	case OpOpen:
		if len(q.Calls) == 0 || len(q.Calls) > maxCalls {
			return Request{}, fmt.Errorf("%w: request %d tries %d system calls", ErrFrame, q.ID, len(q.Calls))
		}
	default:
		return Request{}, fmt.Errorf("%w: request %d asks for %q, which is no operation", ErrFrame, q.ID, q.Op)
	}
	return q, nil
}

// valid tells whether it is one of the things that can be made.
func (p *Put) valid() bool {
	switch p.Type {
	case Regular, Directory:
		return p.Mode <= 0o7777 && p.Target == ""
	case Symlink:
		return p.Mode == 0 && p.Target != ""
	}
	return false
}

// ParseAnswer reads the payload of a KindAnswer frame.
func ParseAnswer(payload []byte) (Answer, error) {
	var a Answer
	if err := json.Unmarshal(payload, &a); err != nil {
		return Answer{}, fmt.Errorf("%w: an answer cannot be read: %v", ErrFrame, err)
	}
	return a, nil
}

// WriteJSON writes one frame whose payload is the JSON form of message.
func (w *Writer) WriteJSON(kind Kind, message any) error {
	data, err := marshal(message)
	if err != nil {
		return fmt.Errorf("%w: a %T cannot be written: %v", ErrFrame, message, err)
	}
	return w.Write(kind, data)
}

// marshal makes JSON that is for no page of HTML: < takes one byte and not six.
func marshal(message any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(message)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}
