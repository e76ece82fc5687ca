package python

import (
	"fmt"
	"math"
	"strings"
)

// The translation writes every construct out, so that nothing depends on what
// the library's own shorthand means: classes as their ranges, anchors and word
// boundaries as look-arounds, case-insensitive characters as the set of their
// equals, groups by number (the library would number named groups last).
//
//	Python            library
//	^ $ \Z            \A  (?=\n?\z)  \z
//	(?m)^ (?m)$       (?<![^\n])  (?![^\n])
//	\b \B             look-arounds on the word class; \B never in an empty text
//	\d \w \s          \p{Nd}  [\p{L}\p{N}_]  ranges
//	(?P<n>x) (?P=n)   (?<1>x)  \k<1>
//	x*+ (?>x)         (?>(?:x)*)  (?>x)
//	(?<=x)            (?<=(?=x)[\s\S]{width}): x is matched forwards, as Python does
//	(?i)k             [Kk\u212A]
//
// Not translated: a backreference under (?ai), and counts above 2^31-1.
const (
	anyChar      = `[\s\S]`
	wordUnicode  = `\p{L}\p{N}_`
	digitUnicode = `\p{Nd}`
	wordASCII    = `0-9A-Z_a-z`
)

// emitter writes a parsed pattern for package regexp2.
type emitter struct {
	out strings.Builder
}

// maxEmitted bounds the translation, in bytes.
const maxEmitted = 4 << 20

func emitRegex(tree *node) (string, error) {
	var e emitter
	if err := e.node(tree); err != nil {
		return "", err
	}
	return e.out.String(), nil
}

func (e *emitter) node(n *node) error {
	if e.out.Len() > maxEmitted {
		return &UnsupportedError{Reason: "the pattern becomes too large when its case-insensitive classes are written out"}
	}
	switch n.kind {
	case nodeConcat:
		for _, kid := range n.kids {
			if err := e.node(kid); err != nil {
				return err
			}
		}
		return nil
	case nodeBranch:
		return e.list("(?:", "|", n.kids)
	case nodeSet:
		e.set(n.set)
	case nodeAny:
		if n.all {
			e.out.WriteString(anyChar)
		} else {
			e.out.WriteString(`[^\n]`)
		}
	case nodeAnchor:
		e.out.WriteString(anchor(n))
	case nodeRepeat:
		return e.repeat(n)
	case nodeGroup:
		return e.list(fmt.Sprintf("(?<%d>", n.group), "", n.kids)
	case nodeAtomic:
		return e.list("(?>", "", n.kids)
	case nodeBackref:
		return e.backref(n)
	case nodeCondition:
		return e.list(fmt.Sprintf("(?(%d)", n.group), "|", n.kids)
	case nodeLook:
		return e.look(n)
	case nodeFail:
		e.out.WriteString(`(?!)`)
	}
	return nil
}

func (e *emitter) list(open, between string, kids []*node) error {
	e.out.WriteString(open)
	for i, kid := range kids {
		if i > 0 {
			e.out.WriteString(between)
		}
		if err := e.node(kid); err != nil {
			return err
		}
	}
	e.out.WriteString(")")
	return nil
}

func (e *emitter) repeat(n *node) error {
	if n.min > math.MaxInt32 {
		return &UnsupportedError{Reason: fmt.Sprintf("the pattern repeats %d times", n.min)}
	}
	if n.mode == possessive {
		e.out.WriteString("(?>")
	}
	if err := e.list("(?:", "", n.kids); err != nil {
		return err
	}
	if n.max > math.MaxInt32 {
		fmt.Fprintf(&e.out, "{%d,}", n.min)
	} else {
		fmt.Fprintf(&e.out, "{%d,%d}", n.min, n.max)
	}
	switch n.mode {
	case lazy:
		e.out.WriteString("?")
	case possessive:
		e.out.WriteString(")")
	}
	return nil
}

func (e *emitter) backref(n *node) error {
	if n.flags&FlagIgnoreCase == 0 {
		fmt.Fprintf(&e.out, `\k<%d>`, n.group)
		return nil
	}
	if n.flags&FlagASCII != 0 {
		return &UnsupportedError{Reason: "the pattern has a case-insensitive backreference under the ASCII flag"}
	}
	fmt.Fprintf(&e.out, `(?i:\k<%d>)`, n.group)
	return nil
}

func (e *emitter) look(n *node) error {
	sign := "="
	if n.negated {
		sign = "!"
	}
	if !n.behind || n.width == 0 {
		return e.list("(?"+sign, "", n.kids)
	}
	e.out.WriteString("(?<" + sign)
	if err := e.list("(?=", "", n.kids); err != nil {
		return err
	}
	fmt.Fprintf(&e.out, "%s{%d})", anyChar, n.width)
	return nil
}

