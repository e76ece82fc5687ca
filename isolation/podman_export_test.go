package isolation

import (
	"context"
	"os"
	"path/filepath"

	"podgrade/isolation/worker"
)

// RemoveHook starts Podman's service and takes its hook away.
func RemoveHook(ctx context.Context, h *Host) error {
	if _, err := h.podmanService(ctx); err != nil {
		return err
	}
	return os.Remove(filepath.Join(h.run.dir, "hooks", worker.HookName))
}

// KillService kills Podman's service, as somebody else might.
func KillService(h *Host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.service.cancel()
}

// Demultiplex is what takes the streams of a container apart.
var Demultiplex = demultiplex

// ServiceSocket starts Podman's service and returns the path of its socket.
func ServiceSocket(ctx context.Context, h *Host) (string, error) {
	s, err := h.podmanService(ctx)
	if err != nil {
		return "", err
	}
	return s.socket(), nil
}
