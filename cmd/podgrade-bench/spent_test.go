package main

import (
	"os/exec"
	"testing"
	"time"
)

// The time of what was started counts, of one that has ended and of one that runs.
func TestProcessorTimeIsOfDescendantsToo(t *testing.T) {
	const busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
	for name, script := range map[string]string{"ended": busy, "running": busy + "; echo done; exec sleep 600"} {
		cmd := exec.Command("/bin/sh", "-c", script)
		took, err := spend(func() error {
			if name == "ended" {
				return cmd.Run()
			}
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err == nil {
				_, err = out.Read(make([]byte, 1))
			}
			return err
		})
		if err != nil || took.processor < 10*time.Millisecond || took.processor > took.wall+5*time.Second {
			t.Errorf("%s: %v of processors in %v, %v", name, took.processor, took.wall, err)
		}
		if name == "running" {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
}
