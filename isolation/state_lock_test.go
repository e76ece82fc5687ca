package isolation

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A layer goes only where it is known that no cell stands on it, or where a file
// system has no locks by which that could be known.
func TestALayerWhoseLockFailsCountsAsUsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := flockState
	t.Cleanup(func() { flockState = before })
	for failure, want := range map[error]bool{
		unix.EWOULDBLOCK: true, unix.EIO: true, unix.EBADF: true, unix.EINTR: true,
		unix.ENOLCK: false, unix.EOPNOTSUPP: false, unix.ENOSYS: false,
	} {
		flockState = func(int, int) error { return failure }
		unlock, used := lockState(State{Path: dir})
		if used != want {
			t.Errorf("%v: used %v", failure, used)
		}
		if !used {
			unlock()
		}
	}
}
