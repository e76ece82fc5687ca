package python

import "errors"

// ErrTooManyElements says that sequences are too long to be compared.
var ErrTooManyElements = errors.New("the sequences are too long to be compared")

// MaxElements is the most elements of a sequence that SequenceRatio compares.
const MaxElements = 100_000

// SequenceRatio is difflib.SequenceMatcher(None, a, b).ratio(): twice the
// number of matching elements over the sum of the lengths, where matches are
// found by taking the longest common run (the first one of a, then of b), and
// the same on both sides of it. Elements that make up more than 1 % of a b of
// at least 200 elements start no run (autojunk).
func SequenceRatio(a, b []string) (float64, error) {
	if len(a) > MaxElements || len(b) > MaxElements {
		return 0, ErrTooManyElements
	}
	if len(a)+len(b) == 0 {
		return 1, nil
	}
	m := &matcher{a: a, b: b, places: places(b)}
	m.lengths, m.before = make([]int, len(b)+1), make([]int, len(b)+1)
	matched := m.matched()
	return 2 * float64(matched) / float64(len(a)+len(b)), nil
}

// places lists where each element is in b, without the popular ones.
func places(b []string) map[string][]int {
	where := map[string][]int{}
	for i, element := range b {
		where[element] = append(where[element], i)
	}
	if len(b) >= 200 {
		limit := len(b)/100 + 1
		for element, list := range where {
			if len(list) > limit {
				delete(where, element)
			}
		}
	}
	return where
}

type matcher struct {
	a, b   []string
	places map[string][]int
	// lengths[j+1] is the length of the common run that ends at b[j] and the
	// current element of a; before is the same for the element before it.
	lengths, before []int
}

// span is a pair of ranges that is still to be compared.
type span struct{ aFrom, aTo, bFrom, bTo int }

// matched counts the matching elements.
func (m *matcher) matched() int {
	total := 0
	uncompared := []span{{0, len(m.a), 0, len(m.b)}}
	for len(uncompared) > 0 {
		s := uncompared[len(uncompared)-1]
		uncompared = uncompared[:len(uncompared)-1]
		i, j, n := m.longest(s)
		if n == 0 {
			continue
		}
		total += n
		if s.aFrom < i && s.bFrom < j {
			uncompared = append(uncompared, span{s.aFrom, i, s.bFrom, j})
		}
		if i+n < s.aTo && j+n < s.bTo {
			uncompared = append(uncompared, span{i + n, s.aTo, j + n, s.bTo})
		}
	}
	return total
}

// longest finds the longest common run within s: the earliest in a, and of
// those the earliest in b. Popular elements only make a run longer.
func (m *matcher) longest(s span) (aAt, bAt, length int) {
	aAt, bAt = s.aFrom, s.bFrom
	var touched, touchedBefore []int
	for i := s.aFrom; i < s.aTo; i++ {
		for _, j := range m.places[m.a[i]] {
			if j < s.bFrom {
				continue
			}
			if j >= s.bTo {
				break
			}
			n := m.before[j] + 1
			m.lengths[j+1] = n
			touched = append(touched, j+1)
			if n > length {
				aAt, bAt, length = i-n+1, j-n+1, n
			}
		}
		for _, j := range touchedBefore {
			m.before[j] = 0
		}
		m.lengths, m.before = m.before, m.lengths
		touched, touchedBefore = touchedBefore[:0], touched
	}
	for _, j := range touchedBefore {
		m.before[j] = 0
	}
	for aAt > s.aFrom && bAt > s.bFrom && m.a[aAt-1] == m.b[bAt-1] {
		aAt, bAt, length = aAt-1, bAt-1, length+1
	}
	for aAt+length < s.aTo && bAt+length < s.bTo && m.a[aAt+length] == m.b[bAt+length] {
		length++
	}
	return aAt, bAt, length
}
