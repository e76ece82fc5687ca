package record

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseValueRefuses(t *testing.T) {
	tests := map[string]string{
		"nothing":            "",
		"two values":         "{} {}",
		"not UTF-8":          "\"\xff\"",
		"overlong":           "\"\xc0\xaf\"",
		"UTF-8 surrogate":    "\"\xed\xa0\x80\"",
		"byte order mark":    "\ufeff{}",
		"key twice":          `{"a":1,"a":2}`,
		"key twice escaped":  `{"a":1,"\u0061":2}`,
		"key twice deep":     `{"x":[{"a":1,"b":2,"a":3}]}`,
		"control in string":  "\"a\nb\"",
		"bad escape":         `"\x41"`,
		"short escape":       `"\u12"`,
		"trailing comma":     `[1,]`,
		"comment":            `{} // x`,
		"single quotes":      `{'a':1}`,
		"leading zero":       `[01]`,
		"leading plus":       `[+1]`,
		"bare point":         `[1.]`,
		"nan in lower case":  `[nan]`,
		"minus NaN":          `[-NaN]`,
		"unclosed":           `{"a":[1`,
		"unclosed string":    `"abc`,
		"escape at the end":  `"abc\`,
		"nested too deep":    strings.Repeat("[", 600) + strings.Repeat("]", 600),
		"nested without end": strings.Repeat(`{"a":`, 1<<20),
	}
	for name, text := range tests {
		if _, err := parseValue([]byte(text)); !errors.Is(err, ErrJSON) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestManyKeysTwice(t *testing.T) {
	var b strings.Builder
	b.WriteString("{")
	for i := range 100 {
		b.WriteString(`"k` + strings.Repeat("x", i) + `":0,`)
	}
	if _, err := parseValue([]byte(b.String() + `"last":1}`)); err != nil {
		t.Errorf("100 different keys: %v", err)
	}
	if _, err := parseValue([]byte(b.String() + `"kxxxxxxxxxxxxxxxxxxxx":1}`)); err == nil {
		t.Error("a key that stands twice among 100 was accepted")
	}
}

func TestRawValues(t *testing.T) {
	o, err := ParseObject([]byte(`{"n":NaN,"i":Infinity,"m":-Infinity,"f":-1.5e3,"w":12,"t":"\ud800\u00e9","b":true,"z":null,"big":1e999,"l":[1,[2]],"NaN":"NaN"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"i": math.Inf(1), "m": math.Inf(-1), "f": -1500, "w": 12, "big": math.Inf(1)} {
		if got, ok := o.Value(name).Number(); !ok || got != want {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	if got, ok := o.Value("n").Number(); !ok || !math.IsNaN(got) {
		t.Errorf("NaN: %v, %v", got, ok)
	}
	if got := o.Text("t"); got != "\ufffdé" {
		t.Errorf("text: %q", got)
	}
	if got := o.Value("l").Length(); got != 2 {
		t.Errorf("length: %d", got)
	}
	if !o.Value("z").IsNull() || !o.Value("absent").IsNull() || o.Value("b").IsNull() {
		t.Error("null is not told apart")
	}
	raw, _ := parseValue(o.Bytes())
	var into map[string]any
	if err := raw.Decode(&into); err == nil {
		t.Error("1e999 should not decode into a float64")
	}
	o.Delete("big")
	raw, _ = parseValue(o.Bytes())
	if err := raw.Decode(&into); err != nil {
		t.Fatal(err)
	}
	if into["n"] != nil || into["m"] != nil || into["NaN"] != "NaN" {
		t.Errorf("decoded: %v", into)
	}
}

func TestEncode(t *testing.T) {
	half := 0.5
	type result struct {
		Type   string   `json:"criterion_type"`
		Score  float64  `json:"score"`
		Error  *string  `json:"error"`
		Share  *float64 `json:"share"`
		Bytes  *int64   `json:"bytes,omitempty"`
		Tags   []string `json:"tags"`
		hidden int
	}
	tests := []struct {
		value any
		want  string
	}{
		{nil, "null"}, {true, "true"}, {3, "3"}, {uint8(3), "3"},
		{1.0, "1.0"}, {0.0, "0.0"}, {0.1, "0.1"}, {-2.5, "-2.5"}, {1e15, "1000000000000000.0"},
		{1e16, "1e16"}, {1.5e300, "1.5e300"}, {1e-5, "0.00001"}, {1.25e-7, "1.25e-7"},
		{math.NaN(), "null"}, {math.Inf(-1), "null"},
		{"a\"\\/\b\f\n\r\t\x01\u007f\u2028<é😀", `"a\"\\/\b\f\n\r\t\u0001` + "\u007f\u2028<é😀" + `"`},
		{"bad \xff byte", "\"bad \ufffd byte\""},
		{[]string{}, "[]"}, {map[string]int{}, "{}"}, {(*float64)(nil), "null"},
		{map[string]int{"b": 2, "a": 1}, "{\n  \"a\": 1,\n  \"b\": 2\n}"},
		{[]any{1, []any{}, "x"}, "[\n  1,\n  [],\n  \"x\"\n]"},
		{result{Type: "run_command", Score: 1, Share: &half, Tags: []string{"a"}, hidden: 1},
			"{\n  \"criterion_type\": \"run_command\",\n  \"score\": 1.0,\n  \"error\": null,\n  \"share\": 0.5,\n  \"tags\": [\n    \"a\"\n  ]\n}"},
	}
	for _, test := range tests {
		got := Encode(test.value)
		if string(got) != test.want {
			t.Errorf("Encode(%#v)\n got %s\nwant %s", test.value, got, test.want)
		}
		if _, err := parseValue(got); err != nil {
			t.Errorf("Encode(%#v) is not JSON: %v", test.value, err)
		}
	}
}

func TestObjectKeepsWhatIsNotTouched(t *testing.T) {
	text := "{\n  \"\\u0061\": 1.50,\n  \"x\": {\n    \"k\": [\n      1,\n      NaN\n    ]\n  },\n  \"s\": \"\\u00e9\"\n}"
	o, err := ParseObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(o.Bytes()); got != text {
		t.Errorf("unchanged:\n%s", got)
	}
	o.Set("s", "new")
	o.Set("t", []string{"y"})
	o.Delete("a")
	want := "{\n  \"x\": {\n    \"k\": [\n      1,\n      NaN\n    ]\n  },\n  \"s\": \"new\",\n  \"t\": [\n    \"y\"\n  ]\n}"
	if got := string(o.Bytes()); got != want {
		t.Errorf("changed:\n%s", got)
	}
}

func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.json")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, seed := range seeds {
		data, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"a":NaN,"a":-Infinity}`))
	f.Add([]byte(`{"task_id":"x","task_description":"","agent_type":"none","final_status":"SUCCESS","iteration_count":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		again, err := Parse(r.Bytes())
		if err != nil {
			t.Fatalf("a record that was read cannot be read again: %v", err)
		}
		if string(again.Bytes()) != string(r.Bytes()) {
			t.Fatal("writing twice gives different bytes")
		}
		r.Trajectory().Length()
		r.TaskConfig()
		Stamps(r.Environment)
	})
}

