package criteria

import (
	"regexp"
	"strings"

	"podgrade/tasks"
)

// flagRules say how an argv splits (task-file 7.10). Names are without dashes.
type flagRules struct {
	valued   map[string]bool // take the next word as their value
	declared map[string]bool // are known by name
	ignored  map[string]bool
}

// rulesOf gathers the rules of a match.
func rulesOf(match tasks.CLIMatch, ignore []string) flagRules {
	r := flagRules{valued: map[string]bool{}, declared: map[string]bool{}, ignored: map[string]bool{}}
	for _, name := range match.ValueFlags {
		name = bareFlag(name)
		r.valued[name], r.declared[name] = true, true
	}
	for _, name := range ignore {
		name = bareFlag(name)
		r.ignored[name], r.declared[name] = true, true
	}
	for name, predicate := range match.Flags {
		for _, name := range append([]string{name}, predicate.Aliases...) {
			name = bareFlag(name)
			r.declared[name] = true
			if wantsValue(predicate) {
				r.valued[name] = true
			}
		}
	}
	return r
}

func wantsValue(p tasks.FlagPredicate) bool {
	return p.Equals != nil || p.Contains != nil || p.MatchesRegex != nil || p.AnyOf != nil
}

func bareFlag(name string) string { return strings.TrimLeft(name, "-") }

// splitCall is an argv, split.
type splitCall struct {
	positional []string
	flags      map[string][]string // a switch has the value ""
}

var negativeNumber = regexp.MustCompile(`^-(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)$`)

// split splits the arguments of a call.
func (r flagRules) split(argv []string) splitCall {
	call := splitCall{flags: map[string][]string{}}
	for i := 0; i < len(argv); i++ {
		word := argv[i]
		switch {
		case word == "--":
			call.positional = append(call.positional, argv[i+1:]...)
			return call
		case word == "-" || !strings.HasPrefix(word, "-"):
			call.positional = append(call.positional, word)
		default:
			i += r.flag(&call, word, argv[i+1:])
		}
	}
	return call
}

// flag adds what a word that starts with a dash says, and returns how many
// words of rest it took.
func (r flagRules) flag(call *splitCall, word string, rest []string) int {
	name, value, bound := strings.Cut(bareFlag(word), "=")
	long := strings.HasPrefix(word, "--")
	switch {
	case bound && (long || r.declared[name]):
		r.add(call, name, value)
		return 0
	case !long && !r.declared[bareFlag(word)] && negativeNumber.MatchString(word):
		call.positional = append(call.positional, word)
		return 0
	case !long && !r.declared[bareFlag(word)] && len([]rune(bareFlag(word))) > 1:
		r.letters(call, []rune(bareFlag(word)))
		return 0
	}
	name = bareFlag(word)
	if !r.valued[name] || len(rest) == 0 {
		r.add(call, name, "")
		return 0
	}
	r.add(call, name, rest[0])
	return 1
}

// letters splits a group of one-letter switches; when the first one takes a
// value, the rest is the value.
func (r flagRules) letters(call *splitCall, letters []rune) {
	if first := string(letters[0]); r.valued[first] {
		r.add(call, first, string(letters[1:]))
		return
	}
	for _, letter := range letters {
		r.add(call, string(letter), "")
	}
}

// add records a flag unless it is ignored.
func (r flagRules) add(call *splitCall, name, value string) {
	if !r.ignored[name] {
		call.flags[name] = append(call.flags[name], value)
	}
}
