package tasks

import (
	"fmt"
	"math"
	"math/big"
	"testing"
)

// TestYAML11Scalars holds what PyYAML's safe loader makes of plain scalars; the
// right column is Python's type and str().
func TestYAML11Scalars(t *testing.T) {
	tests := map[string]string{
		"yes": "bool True", "Yes": "bool True", "yEs": "str yEs", "y": "str y", "on": "bool True",
		"Off": "bool False", "TRUE": "bool True", "tRue": "str tRue",
		"~": "null None", "": "null None", "NULL": "null None", "nUll": "str nUll",
		"010": "int 8", "0o10": "str 0o10", "0x1F": "int 31", "0b11": "int 3", "09": "str 09",
		"1_000": "int 1000", "1__0": "int 10", "0_": "int 0", "_1": "str _1", "+1": "int 1", "-0": "int 0", "0x": "str 0x",
		"1:30": "int 90", "190:20:30": "int 685230", "00:10": "str 00:10", "1:99": "str 1:99", "-1:30": "int -90",
		"1:30.5": "float 90.5", "1:30:00.5": "float 5400.5",
		"1e3": "str 1e3", "1.5e3": "str 1.5e3", "1.5e+3": "float 1500.0", ".5": "float 0.5", "5.": "float 5.0",
		"-.inf": "float -inf", ".NaN": "float nan", "08.5": "float 8.5", "+.5": "str +.5", ".": "str .",
		"685_230.15": "float 685230.15", ".5e+3": "float 500.0",
		"123456789012345678901": "int 123456789012345678901",
		"2001-01-01":            "date 2001-01-01", "2001-1-1": "str 2001-1-1",
		"2001-12-14t21:59:43.10-05:00": "date 2001-12-14 21:59:43.100000-05:00",
		"2001-12-14 21:59:43":          "date 2001-12-14 21:59:43",
		"2001-12-14 21:59:43Z":         "date 2001-12-14 21:59:43+00:00",
		"0.1.2":                        "str 0.1.2",
	}
	for text, want := range tests {
		k, value, err := resolvePlain(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		name := [...]string{"null", "bool", "int", "float", "str", "date"}[k]
		str, _ := Str(value)
		if got := name + " " + str; got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"=", "2001-13-45", "0b_", "2001-01-01 25:00:00"} {
		if _, value, err := resolvePlain(text); err == nil {
			t.Errorf("%q gives %v, want an error", text, value)
		}
	}
}

func TestStr(t *testing.T) {
	huge, _ := new(big.Int).SetString("-123456789012345678901", 10)
	tests := []struct {
		value any
		want  string
	}{
		{nil, "None"}, {true, "True"}, {int64(-5), "-5"}, {huge, "-123456789012345678901"},
		{1.0, "1.0"}, {0.1, "0.1"}, {1e16, "1e+16"}, {1e15, "1000000000000000.0"}, {1e-4, "0.0001"},
		{1e-5, "1e-05"}, {1.5e300, "1.5e+300"}, {math.Copysign(0, -1), "-0.0"}, {math.Inf(-1), "-inf"}, {math.NaN(), "nan"},
		{123456789.125, "123456789.125"}, {"x", "x"}, {Timestamp("2001-01-01"), "2001-01-01"},
	}
	for _, test := range tests {
		if got, ok := Str(test.value); !ok || got != test.want {
			t.Errorf("Str(%v) = %q, %v, want %q", test.value, got, ok, test.want)
		}
	}
	for _, value := range []any{[]any{}, map[string]any{}} {
		if got, ok := Str(value); ok {
			t.Errorf("Str(%v) = %q, want none", value, got)
		}
	}
}

// TestTwister holds what Python's random.Random(seed).sample(range(n), k) gives.
func TestTwister(t *testing.T) {
	tests := []struct {
		seed int64
		n, k int
		want string
	}{
		{0, 10, 3, "[6 9 0]"},
		{0, 50, 6, "[24 48 26 2 16 32]"},
		{0, 1000, 7, "[864 394 776 911 430 41 265]"},
		{0, 3, 2, "[1 2]"},
		{7, 50, 6, "[20 9 25 41 3 4]"},
		{-3, 1000, 7, "[243 606 557 133 378 937 618]"},
		{12345678901, 10, 3, "[9 5 6]"},
		{12345678901, 1000, 7, "[968 610 335 888 393 362 551]"},
	}
	for _, test := range tests {
		if got := fmt.Sprint(newTwister(test.seed).sample(test.n, test.k)); got != test.want {
			t.Errorf("seed %d, %d of %d: %s, want %s", test.seed, test.k, test.n, got, test.want)
		}
	}
}

func TestLax(t *testing.T) {
	str := func(s string) *node { return &node{kind: stringNode, scalar: s, text: s} }
	float := func(f float64) *node { return &node{kind: floatNode, scalar: f} }
	integer := func(i int64) *node { return &node{kind: intNode, scalar: i} }
	for n, want := range map[*node]string{
		str("yes"): "true true", str("OFF"): "false true", str("maybe"): "false false",
		integer(1): "true true", integer(2): "false false", float(0): "false true",
	} {
		value, ok := laxBool(n)
		if got := fmt.Sprint(value, ok); got != want {
			t.Errorf("laxBool(%v) = %s, want %s", n.scalar, got, want)
		}
	}
	for n, want := range map[*node]string{
		str(" 12 "): "12 true", str("1_0"): "10 true", str("3.0"): "3 true", str("3.5"): "0 false",
		float(4): "4 true", float(4.5): "4 false", str("0x10"): "0 false", {kind: boolNode, scalar: true}: "1 true",
	} {
		value, ok := laxInt(n)
		if got := fmt.Sprint(value, ok); got != want {
			t.Errorf("laxInt(%v) = %s, want %s", n.scalar, got, want)
		}
	}
	for n, want := range map[*node]string{
		str("1e3"): "1000 true", str("-Infinity"): "-Inf true", str("x"): "0 false", str("0x1p3"): "0 false",
		integer(2): "2 true", {kind: nullNode}: "0 false",
	} {
		value, ok := laxNumber(n)
		if got := fmt.Sprint(value, ok); got != want {
			t.Errorf("laxNumber(%v) = %s, want %s", n.scalar, got, want)
		}
	}
}
