package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// No size at all is a mistake, and not the largest one; so is a number alone.
func TestAnImportOfNoSizeIsRefused(t *testing.T) {
	for _, size := range []string{"0", "0GB", "20"} {
		var stderr bytes.Buffer
		for _, args := range [][]string{
			{"podgrade", "import", "--max-size", size, "-o", filepath.Join(t.TempDir(), "in"), "a.tar"},
			{"podgrade", "images", "import", "--max-size", size, "a.tar"},
		} {
			stderr.Reset()
			if code := run(t.Context(), args, &bytes.Buffer{}, &stderr); code != 2 || !strings.Contains(stderr.String(), "--max-size") {
				t.Errorf("%s: exit code %d: %s", args, code, &stderr)
			}
		}
	}
}

// A device is refused before anything starts: it may never end.
func TestADeviceIsNoArchive(t *testing.T) {
	var stderr bytes.Buffer
	args := []string{"podgrade", "images", "import", "/dev/zero", "localhost/zero:1"}
	if code := run(t.Context(), args, &bytes.Buffer{}, &stderr); code != 2 || !strings.Contains(stderr.String(), "neither a regular file nor a pipe") {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
}
