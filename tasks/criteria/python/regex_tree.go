package python

import "math"

// nodeKind tells what a node of a parsed pattern is.
type nodeKind int

const (
	nodeConcat    nodeKind = iota // kids one after another
	nodeBranch                    // one of kids
	nodeSet                       // one character of set
	nodeAny                       // one character; all: line feed too
	nodeAnchor                    // a position, by letter
	nodeRepeat                    // kids[0], min to max times
	nodeGroup                     // kids[0], captured as group
	nodeAtomic                    // kids[0], without backtracking into it
	nodeBackref                   // what group captured
	nodeCondition                 // kids[0] when group matched, else kids[1]
	nodeLook                      // kids[0] ahead or behind
	nodeFail                      // never matches
)

// repeatMode is how a repeat tries.
type repeatMode int

const (
	greedy repeatMode = iota
	lazy
	possessive
)

// node is one node of a parsed pattern. Flags are resolved: each leaf says
// itself whether it ignores case, and so on.
type node struct {
	kind    nodeKind
	kids    []*node
	set     *charSet
	all     bool // nodeAny
	anchor  rune // nodeAnchor: ^ $ A Z b B
	flags   int  // nodeAnchor, nodeBackref: the flags in force
	min     int64
	max     int64 // unlimited: maxRepeat
	mode    repeatMode
	group   int
	behind  bool
	negated bool
	width   int64 // nodeLook behind: of kids[0]
}

// maxRepeat is Python's MAXREPEAT: "any number".
const maxRepeat = math.MaxUint32

// widthRange is how many characters a node can match.
type widthRange struct{ min, max int64 }

func addWidths(a, b int64) int64 {
	if sum := a + b; sum < math.MaxInt32*2 {
		return sum
	}
	return math.MaxInt32 * 2
}

func timesWidth(width, times int64) int64 {
	if width == 0 || times == 0 {
		return 0
	}
	if times >= maxRepeat || width > math.MaxInt32*2/times {
		return math.MaxInt32 * 2
	}
	return width * times
}

// widthRange measures n; groups are the widths of the groups that are closed.
func (n *node) widthRange(groups []*widthRange) widthRange {
	switch n.kind {
	case nodeSet, nodeAny:
		return widthRange{1, 1}
	case nodeConcat:
		var w widthRange
		for _, kid := range n.kids {
			k := kid.widthRange(groups)
			w = widthRange{addWidths(w.min, k.min), addWidths(w.max, k.max)}
		}
		return w
	case nodeBranch, nodeCondition:
		w := n.kids[0].widthRange(groups)
		for _, kid := range n.kids[1:] {
			k := kid.widthRange(groups)
			w = widthRange{min(w.min, k.min), max(w.max, k.max)}
		}
		return w
	case nodeRepeat:
		w := n.kids[0].widthRange(groups)
		return widthRange{timesWidth(w.min, n.min), timesWidth(w.max, n.max)}
	case nodeGroup, nodeAtomic:
		return n.kids[0].widthRange(groups)
	case nodeBackref:
		if w := groups[n.group]; w != nil {
			return *w
		}
	}
	return widthRange{}
}
