package isolation

import (
	"errors"
	"testing"
)

// What a broken Podman says is not taken for an image that is not there, which
// would be the row's affair.
func TestOnlyAMissingImageIsOne(t *testing.T) {
	for said, missing := range map[string]bool{
		"Error: inspecting object: localhost/x: image not known":                                                  true,
		"Error: no such image localhost/x":                                                                        true,
		"Error: failed to find image localhost/x: no such image":                                                  true,
		"podman: error while loading shared libraries: libgpgme.so.11: cannot open shared object file: not found": false,
		`Error: could not find "crun": executable file not found in $PATH`:                                        false,
		"": false,
	} {
		if err := imageFault("localhost/x", errors.New(said)); errors.Is(err, ErrNoImage) != missing {
			t.Errorf("%q is %v", said, err)
		}
	}
}
