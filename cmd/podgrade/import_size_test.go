package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// No size at all is a mistake, and not the largest one.
func TestAnImportOfNoSizeIsRefused(t *testing.T) {
	for _, size := range []string{"0", "0GB"} {
		var stderr bytes.Buffer
		args := []string{"podgrade", "import", "--max-size", size, "-o", filepath.Join(t.TempDir(), "in"), "a.tar"}
		if code := run(t.Context(), args, &bytes.Buffer{}, &stderr); code != 2 || !strings.Contains(stderr.String(), "--max-size") {
			t.Errorf("%s: exit code %d: %s", size, code, &stderr)
		}
	}
}
