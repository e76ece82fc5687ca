package isolation

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
		r, err := newRun(h.options.Scratch, ordinary{})
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

// A podgrade that was stopped while it held the scratch keeps no other one
// waiting for ever.
func TestAScratchThatAnotherOneHoldsIsAnError(t *testing.T) {
	scratch := t.TempDir()
	unlock, err := lockScratch(scratch)
	if err != nil {
		t.Fatal(err)
	}
	before := lockGrace
	defer func() { lockGrace = before }()
	lockGrace = 20 * time.Millisecond
	if _, err := newRun(scratch, ordinary{}); err == nil || !strings.Contains(err.Error(), "another podgrade holds it") {
		t.Errorf("a held scratch: %v", err)
	}
	unlock()
	again, err := lockScratch(scratch)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// newuidmap may ask a directory service that does not answer.
func TestIDMapsThatTakeForEverAreGivenUp(t *testing.T) {
	bin := t.TempDir()
	for _, tool := range []string{"newuidmap", "newgidmap"} {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\nexec /bin/sleep 600\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := writeMaps(ctx, os.Getpid())
	if err == nil || !strings.Contains(err.Error(), "did not end in time") || !strings.Contains(err.Error(), "getent") || time.Since(began) > 20*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}
