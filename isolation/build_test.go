package isolation_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"podgrade/isolation"
)

// killer kills Podman's service once a build has said something.
type killer struct {
	once sync.Once
	h    *isolation.Host
}

func (k *killer) Write(p []byte) (int, error) {
	k.once.Do(func() { isolation.KillService(k.h) })
	return len(p), nil
}

// A service that goes away in the middle of a build says nothing about the
// Containerfile; another one builds it.
func TestAKilledServiceIsNoFailedBuild(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "Containerfile")
	if err := os.WriteFile(file, []byte("FROM "+as(t, "").Pin.Reference+"\nRUN sleep 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := start(t, options(t))
	defer h.Close()
	order := isolation.BuildOrder{Containerfile: file, ContextDir: dir, Reference: "localhost/podgrade-test/interrupted:1", Output: &killer{h: h}}
	if _, err := h.Build(ctx(t), order); err == nil || errors.Is(err, isolation.ErrBuild) || faultKind(err) != isolation.Infrastructure {
		t.Errorf("the build ended as %v", err)
	}
	order.Output = nil
	if _, err := h.Build(ctx(t), order); err != nil {
		t.Errorf("it was not built then: %v", err)
	}
}
