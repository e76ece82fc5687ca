package tree_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"podgrade/isolation/tree"
)

// A cell has two or three small trees: none of them may cost the memory that a
// large file is copied with.
func TestASmallTreeTakesLittleMemory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 2000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root := openDir(t, dir)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := tree.Digest(context.Background(), root, tree.Options{})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > 128<<10 {
		t.Errorf("%d bytes for three small files, %v", took, err)
	}
}
