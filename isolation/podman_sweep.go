package isolation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// sweepContainers removes the containers that a run noted and did not remove:
// those of a dead podgrade, whose processes the kernel has ended with it, and
// at our own end those that could not be removed before.
func (h *Host) sweepContainers(ctx context.Context, run string) error {
	entries, err := os.ReadDir(containerList(run))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if containerName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil
	}
	if _, err := h.podmanSays(ctx, append([]string{"rm", "--force", "--time=0", "--ignore", "--"}, names...)...); err != nil {
		return &Fault{Tried: "remove containers", On: strings.Join(names, " "), Why: err, Do: "podman rm --force " + strings.Join(names, " ")}
	}
	for _, name := range names {
		err = errors.Join(err, os.Remove(filepath.Join(containerList(run), name)))
	}
	return err
}

// podmanSays runs one Podman command and returns what it printed, without the
// white space around it. That the command failed is an error.
func (h *Host) podmanSays(ctx context.Context, args ...string) (string, error) {
	out, said, code, err := h.runPodman(ctx, args...)
	if err == nil && code != 0 {
		err = errors.New("podman said: " + said)
	}
	return strings.TrimSpace(string(out)), err
}
