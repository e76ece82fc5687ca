package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// trash removes directories of finished cells in the background, one after
// another: removing is a third of a cell's time, and nobody waits for it.
type trash struct {
	dir string
	mu  sync.Mutex
	n   int
	due chan struct{}
}

func (t *trash) start(dir string) {
	t.dir, t.due = dir, make(chan struct{}, 1)
	go func() {
		for range t.due {
			// An error stays on disk, where the sweep at the end meets it again.
			_ = sweep(t.dir)
		}
	}()
}

// throw moves a directory into the trash.
func (t *trash) throw(dir string) error {
	t.mu.Lock()
	t.n++
	to := filepath.Join(t.dir, fmt.Sprintf("cell-%d", t.n))
	t.mu.Unlock()
	if err := os.Rename(dir, to); err != nil {
		return fmt.Errorf("throw the cell's directory away: %w", err)
	}
	select {
	case t.due <- struct{}{}:
	default: // a round is due already
	}
	return nil
}

// sweep empties a directory of the scratch, whoever owns what is in it.
func sweep(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	if err := tree.Empty(fd); err != nil {
		return fmt.Errorf("remove what is in %s: %w", dir, err)
	}
	return nil
}
