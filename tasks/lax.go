package tasks

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// Upstream validates in the lax mode of its library (task-file 1, item 3):
// numeric strings are numbers, integral floats are integers, some words and 0
// and 1 are booleans, and booleans are numbers. Nothing else becomes a string.

var (
	laxInteger = regexp.MustCompile(`^[-+]?[0-9]+(?:_[0-9]+)*(?:\.0*)?$`)
	laxFloat   = regexp.MustCompile(`^[-+]?(?:[0-9]+(?:_[0-9]+)*\.?(?:[0-9]+(?:_[0-9]+)*)?|\.[0-9]+(?:_[0-9]+)*)(?:[eE][-+]?[0-9]+)?$`)
	laxSpecial = regexp.MustCompile(`^(?i)([-+]?)(inf|infinity|nan)$`)
)

func laxBool(n *node) (value, ok bool) {
	switch n.kind {
	case boolNode:
		return n.scalar.(bool), true
	case intNode:
		return n.scalar == int64(1), n.scalar == int64(1) || n.scalar == int64(0)
	case floatNode:
		return n.scalar == 1.0, n.scalar == 1.0 || n.scalar == 0.0
	case stringNode:
		switch strings.ToLower(n.scalar.(string)) {
		case "1", "true", "t", "yes", "y", "on":
			return true, true
		case "0", "false", "f", "no", "n", "off":
			return false, true
		}
	}
	return false, false
}

// truth is a boolean as a number.
func truth(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

// laxInt returns the integer that a value stands for; ok is false when it
// stands for none, or for one that no field can hold.
func laxInt(n *node) (value int64, ok bool) {
	switch v := n.scalar.(type) {
	case bool:
		return truth(v), true
	case int64:
		return v, true
	case float64:
		const exact = 1 << 53
		return int64(v), v == math.Trunc(v) && math.Abs(v) <= exact
	case string:
		s := strings.TrimSpace(v)
		if !laxInteger.MatchString(s) {
			return 0, false
		}
		s, _, _ = strings.Cut(s, ".")
		value, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
		return value, err == nil
	}
	return 0, false
}

// laxNumber returns the float that a value stands for.
func laxNumber(n *node) (value float64, ok bool) {
	switch v := n.scalar.(type) {
	case bool:
		return float64(truth(v)), true
	case int64:
		return float64(v), true
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, !math.IsInf(f, 0)
	case float64:
		return v, true
	case string:
		s := strings.TrimSpace(v)
		if m := laxSpecial.FindStringSubmatch(s); m != nil {
			f, err := strconv.ParseFloat(s, 64)
			return f, err == nil
		}
		if !laxFloat.MatchString(s) {
			return 0, false
		}
		f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
		return f, err == nil || math.IsInf(f, 0)
	}
	return 0, false
}
