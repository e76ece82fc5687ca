package isolation

import (
	"context"
	"io"
)

// Inside runs a program of this host inside the worker's namespaces, where
// Podman needs no set-up of its own, and returns its exit code. argv[0] is a
// path. It is how measurements run Podman and the runtime by hand.
func (h *Host) Inside(ctx context.Context, argv []string, stdout, stderr io.Writer) (int, error) {
	return h.privilege.podman(ctx, h, argv, nil, orDiscard(stdout), orDiscard(stderr))
}

// PodmanPath is the Podman that is used.
func (h *Host) PodmanPath() string { return h.podman }

// RuntimePath is the OCI runtime that is used.
func (h *Host) RuntimePath() string { return h.runtime.Path }
