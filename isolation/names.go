package isolation

import (
	"errors"
	"strconv"
	"unicode/utf8"
)

// nameFault refuses a path that the worker, the runtime and Podman cannot be told:
// they read JSON, whose texts are UTF-8.
func nameFault(path string) error {
	if !utf8.ValidString(path) {
		return errors.New("its path is not UTF-8")
	}
	return nil
}

// namesFault refuses an order with a directory that a cell cannot be shown for its
// name.
func (o Order) namesFault() error {
	for _, path := range append([]string{o.Workspace, o.TaskDir, o.Reference, o.Row}, o.Hidden...) {
		if err := nameFault(path); err != nil {
			return &Fault{Kind: Refusal, Tried: "show a cell the directory", On: strconv.QuoteToASCII(path), Why: err,
				Do: "rename it, or what it lies in"}
		}
	}
	return nil
}
