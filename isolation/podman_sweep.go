package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// sweepContainers removes the containers that a run noted and did not remove:
// those of a dead podgrade, whose processes the kernel has ended with it, and
// at our own end those that could not be removed before.
func (h *Host) sweepContainers(ctx context.Context, run string) error {
	names, err := notedContainers(run)
	if err != nil || len(names) == 0 {
		return err
	}
	if err := h.forceRemove(ctx, names...); err != nil {
		return &Fault{Tried: "remove containers", On: strings.Join(names, " "), Why: err, Do: "podman rm --force " + strings.Join(names, " ")}
	}
	for _, name := range names {
		err = errors.Join(err, os.Remove(filepath.Join(containerList(run), name)))
	}
	return err
}

// Podman takes a container whose processes have ended with its podgrade for one that
// runs, until it tries to kill it. That attempt fails, and finds it out.
const (
	removeTries = 4
	removePause = 50 * time.Millisecond
)

// forceRemove removes containers, as many as there still are of these.
func (h *Host) forceRemove(ctx context.Context, names ...string) (err error) {
	args := append([]string{"rm", "--force", "--ignore", "--time=0", "--"}, names...)
	for try := range removeTries {
		if _, err = h.podmanSays(ctx, args...); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Duration(try) * removePause)
	}
	return err
}

// notedContainers are the names of the containers that a run noted and did not
// strike out.
func notedContainers(run string) (names []string, err error) {
	entries, err := os.ReadDir(containerList(run))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if containerName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// podmanSays runs one Podman command and returns what it printed, without the
// white space around it. That the command failed is an error.
func (h *Host) podmanSays(ctx context.Context, args ...string) (string, error) {
	out, said, code, err := h.runPodman(ctx, args...)
	if err == nil && code != 0 {
		err = podmanFailed(said, code)
	}
	return strings.TrimSpace(string(out)), err
}

// podmanFailed is why a command of Podman's failed; one that the kernel ended said
// nothing.
func podmanFailed(said string, code int) error {
	switch {
	case said == "":
		return fmt.Errorf("podman said nothing, and ended with exit code %d", code)
	case remotePodman(said):
		return errors.New("it is the client of another Podman: `remote = true` in containers.conf, or podman-remote under its name")
	}
	return errors.New("podman said: " + said)
}

// remotePodman tells whether what Podman said means that it does nothing itself.
func remotePodman(said string) bool { return strings.Contains(said, "unknown flag: "+cgroupManager) }
