package isolation

import (
	"context"

	"github.com/containers/podman/v5/pkg/bindings/images"
)

// What Podman's service is asked about images: each function is one call, with
// plain data in and out. conn carries the connection.

// pullCall asks for an image of a registry.
type pullCall struct {
	Reference string
	AuthFile  string // of the caller's log-ins; "": Podman's own
}

// servicePull returns the id of the image that was pulled.
func servicePull(conn context.Context, call pullCall) (id string, err error) {
	options := new(images.PullOptions).WithQuiet(true)
	if call.AuthFile != "" {
		options = options.WithAuthfile(call.AuthFile)
	}
	ids, err := images.Pull(conn, call.Reference, options)
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}
