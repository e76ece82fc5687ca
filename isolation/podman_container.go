package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/isolation/libpod"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// endedGrace bounds how long Podman may take to note that a container has ended
// whose first process is gone. It never does when somebody has killed conmon.
const endedGrace = 3 * time.Second

// containerGrace bounds how long a container may take to end and be removed.
const containerGrace = 30 * time.Second

// The containers of a run are noted in its directory before they are made, and
// struck out when they are removed: a later podgrade removes those of a dead
// run by this list.
func containerList(run string) string { return filepath.Join(run, "containers") }

// containerName is what the names of our containers look like.
var containerName = regexp.MustCompile(`^podgrade-run-[a-z0-9]{1,32}-(cell-[0-9]{1,9}|holder)-[0-9]{1,9}$`)

// createContainer asks Podman for the container; nothing of it runs yet.
func (c *cell) createContainer(ctx context.Context, spec *specs.Spec, raw []byte) error {
	specFile, err := c.entrust(ctx, raw)
	if err != nil {
		return err
	}
	group, err := c.limits.forRuntime()
	if err != nil {
		return &Fault{Tried: "limit the cell", On: "of " + c.order.Image.Pin.String(), Why: err}
	}
	c.containers++
	c.container = fmt.Sprintf("podgrade-%s-%s-%d", filepath.Base(c.host.run.dir), c.name, c.containers)
	labels, err := ownerLabels(c.host.run.dir)
	if err == nil {
		err = c.host.noteContainer(c.container)
	}
	if err != nil {
		return &Fault{Tried: "make a container", Why: err}
	}
	lowered, err := json.Marshal(oci.Lower(spec, oci.ContainerFacts{
		Name: c.container, Image: c.order.Image.Pin.ID, Labels: labels, Runtime: filepath.Base(c.host.runtime.Path),
		SpecFile: specFile, SeccompProfile: worker.SeccompFile(specFile), Group: group,
	}))
	if err != nil {
		return &Fault{Tried: "make a container", Why: err}
	}
	s, err := c.host.podmanService(ctx)
	if err != nil {
		return err
	}
	if _, err = s.api.ask(ctx, libpod.Call{Create: lowered}); err == nil {
		return nil
	}
	fault := c.failed("make a container", err)
	if errors.Is(imageFault("", err), ErrNoImage) {
		fault = removedFault("make a container", c.order.Image)
	}
	return fault
}

func (h *Host) noteContainer(name string) error {
	list := containerList(h.run.dir)
	if err := os.MkdirAll(list, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(list, name), nil, 0o600)
}

func (h *Host) strikeContainer(name string) error {
	return os.Remove(filepath.Join(containerList(h.run.dir), name))
}

// containerPID is the container's first process, as the worker counts: the
// service and what it starts are in the worker's pid namespace.
func (c *cell) containerPID(ctx context.Context) (int, error) {
	s, err := c.host.podmanService(ctx)
	if err != nil {
		return 0, err
	}
	found, err := s.inspect(ctx, c.container)
	if err != nil {
		return 0, err
	}
	if found.PID <= 1 {
		return 0, errors.New("podman says that it has none")
	}
	return found.PID, nil
}

func (c *cell) runContainer(ctx context.Context) error {
	s, err := c.host.podmanService(ctx)
	if err != nil {
		return err
	}
	_, err = s.api.ask(ctx, libpod.Call{Start: c.container})
	return err
}

func (s *service) inspect(ctx context.Context, name string) (libpod.Container, error) {
	answer, err := s.api.ask(ctx, libpod.Call{Inspect: name})
	if err == nil && answer.Container == nil {
		err = errors.New("podman's answer says nothing about it")
	}
	if err != nil {
		return libpod.Container{}, err
	}
	return *answer.Container, nil
}

// removeContainer waits for the container's end, removes it and says how it
// ended. When the service was ended meanwhile another one does it.
func (c *cell) removeContainer(ctx context.Context) string {
	how := "unknown"
	s, err := c.host.podmanService(ctx)
	if err == nil {
		how, err = s.remove(ctx, c.container)
	}
	if err != nil {
		return fmt.Sprintf("its container %s could not be removed: %v", c.container, err)
	}
	if err := c.host.strikeContainer(c.container); err != nil {
		return err.Error()
	}
	c.container = ""
	return how
}

// remove waits first: a container that is removed while Podman still notes its
// end is "in an improper state", and stays.
func (s *service) remove(ctx context.Context, name string) (string, error) {
	how := "it was never started"
	found, err := s.inspect(ctx, name)
	if isNotFound(err) {
		return how, nil
	}
	if err == nil && found.Status != "" && found.Status != "created" {
		waiting, cancel := context.WithTimeout(ctx, endedGrace)
		waited, err := s.api.ask(waiting, libpod.Call{Wait: name})
		cancel()
		how = ended(waited.Code, err)
	}
	for {
		_, err := s.api.ask(ctx, libpod.Call{Remove: name})
		switch {
		case err == nil || isNotFound(err):
			return how, nil
		case !strings.Contains(err.Error(), "improper"):
			return how, err
		}
		select {
		case <-ctx.Done():
			return how, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ended(code int32, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case code > 128:
		return fmt.Sprintf("ended by signal %d", code-128)
	}
	return fmt.Sprintf("exit code %d", code)
}
