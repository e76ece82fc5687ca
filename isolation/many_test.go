package isolation_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"podgrade/isolation"
	"podgrade/oci"
)

// Cells are made side by side, all verified, each with its own workspace and
// root.
func TestFourCellsAtATime(t *testing.T) {
	t.Parallel()
	h := host(t)
	images := []isolation.Image{as(t, ""), as(t, "1000")}
	var wait sync.WaitGroup
	for worker := range 4 {
		o := order(t, images[worker%2])
		wait.Go(func() {
			for n := range 20 {
				if err := oneOfMany(t, h, o, fmt.Sprintf("%d-%d", worker, n)); err != nil {
					t.Errorf("cell %d of worker %d: %v", n, worker, err)
					return
				}
			}
		})
	}
	wait.Wait()
}

func oneOfMany(t *testing.T, h *isolation.Host, o isolation.Order, name string) (err error) {
	c, err := h.Open(ctx(t), o)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := c.Close(); err == nil {
			err = closeErr
		}
	}()
	if !c.Made().Verified {
		return fmt.Errorf("it was not verified")
	}
	var out bytes.Buffer
	line := fmt.Sprintf("test ! -e /tmp/mine && test ! -e mine && echo %[1]s > mine && cp mine /tmp/mine && cat mine hello.txt", name)
	exit, err := c.Run(ctx(t), isolation.Command{Argv: []string{"/bin/sh", "-c", line}, Env: testEnv, Dir: oci.WorkspacePath, Stdout: &out})
	if err != nil {
		return err
	}
	if exit.Code != 0 || out.String() != name+"\nhello\n" {
		return fmt.Errorf("it ended with %d and said %q", exit.Code, out.String())
	}
	return nil
}

// Commands of one cell may run side by side, each with its own output and end.
func TestCommandsOfOneCellAtATime(t *testing.T) {
	c := open(t, as(t, ""), nil)
	var wait sync.WaitGroup
	for n := range 12 {
		wait.Go(func() {
			var out bytes.Buffer
			line := fmt.Sprintf("for i in $(seq 500); do echo %d; done; exit %[1]d", n)
			exit, err := c.Run(ctx(t), isolation.Command{Argv: []string{"/bin/sh", "-c", line}, Env: testEnv, Dir: oci.WorkspacePath, Stdout: &out})
			if err != nil || exit.Code != n || out.Len() != 500*len(fmt.Sprintf("%d\n", n)) {
				t.Errorf("command %d: %+v, %v, %d bytes", n, exit, err, out.Len())
			}
		})
	}
	wait.Wait()
}
