package tree

// SetMaxDepth sets how deep a tree may be.
func SetMaxDepth(depth int) { maxDepth = depth }
