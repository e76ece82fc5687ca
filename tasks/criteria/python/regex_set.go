package python

import (
	"sort"
	"unicode"
)

// runeRange is a range of code points, both ends included.
type runeRange struct{ low, high rune }

// charSet is a set of characters: ranges, and categories by their letter
// (d, D, s, S, w, W).
type charSet struct {
	ranges     []runeRange
	categories []rune
	negated    bool
	ascii      bool // categories are the ASCII ones
}

var (
	spaceRanges = []runeRange{
		{0x09, 0x0D}, {0x1C, 0x20}, {0x85, 0x85}, {0xA0, 0xA0}, {0x1680, 0x1680},
		{0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
	}
	asciiSpaceRanges = []runeRange{{0x09, 0x0D}, {0x20, 0x20}}
	asciiDigitRanges = []runeRange{{'0', '9'}}
	asciiWordRanges  = []runeRange{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
)

// complement gives all code points that are in none of the sorted ranges.
func complement(ranges []runeRange) []runeRange {
	var out []runeRange
	next := rune(0)
	for _, r := range ranges {
		if r.low > next {
			out = append(out, runeRange{next, r.low - 1})
		}
		next = r.high + 1
	}
	return append(out, runeRange{next, unicode.MaxRune})
}

// sortRanges sorts and joins ranges.
func sortRanges(ranges []runeRange) []runeRange {
	sort.Slice(ranges, func(i, j int) bool { return ranges[i].low < ranges[j].low })
	var out []runeRange
	for _, r := range ranges {
		if last := len(out) - 1; last >= 0 && r.low <= out[last].high+1 {
			out[last].high = max(out[last].high, r.high)
			continue
		}
		out = append(out, r)
	}
	return out
}

func inRanges(ranges []runeRange, r rune) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].high >= r })
	return i < len(ranges) && ranges[i].low <= r
}
