package isolation

import (
	"context"
	"os"
	"path/filepath"

	"podgrade/isolation/worker"
)

// RemoveHook starts Podman's service and takes its hook away.
func RemoveHook(ctx context.Context, h *Host) error {
	s, err := h.podmanService(ctx)
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(s.dir, "hooks", worker.HookName))
}

// KillService kills Podman's service, as somebody else might, and returns when it
// is dead.
func KillService(h *Host) {
	h.mu.Lock()
	s := h.service
	h.mu.Unlock()
	s.cancel()
	<-s.ended
}

// KillCaller kills the program that asks Podman's service, which lives on.
func KillCaller(h *Host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.service.api.process.Process.Kill()
	<-h.service.api.ended
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
