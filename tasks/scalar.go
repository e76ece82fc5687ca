package tasks

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Upstream's loader reads YAML 1.1 (task-file 1, item 2). These are the forms of
// plain scalars that its resolver knows; everything else is a string.
var (
	yamlBool  = regexp.MustCompile(`^(?:(yes|Yes|YES|true|True|TRUE|on|On|ON)|no|No|NO|false|False|FALSE|off|Off|OFF)$`)
	yamlNull  = regexp.MustCompile(`^(?:~|null|Null|NULL|)$`)
	yamlInt   = regexp.MustCompile(`^[-+]?(?:0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*(?::[0-5]?[0-9])+)$`)
	yamlFloat = regexp.MustCompile(`^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?` +
		`|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?` +
		`|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*` +
		`|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
	yamlTime = regexp.MustCompile(`^([0-9]{4})-([0-9][0-9]?)-([0-9][0-9]?)` +
		`(?:(?:[Tt]|[ \t]+)([0-9][0-9]?):([0-9][0-9]):([0-9][0-9])(?:\.([0-9]*))?` +
		`[ \t]*(?:(Z)|([-+])([0-9][0-9]?)(?::?([0-9][0-9]))?)?)?$`)
	yamlDate = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)
)

// resolvePlain gives an unquoted scalar its YAML 1.1 meaning.
func resolvePlain(text string) (kind, any, error) {
	switch {
	case yamlNull.MatchString(text):
		return nullNode, nil, nil
	case yamlBool.MatchString(text):
		return boolNode, yamlBool.FindStringSubmatch(text)[1] != "", nil
	case text == "=", text == "<<":
		return 0, nil, fmt.Errorf("a lone %s has a special meaning in YAML; quote it", text)
	case yamlInt.MatchString(text):
		i, err := parseYAMLInt(text)
		return intNode, i, err
	case yamlFloat.MatchString(text):
		f, err := parseYAMLFloat(text)
		return floatNode, f, err
	case yamlTime.MatchString(text):
		if !strings.Contains(text, ":") && !yamlDate.MatchString(text) {
			break // one-digit months are only read with a time of day
		}
		t, err := parseYAMLTime(text)
		return timeNode, t, err
	}
	return stringNode, text, nil
}

// parseYAMLInt reads decimal, 0b, 0x, octal with a leading zero, and sexagesimal.
func parseYAMLInt(text string) (any, error) {
	s := strings.ReplaceAll(text, "_", "")
	negative := strings.HasPrefix(s, "-")
	s = strings.TrimLeft(s, "+-")
	const maxDigits = 4300 // Python refuses to convert longer integers
	i, ok := new(big.Int), len(s) <= maxDigits
	switch {
	case !ok:
	case s == "0" || strings.Trim(s, "0") == "" && s != "":
	case strings.HasPrefix(s, "0b"):
		_, ok = i.SetString(s[2:], 2)
	case strings.HasPrefix(s, "0x"):
		_, ok = i.SetString(s[2:], 16)
	case strings.HasPrefix(s, "0"):
		_, ok = i.SetString(s, 8)
	case strings.Contains(s, ":"):
		for part := range strings.SplitSeq(s, ":") {
			digit, _ := new(big.Int).SetString(part, 10)
			i.Add(i.Mul(i, big.NewInt(60)), digit)
		}
	default:
		_, ok = i.SetString(s, 10)
	}
	if !ok {
		return nil, fmt.Errorf("%s looks like an integer but is none; quote it", quote(text))
	}
	if negative {
		i.Neg(i)
	}
	return intScalar(i), nil
}

// parseYAMLFloat reads decimal, sexagesimal and the special values.
func parseYAMLFloat(text string) (any, error) {
	s := strings.ToLower(strings.ReplaceAll(text, "_", ""))
	sign := 1.0
	if strings.HasPrefix(s, "-") {
		sign = -1
	}
	s = strings.TrimLeft(s, "+-")
	switch {
	case s == ".inf":
		return math.Inf(int(sign)), nil
	case s == ".nan":
		return math.NaN(), nil
	case strings.Contains(s, ":"):
		var sum float64
		for part := range strings.SplitSeq(s, ":") {
			digit, err := strconv.ParseFloat(part, 64)
			if err != nil {
				return nil, fmt.Errorf("%s looks like a number but is none; quote it", quote(text))
			}
			sum = sum*60 + digit
		}
		return sign * sum, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, fmt.Errorf("%s looks like a number but is none; quote it", quote(text))
	}
	return sign * f, nil
}

// parseYAMLTime reads a date, or a date and time, into the text that Python's
// str() gives it.
func parseYAMLTime(text string) (any, error) {
	m := yamlTime.FindStringSubmatch(text)
	num := func(i int) int { n, _ := strconv.Atoi(m[i]); return n }
	day := time.Date(num(1), time.Month(num(2)), num(3), num(4), num(5), num(6), 0, time.UTC)
	if num(1) == 0 || int(day.Month()) != num(2) || day.Day() != num(3) || day.Hour() != num(4) || day.Minute() != num(5) || day.Second() != num(6) {
		return nil, fmt.Errorf("%s looks like a date but is none; quote it", quote(text))
	}
	if m[4] == "" {
		return Timestamp(day.Format("2006-01-02")), nil
	}
	out := day.Format("2006-01-02 15:04:05")
	if micro := (m[7] + "000000")[:6]; micro != "000000" {
		out += "." + micro
	}
	switch {
	case m[8] != "" || m[9] != "" && num(10) == 0 && num(11) == 0:
		out += "+00:00"
	case m[9] != "":
		if num(10) > 23 || num(11) > 59 {
			return nil, fmt.Errorf("%s looks like a date but its offset is none; quote it", quote(text))
		}
		out += fmt.Sprintf("%s%02d:%02d", m[9], num(10), num(11))
	}
	return Timestamp(out), nil
}

// Str returns what Python's str() makes of a scalar: "True", "None", "1e+16".
// Lists and mappings have no such text here and give false.
func Str(value any) (string, bool) {
	switch v := value.(type) {
	case nil:
		return "None", true
	case bool:
		if v {
			return "True", true
		}
		return "False", true
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case *big.Int:
		return v.String(), true
	case float64:
		return FloatStr(v), true
	case string:
		return v, true
	case Timestamp:
		return string(v), true
	}
	return "", false
}

// FloatStr returns what Python's repr() makes of a float: the shortest digits
// that read back, always with a point or an exponent.
func FloatStr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
