package tree

import "slices"

// Omission is what Pack leaves out of an archive, and Unpack refuses in one.
type Omission struct {
	// NoLinks is without any link.
	NoLinks bool `json:"no_links,omitempty"`
	// Top are names that are left out of the root of the tree.
	Top []string `json:"top,omitempty"`
	// TopOnly are names that are left out everywhere else.
	TopOnly []string `json:"top_only,omitempty"`
	// Only are the names of files that are taken, with the directories that hold
	// some; empty: all is taken.
	Only []string `json:"only,omitempty"`
	// Without are the names of directories that are left out wherever they are
	// met.
	Without []string `json:"without,omitempty"`
}

// omits tells whether what has this name is left out, a link apart; top is the
// root of the tree.
func (o Omission) omits(base string, top, dir bool) bool {
	switch {
	case top && slices.Contains(o.Top, base), !top && slices.Contains(o.TopOnly, base):
		return true
	case dir:
		return slices.Contains(o.Without, base)
	}
	return len(o.Only) > 0 && !slices.Contains(o.Only, base)
}
