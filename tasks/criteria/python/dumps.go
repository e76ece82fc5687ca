package python

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
)

// ErrNotJSON is the TypeError of DumpJSON for what is no JSON value.
var ErrNotJSON = errors.New("value is not JSON serializable")

// ErrTooMuchJSON says that the text of a value is larger than was allowed.
var ErrTooMuchJSON = errors.New("the JSON text of the value is too large")

// DumpJSON is json.dumps(value): ASCII only, ", " and ": " between items, or
// without the blanks when compact. Errors are ErrNotJSON and ErrTooMuchJSON;
// with the latter it gives about the first limit bytes.
func DumpJSON(value any, compact bool, limit int) (string, error) {
	w := &jsonWriter{comma: ", ", colon: ": ", limit: limit}
	if compact {
		w.comma, w.colon = ",", ":"
	}
	err := w.value(value)
	return w.out.String(), err
}

type jsonWriter struct {
	out          strings.Builder
	comma, colon string
	limit        int
}

func (w *jsonWriter) value(value any) error {
	if w.out.Len() > w.limit {
		return ErrTooMuchJSON
	}
	switch v := value.(type) {
	case nil:
		w.out.WriteString("null")
	case bool:
		w.out.WriteString(strconv.FormatBool(v))
	case int64:
		w.out.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		w.out.WriteString(v.String())
	case float64:
		w.out.WriteString(jsonFloat(v))
	case string:
		return w.string(v)
	case []any:
		return w.list(v)
	case *Dict:
		return w.dict(v)
	default:
		return ErrNotJSON
	}
	return nil
}

func jsonFloat(f float64) string {
	switch text := FormatFloat(f); text {
	case "nan":
		return "NaN"
	case "inf":
		return "Infinity"
	case "-inf":
		return "-Infinity"
	default:
		return text
	}
}

func (w *jsonWriter) list(list []any) error {
	w.out.WriteByte('[')
	for i, element := range list {
		if i > 0 {
			w.out.WriteString(w.comma)
		}
		if err := w.value(element); err != nil {
			return err
		}
	}
	w.out.WriteByte(']')
	return nil
}

func (w *jsonWriter) dict(dict *Dict) error {
	w.out.WriteByte('{')
	for i, key := range dict.keys {
		if i > 0 {
			w.out.WriteString(w.comma)
		}
		if err := w.string(key); err != nil {
			return err
		}
		w.out.WriteString(w.colon)
		if err := w.value(dict.values[key]); err != nil {
			return err
		}
	}
	w.out.WriteByte('}')
	return nil
}

func (w *jsonWriter) string(text string) error {
	w.out.WriteByte('"')
	for _, r := range text {
		if w.out.Len() > w.limit {
			return ErrTooMuchJSON
		}
		if i := strings.IndexRune("\"\\\b\f\n\r\t", r); i >= 0 {
			w.out.WriteByte('\\')
			w.out.WriteByte(`"\bfnrt`[i])
			continue
		}
		switch {
		case r >= 0x20 && r < 0x7F:
			w.out.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&w.out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&w.out, `\u%04x`, r)
		}
	}
	w.out.WriteByte('"')
	return nil
}
