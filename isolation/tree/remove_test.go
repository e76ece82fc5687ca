package tree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func makeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The names under which directories are moved up may be in the tree already.
func TestEmptyTreeThatUsesTheNamesOfRemoval(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		makeFile(t, filepath.Join(dir, fmt.Sprintf("removed-%d", i), "sub", "file"))
	}
	empty(t, dir)
}

// The trash of a run is emptied in the background, and once more when the run
// ends.
func TestEmptyTwiceAtTheSameTime(t *testing.T) {
	for range 200 {
		dir := t.TempDir()
		for i := range 3 {
			for j := range 3 {
				makeFile(t, filepath.Join(dir, fmt.Sprint("cell-", i), fmt.Sprint("a", j), "b", "file"))
			}
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { empty(t, dir) })
		}
		both.Wait()
	}
}
