package isolation

import (
	"context"
	"fmt"
	"strings"

	"podgrade/oci"
)

// The engines: how a cell is made.
const (
	EngineAuto   = "auto"   // bundle where it works, else podman
	EngineBundle = "bundle" // our own OCI bundle on Podman's image store
	EnginePodman = "podman" // a container of Podman
	EngineHost   = "host"   // no container; never chosen
)

// Engines are those that can be asked for.
func Engines() []string { return []string{EngineAuto, EngineBundle, EnginePodman} }

// overlayDriver is the storage driver that the bundle engine needs.
const overlayDriver = "overlay"

// chooseEngine says which engine makes a cell, and why.
func (h *Host) chooseEngine(o Order) (engine, reason string, err error) {
	asked := o.Engine
	if asked == "" {
		asked = h.options.Engine
	}
	driver := o.Image.Driver
	switch asked {
	case EngineBundle:
		if driver != overlayDriver {
			return "", "", &Fault{Kind: Refusal, Tried: "use the image", On: o.Image.Pin.String(),
				Why: fmt.Errorf("it is kept with the storage driver %q, and the bundle engine needs %s", driver, overlayDriver),
				Do:  `use --engine podman, or write [storage] driver = "overlay" into ~/.config/containers/storage.conf and make the image again`}
		}
		return EngineBundle, "asked for", nil
	case EnginePodman:
		return EnginePodman, "asked for", nil
	case "", EngineAuto:
		if driver != overlayDriver {
			return EnginePodman, fmt.Sprintf("the storage driver is %s, and the bundle engine needs %s", driver, overlayDriver), nil
		}
		engine, reason := PlannedEngine(asked)
		return engine, reason, nil
	}
	return "", "", &Fault{Kind: Refusal, Tried: "choose an engine", Why: fmt.Errorf("there is no engine %q", asked), Do: "the engines are " + strings.Join(Engines(), ", ")}
}

// PlannedEngine says which engine will make cells and why, before an image is
// looked for: where the images are not kept with the storage driver overlay,
// auto takes EnginePodman.
func PlannedEngine(asked string) (engine, reason string) {
	switch {
	case asked != "" && asked != EngineAuto:
		return asked, "asked for"
	case seLinuxEnforces(seLinuxFile):
		return EnginePodman, "SELinux is enforcing, and the bundle engine gives no labels"
	}
	return EngineBundle, "default"
}

// Open makes a cell with the engine that the order, else the options of the
// host ask for; the bundle engine where neither does and it works. The cell
// has been compared with its specification when Open returns; a different one
// is ended and is an error.
func (h *Host) Open(ctx context.Context, o Order) (Cell, error) {
	engine, reason, err := h.chooseEngine(o)
	if err != nil {
		return nil, err
	}
	if o.Plan.Network == oci.Egress {
		if err := networkFault(tunDevice); err != nil {
			return nil, err
		}
	}
	return h.openCell(ctx, o, func(c *cell) {
		c.made.Engine, c.made.EngineReason = engine, reason
		c.made.Runtime = h.runtime.Path
		c.places = Places{Workspace: oci.WorkspacePath, TaskDir: oci.TaskDirPath, Reference: oci.ReferencesPath, Recorder: oci.InitPath}
		if o.WorkingDir != "" {
			c.places.Workspace = o.WorkingDir
		}
		c.boot, c.end, c.check = c.bootBundle, c.endBundle, c.checkLayers
		if engine == EnginePodman {
			c.boot, c.end, c.check = c.bootPodman, c.endPodman, c.checkContainer
		}
	})
}
