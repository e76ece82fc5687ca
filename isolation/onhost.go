package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"podgrade/isolation/protocol"
	"podgrade/isolation/supervisor"
	"podgrade/isolation/worker"
)

// OpenOnHost makes a place without any container: the same supervisor and the
// same questions, in a private copy of the workspace, as the caller, with the
// host's programs. Nothing keeps a command from reading or changing what the
// caller can. It is for rows that were executed so, and for
// --allow-host-grading.
func (h *Host) OpenOnHost(ctx context.Context, o Order) (Cell, error) {
	return h.openCell(ctx, o, func(c *cell) {
		c.boot, c.end, c.check = c.bootOnHost, c.endOnHost, c.checkLayers
		c.made.Engine, c.made.EngineReason = EngineHost, "asked for"
		c.made.Shell = "/bin/sh"
		c.made.Home, _ = os.UserHomeDir()
	})
}

func (c *cell) bootOnHost(ctx context.Context) error {
	watch := stopwatch{into: c.made.TimingsMS, last: time.Now()}
	if err := errors.Join(c.views(ctx), c.taskDirOnHost()); err != nil {
		return err
	}
	c.places = Places{Workspace: c.viewPaths["workspace"], TaskDir: c.viewPaths["task-dir"], Reference: c.viewPaths["reference"], Recorder: filepath.Join(worker.ToolDir(c.host.run.dir), initName)}
	watch.lap("views")
	theirs, err := c.channel()
	if err != nil {
		return err
	}
	c.onHost = nil
	defer closeAll(theirs[:])
	path := filepath.Join(worker.ToolDir(c.host.run.dir), initName)
	c.process, err = os.StartProcess(path, []string{initName, supervisor.ArgHost}, &os.ProcAttr{
		Dir: c.places.Workspace, Env: []string{}, Files: theirs[:],
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return &Fault{Tried: "start the supervisor", On: path, Why: err}
	}
	closeAll(theirs[:])
	c.client = protocol.NewClient(c.ends.fromCell, c.ends.toCell)
	ctx, cancel := context.WithTimeout(ctx, helloGrace)
	defer cancel()
	if err := c.client.Hello(ctx); err != nil {
		how := c.end(true, false)
		return &Fault{Tried: "start the supervisor", On: path, Why: fmt.Errorf("it did not answer: %w (%s) %s", err, how, c.stderr)}
	}
	watch.lap("start")
	return nil
}

// endOnHost lets the supervisor end what commands left running, and takes the
// views away.
func (c *cell) endOnHost(kill, keep bool) string {
	how := "it was never started"
	if c.process != nil {
		how = c.endSupervisor(kill)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if _, err := c.ask(ctx, worker.Request{Op: worker.OpFinish, Keep: keep}); err != nil {
		return err.Error()
	}
	return how
}

// taskDirOnHost makes the empty task directory of an execute phase.
func (c *cell) taskDirOnHost() error {
	if !c.order.Create || c.viewPaths["task-dir"] != "" {
		return nil
	}
	dir := filepath.Join(filepath.Dir(worker.EtcDir(c.host.run.dir, c.name)), "task-dir")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &Fault{Tried: "make the task directory", On: dir, Why: err, Do: "check that there is space in the scratch directory"}
	}
	c.viewPaths["task-dir"] = dir
	return nil
}

// endSupervisor closes the channel, on which the supervisor ends all and leaves;
// then it asks the guardian to see to that, and at last ends the guardian.
func (c *cell) endSupervisor(kill bool) string {
	c.ends.toCell.Close()
	ended := make(chan *os.ProcessState, 1)
	go func(p *os.Process) {
		state, _ := p.Wait()
		ended <- state
	}(c.process)
	if !kill {
		c.onHost = wait(ended, supervisorGrace)
	}
	if c.onHost == nil {
		c.process.Signal(syscall.SIGTERM)
		c.onHost = wait(ended, supervisorGrace)
	}
	how := "it had to be ended"
	if c.onHost == nil {
		c.process.Kill()
		<-ended
	} else {
		how = c.onHost.String()
	}
	c.ends.fromCell.Close()
	c.ends, c.client, c.process = nil, nil, nil
	return how
}

// supervisorGrace bounds each step to end a supervisor on the host.
const supervisorGrace = 10 * time.Second

func wait(ended <-chan *os.ProcessState, patience time.Duration) *os.ProcessState {
	select {
	case state := <-ended:
		return state
	case <-time.After(patience):
		return nil
	}
}

// killedOnHost tells whether a supervisor on the host was ended by somebody who
// may send it signals, and nobody but the row's own commands has a reason to: in
// a container they could not. It ends what is left of it.
func (c *cell) killedOnHost(client *protocol.Client, err error) bool {
	if c.made.Engine != EngineHost || !errors.Is(err, protocol.ErrClosed) || errors.Is(err, protocol.ErrFrame) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.client == client {
		c.endOnHost(false, true)
	}
	return c.onHost != nil && (c.onHost.Exited() && !supervisor.GaveUp(c.onHost.ExitCode()) || !c.onHost.Exited())
}