// TestOrdinaryBytesAreCounted: eight at once comes to what one after the other
// comes to, wherever the byte that ends them stands.
func TestOrdinaryBytesAreCounted(t *testing.T) {
	slow := func(data []byte) int {
		for i, c := range data {
			if c == '"' || c == '\\' || c < 0x20 {
				return i
			}
		}
		return len(data)
	}
	for length := range 40 {
		for at := range length + 1 {
			for c := range 256 {
				data := bytes.Repeat([]byte{'!', 0xff, 0x80, '[', ' ', '#', ']', 0x7f}, 5)[:length]
				if at < length {
					data[at] = byte(c)
				}
				if got, want := ordinary(data), slow(data); got != want {
					t.Fatalf("%q: %d, want %d", data, got, want)
				}
			}
		}
	}
}

// TestAnIntegerOutOfRangeIsNone: it would be counted as the end of the range.
func TestAnIntegerOutOfRangeIsNone(t *testing.T) {
	for text, want := range map[string]int64{"7": 7, "-9223372036854775808": math.MinInt64, "9223372036854775808": 0, "-123456789012345678901": 0, "1.0": 0, "null": 0} {
		if n, ok := Raw(text).Int(); n != want || ok != (want != 0) {
			t.Errorf("%s is %d, %v", text, n, ok)
		}
	}
}
