package isolation

// Lost tells whether the worker has ended, so that no cell can be opened any
// more: another Host can. Close is still due.
func (h *Host) Lost() bool { return h.gone() }
