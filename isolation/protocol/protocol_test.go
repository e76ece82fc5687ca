package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestFramesRoundTrip(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	if err := w.Write(KindHello, []byte("he"), []byte("llo")); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteChunk(7, Stderr, []byte("chunk")); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(KindAnswer, make([]byte, MaxFrame-1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(KindAnswer, make([]byte, MaxFrame)); !errors.Is(err, ErrFrame) {
		t.Errorf("a frame above the limit: %v", err)
	}
	r := NewReader(&buf)
	if kind, payload, err := r.Read(); err != nil || kind != KindHello || string(payload) != "hello" {
		t.Errorf("got %q %q, %v", kind, payload, err)
	}
	kind, payload, err := r.Read()
	if err != nil || kind != KindOutput {
		t.Fatalf("got %q, %v", kind, err)
	}
	if id, stream, data, err := ParseChunk(kind, payload); err != nil || id != 7 || stream != Stderr || string(data) != "chunk" {
		t.Errorf("got %d %d %q, %v", id, stream, data, err)
	}
	if kind, payload, err := r.Read(); err != nil || kind != KindAnswer || len(payload) != MaxFrame-1 {
		t.Errorf("got %q with %d bytes, %v", kind, len(payload), err)
	}
	if _, _, err := r.Read(); err != io.EOF {
		t.Errorf("after the last frame: %v", err)
	}
}

func TestBrokenFrames(t *testing.T) {
	for name, input := range map[string]string{
		"torn header":  "\x00\x00",
		"torn length":  "\x00\x00\x00\x05",
		"torn payload": "\x00\x00\x00\x05Ahel",
		"empty":        "\x00\x00\x00\x00A",
		"too long":     "\x00\x10\x00\x01A",
		"huge":         "\xff\xff\xff\xffA",
	} {
		if _, _, err := NewReader(strings.NewReader(input)).Read(); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, payload := range []string{"", "\x00\x00\x00\x01", "\x00\x00\x00\x01\x00", "\x00\x00\x00\x01\x04"} {
		if _, _, _, err := ParseChunk(KindOutput, []byte(payload)); !errors.Is(err, ErrFrame) {
			t.Errorf("chunk %q: %v", payload, err)
		}
	}
	for _, payload := range []string{"", "\x00\x00\x00\x01", "\x00\x00\x00\x01\x03", "\x00\x00\x00\x01\x07"} {
		if _, _, _, err := ParseChunk(KindInput, []byte(payload)); !errors.Is(err, ErrFrame) {
			t.Errorf("input %q: %v", payload, err)
		}
	}
}

func TestEscape(t *testing.T) {
	for plain, want := range map[string]string{
		"":             "",
		"name":         "name",
		"ä€𝄞":          "ä€𝄞",
		"\uFFFD":       "\uFFFD",
		`a\b`:          `a\\b`,
		`\xff`:         `\\xff`,
		"\xff":         `\xff`,
		"a\xc3":        `a\xc3`,
		"\xed\xa0\x80": `\xed\xa0\x80`,
		"\n\x00\x7f":   "\n\x00\x7f",
	} {
		got := escape(plain)
		if got != want {
			t.Errorf("escape(%q) = %q, want %q", plain, got, want)
		}
		if back, err := unescape(got); err != nil || back != plain {
			t.Errorf("unescape(%q) = %q, %v", got, back, err)
		}
	}
	for _, broken := range []string{`\`, `\x`, `\xf`, `\xzz`, `\x+1`, `a\n`, `\\\`} {
		if got, err := unescape(broken); !errors.Is(err, ErrFrame) {
			t.Errorf("unescape(%q) = %q, %v", broken, got, err)
		}
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	run := Request{ID: math.MaxUint32, Op: OpRun, Run: &Run{
		Argv: []string{"sh", "-c", "printf '\\n\xff'"}, Env: []string{"A=\xff", "B=\\"}, Dir: "/\xfe", Umask: 0o22,
		Timeout: time.Minute, Limits: []Limit{{Resource: 7, Value: math.MaxUint64}},
		Landlock: true,
	}, Input: true}
	read := Request{ID: 1, Op: OpRead, Path: &Path{Base: "/w\xff", Name: "<\u2028>\xff", Limit: math.MaxInt64}}
	file := Request{Op: OpPut, Path: &Path{Base: "/", Name: "\xfe"}, Put: &Put{Type: Regular, Mode: 0o4755, ModTime: time.Unix(-1, 7).UTC()}, Input: true}
	link := Request{Op: OpPut, Path: &Path{Base: "/", Name: "a"}, Put: &Put{Type: Symlink, Target: "\xff\\"}}
	for _, q := range []Request{run, read, file, link, {Op: OpRemove, Path: &Path{Base: "/w"}}, {Op: OpKillAll}} {
		data, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseRequest(data); err != nil || !reflect.DeepEqual(got, q) {
			t.Errorf("got %+v, %v, want %+v", got, err, q)
		}
	}
	a := Answer{ID: 3, More: true, Files: []File{
		{Name: "a\xff", Path: "/w/\\", Type: Fifo, Mode: 0o7777, Size: math.MaxInt64, UID: math.MaxUint32, ModTime: time.Unix(1<<40, 999_999_999).UTC()},
		{Name: "b", Link: true, Type: Symlink, ModTime: time.Unix(-1, 1).UTC()},
	}, Kill: &KillCount{Stuck: true, Ended: []Process{{PID: 7, Name: "\xff)", Command: "a\\ b", Ports: []Port{{"udp6", 65535}}}}}}
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseAnswer(data); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("got %+v, %v, want %+v", got, err, a)
	}
}

func TestParseRequestRefuses(t *testing.T) {
	for _, payload := range []string{
		``, `[]`, `null`, `{}`, `{"op":"run"}`, `{"op":"run","run":{}}`, `{"op":"run","run":{"argv":["a"],"timeout":-1}}`,
		`{"op":"run","run":{"argv":["\\"]}}`, `{"op":"stat"}`, `{"op":"read","path":{"limit":-1}}`, `{"op":"list","path":{"name":"\\x"}}`,
		`{"op":"stat","path":{"base":"/"},"input":true}`, `{"op":"killall","input":true}`, `{"op":"remove"}`, `{"op":"put","path":{}}`,
		`{"op":"put","path":{},"put":{"put":{"type":"fifo"}}}`, `{"op":"put","path":{},"put":{"put":{"type":"regular"}}}`,
		`{"op":"put","path":{},"put":{"put":{"type":"directory"}},"input":true}`, `{"op":"put","path":{},"put":{"put":{"type":"symlink"}}}`,
		`{"op":"put","path":{},"put":{"put":{"type":"directory","mode":4096}}}`, `{"op":"put","path":{},"put":{"put":{"type":"symlink","target":"\\"}}}`,
		`{"op":"RUN","run":{"argv":["a"]}}`, `{"id":-1,"op":"killall"}`, `{"id":4294967296,"op":"killall"}`,
	} {
		if q, err := ParseRequest([]byte(payload)); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: got %+v, %v", payload, q, err)
		}
	}
}

// FuzzReader reads frames from any bytes, as a supervisor that went mad might
// send them: no crash, and no more memory than one frame.
func FuzzReader(f *testing.F) {
	var seed bytes.Buffer
	w := NewWriter(&seed)
	for _, err := range []error{
		w.WriteJSON(KindHello, Hello{Version: Version, Nonce: "n"}),
		w.WriteChunk(1, Stdout, []byte("out")),
		w.WriteChunk(1, InputEnd, []byte("in")),
		w.WriteJSON(KindAnswer, Answer{ID: 1, Exit: &Exit{Code: 1}}),
		w.WriteJSON(KindAnswer, Answer{ID: 1, Files: []File{{Name: "\xff"}}}),
		w.WriteJSON(KindAnswer, Answer{ID: 1, Kill: &KillCount{Ended: []Process{{Name: "\xff", Ports: []Port{{"tcp", 80}}}}}}),
	} {
		if err != nil {
			f.Fatal(err)
		}
	}
	f.Add(seed.Bytes())
	f.Add([]byte("\x00\x10\x00\x00A"))
	f.Add([]byte("\xff\xff\xff\xffA{}"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, input []byte) {
		r := NewReader(bytes.NewReader(input))
		for total := 0; ; {
			kind, payload, err := r.Read()
			if err != nil {
				if err != io.EOF && !errors.Is(err, ErrFrame) {
					t.Fatalf("an error of another kind: %v", err)
				}
				return
			}
			if total += 5 + len(payload); total > len(input) || cap(r.buf) > MaxFrame {
				t.Fatalf("%d bytes of frames, a buffer of %d, from %d bytes", total, cap(r.buf), len(input))
			}
			switch kind {
			case KindOutput, KindInput:
				_, _, data, err := ParseChunk(kind, payload)
				if err == nil && len(data) != len(payload)-chunkHeader {
					t.Fatalf("%d bytes in a chunk of %d", len(data), len(payload))
				}
			case KindAnswer:
				if a, err := ParseAnswer(payload); err == nil {
					again(t, a, ParseAnswer)
				}
			case KindHello:
				if h, err := ParseHello(payload); err == nil {
					again(t, h, ParseHello)
				}
			}
		}
	})
}

// again: what could be read can be written, and means the same.
func again[T any](t *testing.T, message T, parse func([]byte) (T, error)) {
	t.Helper()
	data, err := json.Marshal(message)
	if err != nil {
		t.Fatalf("%+v cannot be written: %v", message, err)
	}
	back, err := parse(data)
	if err != nil {
		t.Fatalf("%s cannot be read: %v", data, err)
	}
	data2, err := json.Marshal(back)
	if err != nil || !bytes.Equal(data, data2) {
		t.Fatalf("%s became %s, %v", data, data2, err)
	}
}

// FuzzRequest reads requests from any bytes.
func FuzzRequest(f *testing.F) {
	for _, q := range []Request{
		{ID: 1, Op: OpRun, Run: &Run{Argv: []string{"a\xff"}, Env: []string{`\`}, Dir: "/"}},
		{ID: 2, Op: OpRead, Path: &Path{Base: "/w", Name: "\xff", Limit: 1}},
		{ID: 3, Op: OpKillAll},
		{ID: 4, Op: OpPut, Path: &Path{Base: "/"}, Put: &Put{Type: Regular, ModTime: time.Unix(1, 1)}, Input: true},
		{ID: 5, Op: OpPut, Path: &Path{Base: "/"}, Put: &Put{Type: Symlink, Target: "\xff"}},
		{ID: 6, Op: OpRemove, Path: &Path{Base: "/"}},
	} {
		data, err := json.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		q, err := ParseRequest(input)
		if err != nil {
			if !errors.Is(err, ErrFrame) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		known := []Op{OpRun, OpStat, OpRead, OpList, OpKillAll, OpOpen, OpPut, OpRemove}
		if !slices.Contains(known, q.Op) || q.Op == OpRun && len(q.Run.Argv) == 0 || q.Op == OpPut && q.Put == nil {
			t.Fatalf("accepted %+v", q)
		}
		again(t, q, ParseRequest)
	})
}

// FuzzCall reads calls and replies from any bytes: any process of a cell may
// speak to the supervisor's socket.
func FuzzCall(f *testing.F) {
	for _, message := range []any{Call{ID: 1, Tool: "uip", Argv: []string{"a\xff", `\`}, Fault: "f"}, Reply{ID: 1, Exit: 3, Stdout: "\xff", Log: "/l", Line: "{}"}} {
		data, err := json.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if c, err := ParseCall(input); err == nil {
			again(t, c, ParseCall)
		} else if !errors.Is(err, ErrFrame) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if r, err := ParseReply(input); err == nil {
			again(t, r, ParseReply)
		} else if !errors.Is(err, ErrFrame) {
			t.Fatalf("an error of another kind: %v", err)
		}
	})
}

// FuzzEscape: any bytes survive, and travel as UTF-8.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "name", "\xff", `\x41`, "\xed\xa0\x80", "\uFFFD"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := escape(s)
		if back, err := unescape(e); err != nil || back != s || !utf8.ValidString(e) {
			t.Fatalf("%q became %q and %q, %v", s, e, back, err)
		}
	})
}
