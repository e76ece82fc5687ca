package isolation

import (
	"path/filepath"
	"testing"
)

// Somebody who counts the living podgrades does not keep another from starting.
func TestRunsCanBeCountedWhileOthersAreMade(t *testing.T) {
	h := &Host{options: Options{Scratch: filepath.Join(t.TempDir(), "scratch")}, run: &run{}}
	stop, counted := make(chan struct{}), make(chan int)
	go func() {
		most := 0
		for {
			select {
			case <-stop:
				counted <- most
				return
			default:
				most = max(most, h.living())
			}
		}
	}()
	for range 300 {
		r, err := newRun(h.options.Scratch)
		if err != nil {
			t.Error(err)
			break
		}
		if err := r.remove(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if most := <-counted; most == 0 || most > 1 {
		t.Errorf("%d were counted as living, want 1", most)
	}
}
