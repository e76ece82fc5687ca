package policy

// vouches tells whether a signature answers for grants of the kind (design:
// Trust). The user's own execute made the row, so that nothing is asked. A
// trusted key of somebody else answers for the image and for what runs in a cell
// of it; this host's variables, paths, builds and command lines are not theirs to
// give away, nor are its network and the capabilities of a cell.
func (s Signer) vouches(kind Kind) bool {
	switch s {
	case Own:
		return true
	case Trusted:
		switch kind {
		case Image, StateLayer, Command, WorkingDir, Limit:
			return true
		}
	}
	return false
}
