package python

// flagOf is the flag of an inline letter; 0: none.
func flagOf(c rune) int {
	switch c {
	case 'i':
		return FlagIgnoreCase
	case 'L':
		return FlagLocale
	case 'm':
		return FlagMultiline
	case 's':
		return FlagDotAll
	case 'x':
		return FlagVerbose
	case 'a':
		return FlagASCII
	case 'u':
		return FlagUnicode
	}
	return 0
}

const typeFlags = FlagASCII | FlagLocale | FlagUnicode

// inlineFlags reads (?flags) and (?flags-flags:...), from the first letter on.
func (p *regexParser) inlineFlags(s scope, start int, first bool) (*node, error) {
	add, err := p.flagLetters(true)
	if err != nil {
		return nil, err
	}
	if p.accept(')') {
		if !first {
			return nil, p.errorAt(start, "global flags not at the start of the expression")
		}
		if add&FlagVerbose != 0 && p.flags&FlagVerbose == 0 {
			return nil, errVerbose
		}
		p.flags |= add
		return nil, nil
	}
	remove := 0
	if p.accept('-') {
		if remove, err = p.flagLetters(false); err != nil {
			return nil, err
		}
		if add&remove != 0 {
			return nil, p.errorAt(p.pos, "bad inline flags: flag turned on and off")
		}
	}
	if !p.accept(':') {
		return nil, p.errorAt(p.pos, "missing :")
	}
	if add&typeFlags != 0 {
		s.flags &^= typeFlags
	}
	s.flags = (s.flags | add) &^ remove
	s.clear = (s.clear | remove) &^ add
	return p.enclosed(s, start)
}

// flagLetters reads letters up to what ends them.
func (p *regexParser) flagLetters(on bool) (int, error) {
	flags := 0
	for {
		c := p.peek()
		if c == ')' || c == ':' || c == '-' {
			if flags == 0 && (!on || c != '-') {
				return 0, p.errorAt(p.pos, "missing flag")
			}
			return flags, nil
		}
		flag := flagOf(c)
		switch {
		case c == -1:
			return 0, p.errorAt(p.pos, "missing -, : or )")
		case flag == 0:
			return 0, p.errorAt(p.pos, "unknown flag")
		case c == 'L' && on:
			return 0, p.errorAt(p.pos, "bad inline flags: cannot use 'L' flag with a str pattern")
		case !on && flag&typeFlags != 0:
			return 0, p.errorAt(p.pos, "bad inline flags: cannot turn off flags 'a', 'u' and 'L'")
		}
		flags |= flag
		if on && flag&typeFlags != 0 && flags&typeFlags != flag {
			return 0, p.errorAt(p.pos, "bad inline flags: flags 'a', 'u' and 'L' are incompatible")
		}
		p.pos++
	}
}
