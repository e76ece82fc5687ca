package main

import (
	"fmt"
	"io"
	"strings"
)

// line is one measurement beside its target.
type line struct {
	what, of string
	value    float64
	target   string
	detail   string
}

type table struct{ lines []line }

func (t *table) add(what, of string, value float64, target, detail string) {
	t.lines = append(t.lines, line{what: what, of: of, value: value, target: target, detail: detail})
}

// met tells whether a value keeps a target such as "<= 1.3".
func met(value float64, target string) (bool, error) {
	var bound float64
	var sign string
	if _, err := fmt.Sscanf(target, "%s %g", &sign, &bound); err != nil {
		return false, fmt.Errorf("target %q is no bound: %w", target, err)
	}
	switch sign {
	case "<=":
		return value <= bound, nil
	case ">=":
		return value >= bound, nil
	}
	return false, fmt.Errorf("target %q is no bound: it begins neither with <= nor with >=", target)
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "%-26s %-28s %9s  %-8s %-5s %s\n", "what", "ratio or figure", "value", "target", "met", "measured")
	for _, l := range t.lines {
		verdict := "yes"
		if ok, err := met(l.value, l.target); err != nil {
			verdict = err.Error()
		} else if !ok {
			verdict = "no"
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-26s %-28s %9.2f  %-8s %-5s %s", l.what, l.of, l.value, l.target, verdict, l.detail), " "))
	}
}
