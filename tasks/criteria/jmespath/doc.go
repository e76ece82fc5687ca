// Package jmespath evaluates JMESPath expressions on values of package python,
// as the Python implementation does.
//
// It is our own because the libraries for Go differ where a verdict depends on
// it: they keep objects in Go maps, so keys(), values() and * come in another
// order each time; their numbers are float64, so large integers lose digits;
// and they know functions and operators that Python's does not. The grammar is
// that of the JMESPath specification; where Python's parser is more lenient (a
// missing or trailing comma between arguments) so is this one.
package jmespath