func anchor(n *node) string {
	word := wordUnicode
	if n.flags&FlagASCII != 0 {
		word = wordASCII
	}
	multiline := n.flags&FlagMultiline != 0
	switch {
	case n.anchor == '^' && multiline:
		return `(?<![^\n])`
	case n.anchor == '^', n.anchor == 'A':
		return `\A`
	case n.anchor == '$' && multiline:
		return `(?![^\n])`
	case n.anchor == '$':
		return `(?=\n?\z)`
	case n.anchor == 'Z':
		return `\z`
	case n.anchor == 'b':
		return fmt.Sprintf(`(?:(?<=[%[1]s])(?![%[1]s])|(?<![%[1]s])(?=[%[1]s]))`, word)
	}
	return fmt.Sprintf(`(?!\A\z)(?:(?<=[%[1]s])(?=[%[1]s])|(?<![%[1]s])(?![%[1]s]))`, word)
}

// set writes one character of a set. The library has no class that is the
// complement of several categories inside a larger one, so such a member
// becomes an alternative of its own.
func (e *emitter) set(s *charSet) {
	if len(s.ranges) == 1 && len(s.categories) == 0 && s.ranges[0].low == s.ranges[0].high && !s.negated {
		e.literal(s.ranges[0].low)
		return
	}
	class, alone := classBody(s)
	if alone == "" {
		e.class(class, s.negated)
		return
	}
	positive := "[^" + alone + "]"
	if class != "" {
		positive = "(?:[" + class + "]|" + positive + ")"
	}
	if s.negated {
		positive = "(?!" + positive + ")" + anyChar
	}
	e.out.WriteString("(?:" + positive + ")")
}

func (e *emitter) class(body string, negated bool) {
	switch {
	case body == "" && negated:
		e.out.WriteString(anyChar)
	case body == "":
		e.out.WriteString(`(?!)`)
	case negated:
		e.out.WriteString("[^" + body + "]")
	default:
		e.out.WriteString("[" + body + "]")
	}
}

// classBody gives what stands between the brackets, and apart from it what
// must be written as a negated class of its own.
func classBody(s *charSet) (body, alone string) {
	var b strings.Builder
	for _, c := range s.categories {
		switch {
		case s.ascii:
			writeRanges(&b, asciiCategory(c))
		case c == 'd':
			b.WriteString(digitUnicode)
		case c == 'D':
			b.WriteString(`\P{Nd}`)
		case c == 's':
			writeRanges(&b, spaceRanges)
		case c == 'S':
			writeRanges(&b, complement(spaceRanges))
		case c == 'w':
			b.WriteString(wordUnicode)
		case c == 'W':
			alone = wordUnicode
		}
	}
	writeRanges(&b, s.ranges)
	return b.String(), alone
}

func asciiCategory(c rune) []runeRange {
	switch c {
	case 'd':
		return asciiDigitRanges
	case 'D':
		return complement(asciiDigitRanges)
	case 's':
		return asciiSpaceRanges
	case 'S':
		return complement(asciiSpaceRanges)
	case 'w':
		return asciiWordRanges
	}
	return complement(asciiWordRanges)
}

func writeRanges(b *strings.Builder, ranges []runeRange) {
	for _, r := range ranges {
		writeClassRune(b, r.low)
		if r.high > r.low {
			b.WriteByte('-')
			writeClassRune(b, r.high)
		}
	}
}

// writeClassRune writes a member of a class. The library's escape has four
// hexadecimal digits; what is larger stands for itself.
func writeClassRune(b *strings.Builder, r rune) {
	switch {
	case r > 0xFFFF:
		b.WriteRune(r)
	case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z':
		b.WriteByte(byte(r))
	default:
		fmt.Fprintf(b, `\u%04X`, r)
	}
}

// literal writes one character. A lone surrogate is legal in a pattern of
// Python and is in no text that was decoded strictly.
func (e *emitter) literal(r rune) {
	switch {
	case r >= 0xD800 && r <= 0xDFFF:
		e.out.WriteString(`(?!)`)
	case r < 0x20, r == 0x7F:
		fmt.Fprintf(&e.out, `\u%04X`, r)
	case strings.ContainsRune(`\*+?|{}[]()^$.# `, r):
		e.out.WriteByte('\\')
		e.out.WriteRune(r)
	default:
		e.out.WriteRune(r)
	}
}
