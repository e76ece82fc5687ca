package isolation_test

import (
	"testing"
	"time"
)

func TestAProgramThatLeavesAHolderOfItsOutputDoesNotHoldPodgrade(t *testing.T) {
	started := time.Now()
	out, err := host(t).RunInside(ctx(t), "/bin/sh", "-c", "echo said; setsid sleep 60 & exit 0")
	if err != nil || out != "said\n" {
		t.Errorf("%q, %v", out, err)
	}
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}
