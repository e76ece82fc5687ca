package python

import "errors"

// ErrNotInt is the error of ParseInt for a text that is no integer.
var ErrNotInt = errors.New("invalid literal for int()")

// ParseInt is int(text) in base ten: white space around, a sign, single
// underscores between digits, any Unicode decimal digits. The result is an
// int64 or a *big.Int.
func ParseInt(text string) (any, error) {
	ascii, ok := asciiDigits(stripNumber(text))
	if !ok {
		return nil, ErrNotInt
	}
	ascii, ok = dropUnderscores(ascii)
	if !ok {
		return nil, ErrNotInt
	}
	digits := ascii
	if digits != "" && (digits[0] == '+' || digits[0] == '-') {
		digits = digits[1:]
	}
	if rest, count := skipDigits(digits); rest != "" || count == 0 {
		return nil, ErrNotInt
	}
	value, err := parseInteger(ascii)
	if err != nil {
		return nil, ErrNotInt
	}
	return value, nil
}
