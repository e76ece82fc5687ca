package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/oci"
)

// HookName is the file of Podman's hook in its hooks directory.
const HookName = "podgrade.json"

// maxConfiguration caps a container's configuration, in bytes: Podman's own
// have some 60 KiB.
const maxConfiguration = 4 << 20

// HookFile describes Podman's hook (oci-hooks(5)): for a container with our
// annotation, the program at path is given what Podman made, and the runtime
// what the program returns.
func HookFile(path string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"version": "1.0.0",
		"hook":    map[string]any{"path": path, "args": []string{filepath.Base(path), StageHook}},
		"when":    map[string]any{"annotations": map[string]string{"^podgrade\\.spec$": "^/"}},
		"stages":  []string{"precreate"},
	})
}

// hook turns the configuration of a container that Podman made into the cell's.
func hook(in io.Reader, out io.Writer) error {
	var generated, wanted specs.Spec
	if err := decode(in, &generated); err != nil {
		return fmt.Errorf("read the configuration that Podman made: %w", err)
	}
	path := generated.Annotations[oci.SpecAnnotation]
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Errorf("find the cell's specification: the annotation %s is %q, not a clean absolute path", oci.SpecAnnotation, path)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("find the cell's specification: %w", err)
	}
	defer file.Close()
	if err := decode(file, &wanted); err != nil {
		return fmt.Errorf("read the cell's specification: %w", err)
	}
	adjusted, err := oci.Adjust(&generated, &wanted)
	if err != nil {
		return err
	}
	if err := os.WriteFile(rootFile(path), []byte(generated.Root.Path), 0o600); err != nil {
		return fmt.Errorf("note where Podman mounted the image: %w", err)
	}
	return json.NewEncoder(out).Encode(adjusted)
}

// rootFile is where the hook notes, for the cell of a specification, which
// directory Podman gives its container for a root: what the runtime makes of it is
// measured later.
func rootFile(specFile string) string { return filepath.Join(filepath.Dir(specFile), "root") }

func decode(r io.Reader, s *specs.Spec) error {
	text, err := io.ReadAll(io.LimitReader(r, maxConfiguration+1))
	if err == nil && len(text) > maxConfiguration {
		err = errors.New("it is too large")
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, s)
}
