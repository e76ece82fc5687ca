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
