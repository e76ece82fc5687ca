package python

import (
	"sync"
	"unicode"
)

// casePair is a character and its different simple lower case.
type casePair struct{ from, lower rune }

// caseTable is what case-insensitive matching needs of Unicode.
type caseTable struct {
	pairs []casePair
	// same are the lower case characters that share one upper case, which
	// Python treats as equal too: i and dotless i, s and long s, ...
	same [][]rune
}

// caseTables is made on first use: it walks all of Unicode once.
var caseTables = sync.OnceValue(func() caseTable {
	var table caseTable
	byUpper := map[rune][]rune{}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		lower, upper := unicode.ToLower(r), unicode.ToUpper(r)
		if lower != r {
			table.pairs = append(table.pairs, casePair{r, lower})
		}
		if upper != r {
			byUpper[upper] = append(byUpper[upper], r)
		}
	}
	for upper, members := range byUpper {
		lowers := distinctLowers(append(members, upper))
		if len(lowers) > 1 {
			table.same = append(table.same, lowers)
		}
	}
	// These share an upper case of several characters (SpecialCasing.txt).
	table.same = append(table.same, []rune{0x390, 0x1FD3}, []rune{0x3B0, 0x1FE3}, []rune{0xFB05, 0xFB06})
	return table
})

func distinctLowers(runes []rune) []rune {
	var out []rune
	seen := map[rune]bool{}
	for _, r := range runes {
		if lower := unicode.ToLower(r); !seen[lower] {
			seen[lower] = true
			out = append(out, lower)
		}
	}
	return out
}

// ignoreCase widens ranges to all characters that Python's re.IGNORECASE holds
// to be equal to one in them: x matches when its lower case is the lower case
// of a member, or shares its upper case with one.
func ignoreCase(ranges []runeRange, ascii bool) []runeRange {
	sorted := sortRanges(append([]runeRange(nil), ranges...))
	if ascii {
		return ignoreASCIICase(sorted)
	}
	table := caseTables()
	lower := map[rune]bool{}
	has := func(r rune) bool { return lower[r] || inRanges(sorted, r) }
	for _, p := range table.pairs {
		if inRanges(sorted, p.from) {
			lower[p.lower] = true
		}
	}
	for _, group := range table.same {
		for _, r := range group {
			if has(r) {
				for _, other := range group {
					lower[other] = true
				}
				break
			}
		}
	}
	wide := append([]runeRange(nil), sorted...)
	for _, p := range table.pairs {
		if has(p.lower) {
			wide = append(wide, runeRange{p.from, p.from})
		}
	}
	for r := range lower {
		wide = append(wide, runeRange{r, r})
	}
	return sortRanges(wide)
}

func ignoreASCIICase(sorted []runeRange) []runeRange {
	wide := append([]runeRange(nil), sorted...)
	for c := 'a'; c <= 'z'; c++ {
		upper := c - 'a' + 'A'
		if inRanges(sorted, c) || inRanges(sorted, upper) {
			wide = append(wide, runeRange{c, c}, runeRange{upper, upper})
		}
	}
	return sortRanges(wide)
}
