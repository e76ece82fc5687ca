package python

// Fnmatch is fnmatch.fnmatchcase(name, pattern): "*" any text, "?" one
// character, "[...]" and "[!...]" a class; an unclosed bracket is itself. A
// leading dot is nothing special, and so is a slash.
func Fnmatch(pattern, name string) bool {
	p, n := []rune(pattern), []rune(name)
	i, j := 0, 0
	star, mark := -1, 0
	for j < len(n) {
		if i < len(p) && p[i] == '*' {
			star, mark = i, j
			i++
			continue
		}
		if next, ok := fnmatchOne(p, i, n[j]); ok {
			i, j = next, j+1
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		i, j = star+1, mark
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// fnmatchOne matches one character at p[i], and says where the pattern goes on.
func fnmatchOne(p []rune, i int, r rune) (next int, ok bool) {
	switch {
	case i >= len(p):
		return i, false
	case p[i] == '?':
		return i + 1, true
	case p[i] != '[':
		return i + 1, p[i] == r
	}
	end := fnmatchClassEnd(p, i)
	if end < 0 {
		return i + 1, r == '['
	}
	body := p[i+1 : end]
	negated := len(body) > 0 && body[0] == '!'
	if negated {
		body = body[1:]
	}
	return end + 1, fnmatchClass(body, r) != negated
}

// fnmatchClassEnd finds the bracket that closes the class at p[i]; -1: none.
func fnmatchClassEnd(p []rune, i int) int {
	j := i + 1
	if j < len(p) && p[j] == '!' {
		j++
	}
	if j < len(p) && p[j] == ']' {
		j++
	}
	for j < len(p) && p[j] != ']' {
		j++
	}
	if j >= len(p) {
		return -1
	}
	return j
}

// fnmatchClass says whether r is in the class. A range in reverse order is
// empty.
func fnmatchClass(body []rune, r rune) bool {
	for i := 0; i < len(body); i++ {
		if i+2 < len(body) && body[i+1] == '-' {
			if body[i] <= r && r <= body[i+2] {
				return true
			}
			i += 2
			continue
		}
		if body[i] == r {
			return true
		}
	}
	return false
}
