package python

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of a JSON text: bytes, nesting (near Python's recursion limit), and
// digits of an integer (sys.int_info.default_max_str_digits).
const (
	MaxJSON        = 64 << 20
	MaxJSONNesting = 900
	maxIntDigits   = 4300
)

// JSONError says why a text is no JSON for Python's json.loads.
type JSONError struct {
	Class  string // of the exception: JSONDecodeError, ValueError, RecursionError
	Reason string
	Line   int // from 1
	Column int // in code points, from 1
}

func (e *JSONError) Error() string {
	if e.Class != "JSONDecodeError" {
		return e.Reason
	}
	return fmt.Sprintf("%s: line %d column %d", e.Reason, e.Line, e.Column)
}

// LoadJSON is json.loads: it knows NaN, Infinity and -Infinity, the last of
// several equal keys wins, integers have any size. The text is valid UTF-8. A
// lone surrogate escape becomes U+FFFD. The error is a *JSONError.
func LoadJSON(text string) (any, error) {
	r := &jsonText{text: text}
	if len(text) > MaxJSON {
		return nil, &JSONError{Class: "OverflowError", Reason: fmt.Sprintf("the JSON text has %d bytes, more than %d", len(text), MaxJSON)}
	}
	if strings.HasPrefix(text, "\ufeff") {
		return nil, r.fail(0, "Unexpected UTF-8 BOM (decode using utf-8-sig)")
	}
	r.space()
	value, err := r.value(0)
	if err != nil {
		return nil, err
	}
	r.space()
	if r.pos < len(text) {
		return nil, r.fail(r.pos, "Extra data")
	}
	return value, nil
}

// jsonText is a text being read.
type jsonText struct {
	text string
	pos  int
}

func (r *jsonText) fail(at int, reason string) error {
	before := r.text[:min(at, len(r.text))]
	start := strings.LastIndexByte(before, '\n') + 1
	return &JSONError{
		Class: "JSONDecodeError", Reason: reason,
		Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(before[start:]) + 1,
	}
}

func (r *jsonText) space() {
	for r.pos < len(r.text) && strings.IndexByte(" \t\n\r", r.text[r.pos]) >= 0 {
		r.pos++
	}
}

func (r *jsonText) accept(token string) bool {
	if !strings.HasPrefix(r.text[r.pos:], token) {
		return false
	}
	r.pos += len(token)
	return true
}

// value reads one value; space before it was skipped.
func (r *jsonText) value(depth int) (any, error) {
	if depth > MaxJSONNesting {
		return nil, &JSONError{Class: "RecursionError", Reason: "maximum recursion depth exceeded while decoding a JSON document"}
	}
	switch {
	case r.accept(`"`):
		return r.string()
	case r.accept("{"):
		return r.object(depth)
	case r.accept("["):
		return r.array(depth)
	case r.accept("null"):
		return nil, nil
	case r.accept("true"):
		return true, nil
	case r.accept("false"):
		return false, nil
	case r.accept("NaN"):
		return math.NaN(), nil
	case r.accept("Infinity"):
		return math.Inf(1), nil
	case r.accept("-Infinity"):
		return math.Inf(-1), nil
	}
	return r.number()
}

func (r *jsonText) object(depth int) (any, error) {
	dict := NewDict()
	r.space()
	if r.accept("}") {
		return dict, nil
	}
	for {
		if !r.accept(`"`) {
			return nil, r.fail(r.pos, "Expecting property name enclosed in double quotes")
		}
		key, err := r.string()
		if err != nil {
			return nil, err
		}
		r.space()
		if !r.accept(":") {
			return nil, r.fail(r.pos, "Expecting ':' delimiter")
		}
		r.space()
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		dict.Set(key.(string), value)
		r.space()
		if r.accept("}") {
			return dict, nil
		}
		if !r.accept(",") {
			return nil, r.fail(r.pos, "Expecting ',' delimiter")
		}
		r.space()
	}
}

func (r *jsonText) array(depth int) (any, error) {
	list := []any{}
	r.space()
	if r.accept("]") {
		return list, nil
	}
	for {
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
		r.space()
		if r.accept("]") {
			return list, nil
		}
		if !r.accept(",") {
			return nil, r.fail(r.pos, "Expecting ',' delimiter")
		}
		r.space()
	}
}

// string reads a string after its opening quote.
func (r *jsonText) string() (any, error) {
	start := r.pos - 1
	var b strings.Builder
	for {
		from := r.pos
		for r.pos < len(r.text) && r.text[r.pos] != '"' && r.text[r.pos] != '\\' && r.text[r.pos] >= 0x20 {
			r.pos++
		}
		b.WriteString(r.text[from:r.pos])
		if r.pos >= len(r.text) {
			return nil, r.fail(start, "Unterminated string starting at")
		}
		switch r.text[r.pos] {
		case '"':
			r.pos++
			return b.String(), nil
		case '\\':
			if err := r.escape(&b, start); err != nil {
				return nil, err
			}
		default:
			return nil, r.fail(r.pos, "Invalid control character at")
		}
	}
}

func (r *jsonText) escape(b *strings.Builder, start int) error {
	at := r.pos
	r.pos++
	if r.pos >= len(r.text) {
		return r.fail(start, "Unterminated string starting at")
	}
	c := r.text[r.pos]
	r.pos++
	if c == 'u' {
		return r.unicodeEscape(b, at)
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return r.fail(at, "Invalid \\escape")
	}
	b.WriteByte("\"\\/\b\f\n\r\t"[i])
	return nil
}

func (r *jsonText) unicodeEscape(b *strings.Builder, at int) error {
	first, ok := r.hex4()
	if !ok {
		return r.fail(at+1, "Invalid \\uXXXX escape")
	}
	if utf16.IsSurrogate(first) {
		back := r.pos
		if r.accept(`\u`) {
			if second, ok := r.hex4(); ok {
				if joined := utf16.DecodeRune(first, second); joined != utf8.RuneError {
					b.WriteRune(joined)
					return nil
				}
			}
		}
		r.pos = back
	}
	b.WriteRune(first) // a lone surrogate is written as U+FFFD
	return nil
}

func (r *jsonText) hex4() (rune, bool) {
	if r.pos+4 > len(r.text) {
		return 0, false
	}
	value := rune(0)
	for _, c := range []byte(r.text[r.pos : r.pos+4]) {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if c < '0' || digit < 0 || (c < 'A' && c > '9') {
			return 0, false
		}
		value = value<<4 | rune(digit)
	}
	r.pos += 4
	return value, true
}

func (r *jsonText) number() (any, error) {
	start := r.pos
	r.accept("-")
	whole := r.digits()
	if whole > 1 && r.text[r.pos-whole] == '0' {
		r.pos -= whole - 1 // a leading zero stands alone; what follows is extra
	}
	if whole == 0 {
		r.pos = start
		return nil, r.fail(start, "Expecting value")
	}
	isFloat := r.fraction()
	if r.exponent() {
		isFloat = true
	}
	text := r.text[start:r.pos]
	if !isFloat {
		return parseInteger(text)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, r.fail(start, "Expecting value")
	}
	return value, nil
}

func (r *jsonText) digits() int {
	_, count := skipDigits(r.text[r.pos:])
	r.pos += count
	return count
}

// fraction passes a point with digits, or nothing.
func (r *jsonText) fraction() bool {
	back := r.pos
	if r.accept(".") && r.digits() > 0 {
		return true
	}
	r.pos = back
	return false
}

// exponent passes an exponent with digits, or nothing.
func (r *jsonText) exponent() bool {
	back := r.pos
	if r.accept("e") || r.accept("E") {
		if !r.accept("+") {
			r.accept("-")
		}
		if r.digits() > 0 {
			return true
		}
	}
	r.pos = back
	return false
}

// parseInteger is int(text) of ASCII digits with an optional sign.
func parseInteger(text string) (any, error) {
	if len(strings.TrimLeft(text, "+-")) > maxIntDigits {
		return nil, &JSONError{Class: "ValueError", Reason: fmt.Sprintf("Exceeds the limit (%d digits) for integer string conversion", maxIntDigits)}
	}
	if value, err := strconv.ParseInt(text, 10, 64); err == nil {
		return value, nil
	}
	value, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, &JSONError{Class: "ValueError", Reason: "invalid literal for int()"}
	}
	return Int(value), nil
}

// Int gives an integer in the form that values have.
func Int(i *big.Int) any {
	if i.IsInt64() {
		return i.Int64()
	}
	return i
}
