package states

// Space tells how much room layers take, each byte that is shared counted once.
type Space struct {
	layers  map[string]layerSpace // by their directories
	holders map[string]int        // how many layers hold the bytes of a sum
	sharers map[string]int        // how many need them of others
	own     int64
	outside int64
}

// layerSpace is what one layer takes, by itself, and of what can be shared.
type layerSpace struct {
	own  int64
	list []file
}

// SpaceOf reads how much room these layers take together. Those of which nothing
// can be read take none.
func SpaceOf(dirs []string) *Space {
	s := &Space{layers: map[string]layerSpace{}, holders: map[string]int{}, sharers: map[string]int{}}
	for _, dir := range dirs {
		info, _, err := ReadInfo(dir)
		if err != nil {
			continue
		}
		l := layerSpace{own: info.Bytes - info.SharedBytes}
		if list, err := listOf(dir); err == nil {
			l.list = list
		}
		s.layers[dir] = l
		s.count(l, 1)
	}
	return s
}

// Remove takes a layer out.
func (s *Space) Remove(dir string) {
	s.count(s.layers[dir], -1)
	delete(s.layers, dir)
}

// count adds a layer, or takes it out.
func (s *Space) count(l layerSpace, n int) {
	s.own += int64(n) * l.own
	for _, f := range l.list {
		before := s.isOutside(f.SHA256)
		if f.shared {
			s.sharers[f.SHA256] += n
		} else {
			s.holders[f.SHA256] += n
		}
		switch after := s.isOutside(f.SHA256); {
		case after && !before:
			s.outside += f.Size
		case before && !after:
			s.outside -= f.Size
		}
	}
}

func (s *Space) isOutside(sum string) bool { return s.sharers[sum] > 0 && s.holders[sum] == 0 }

// Outside are the bytes that layers need and that none of them holds.
func (s *Space) Outside() int64 { return s.outside }

// Bytes are those of all the layers together.
func (s *Space) Bytes() int64 { return s.own + s.outside }
