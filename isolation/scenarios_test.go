package isolation_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/isolation"
	"podgrade/oci"
)

// Scenarios of spec/regrade.md 5, by their numbers.

// D-77: what a failed build said is in the error, and no image comes of it.
func TestD77AFailedBuildSaysWhatItSaid(t *testing.T) {
	const reference = "localhost/podgrade-test/broken:1"
	dir := t.TempDir()
	file := filepath.Join(dir, "Containerfile")
	text := "FROM " + as(t, "").Pin.Reference + "\nRUN echo the compiler is missing >&2; exit 3\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := host(t).Build(ctx(t), isolation.BuildOrder{Containerfile: file, ContextDir: dir, Reference: reference})
	if err == nil {
		t.Fatal("it was built")
	}
	if !errors.Is(err, isolation.ErrBuild) {
		t.Errorf("it is not the build's own failure: %v", err)
	}
	for _, word := range []string{"build the image", reference, "the compiler is missing", "exit status 3"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	if _, err := host(t).Image(ctx(t), reference); !errors.Is(err, isolation.ErrNoImage) {
		t.Errorf("an image came of it: %v", err)
	}
}

// D-86: what a cell was given of the reference is removed after a kill in the
// middle of a command, modes of 000 and all.
func TestD86AKilledGradeLeavesNoReferenceBehind(t *testing.T) {
	o := options(t)
	one := order(t, as(t, "1000"))
	one.Reference = t.TempDir()
	closed := filepath.Join(one.Reference, "closed")
	if err := errors.Join(os.Mkdir(closed, 0o700), os.WriteFile(filepath.Join(closed, "answer.txt"), []byte("42"), 0o600), os.Chmod(closed, 0o500)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(closed, 0o700) })
	cmd, said := startLooper(t, looper{Options: o, Order: one, Stay: true})
	if !said.Scan() || said.Text() != "ready" {
		t.Fatalf("it opened no cell: %q", said.Text())
	}
	if left, err := os.ReadDir(o.Scratch); err != nil || len(left) == 0 {
		t.Fatalf("nothing lies in the scratch: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it was killed
	allGone(t, o.Scratch)
	nothingLeft(t, o)
	if text, err := os.ReadFile(filepath.Join(closed, "answer.txt")); err != nil || string(text) != "42" {
		t.Errorf("the reference itself was touched: %q, %v", text, err)
	}
}

// D-95: directories that only a subordinate id of the caller may enter are
// removed with the cell, and none appears in the evidence.
func TestD95DirectoriesOfSubordinateIDsDoNotStay(t *testing.T) {
	for _, engine := range engines {
		o := options(t)
		h := start(t, o)
		one := order(t, as(t, "65532:65532"))
		one.Engine = engine
		c := openOn(t, h, one)
		want(t, c, "mkdir -p -m 0700 mine/deep && echo x > mine/deep/x && chmod 0 mine/deep mine; stat -c '%u %a' mine", "65532 0\n")
		if err := errors.Join(c.Close(), h.Close()); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(o.Scratch); err != nil || len(left) != 0 {
			t.Errorf("%s: left in the scratch: %v, %v", engine, left, err)
		}
		if left, err := os.ReadDir(one.Workspace); err != nil || len(left) != 1 {
			t.Errorf("%s: the evidence holds %v, %v", engine, left, err)
		}
	}
}

// D-80: a cell's bounding, permitted and effective sets are compared as a
// whole, so one capability more or less of a started cell has no place to hide.
func TestD80EveryCapabilityOfAStartedCellIsAsserted(t *testing.T) {
	for name, change := range map[string]func(*isolation.Order){"sealed": func(*isolation.Order) {}, "docker": withDockerCapabilities} {
		c := open(t, as(t, ""), change)
		measured, err := isolation.Measure(ctx(t), c)
		if err != nil {
			t.Fatal(err)
		}
		spec := specOf(t, c)
		for _, capability := range append(oci.DockerCapabilities(), "CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_NET_ADMIN", "CAP_CHECKPOINT_RESTORE") {
			other := *spec
			process, sets := *spec.Process, *spec.Process.Capabilities
			sets.Bounding = toggled(sets.Bounding, capability)
			process.Capabilities, other.Process = &sets, &process
			if d := oci.Verify(&other, *measured, oci.Sealed); len(d) != 1 || !strings.HasPrefix(d[0], "CapBnd") {
				t.Errorf("%s, with another answer about %s: %q", name, capability, d)
			}
		}
	}
}

func specOf(t *testing.T, c isolation.Cell) *specs.Spec {
	t.Helper()
	spec := c.Made().Spec
	if spec == nil {
		t.Fatal("the cell has no specification")
	}
	return spec
}

// toggled is a set with a capability more, or less.
func toggled(set []string, capability string) []string {
	if slices.Contains(set, capability) {
		return slices.DeleteFunc(slices.Clone(set), func(each string) bool { return each == capability })
	}
	return append(slices.Clone(set), capability)
}
