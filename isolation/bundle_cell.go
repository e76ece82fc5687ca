package isolation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/protocol"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// cell is a cell of any engine that talks to our supervisor through pipes.
type cell struct {
	host   *Host
	name   string
	order  Order
	places Places
	// boot makes the cell and sets client; end takes it down, keeping the
	// views for the next boot when keep is set, and says how it ended. c.mu is
	// held, but while the cell is being opened.
	boot func(context.Context) error
	end  func(kill, keep bool) string
	// check implements CheckImage.
	check func(context.Context) error

	mu        sync.Mutex // guards what follows; not held while a command runs
	user      oci.User
	binds     []oci.Bind        // of the views
	viewPaths map[string]string // on the host, by name; nil: not made yet
	laid      bool              // the captured workspace is in the root, see layCapture
	settled   bool
	held      *heldImage // of root; nil: the worker holds the image itself
	lent      *lent      // an execute cell's workspace; nil: there is none, or it was taken back
	stateHold func()     // releases the state layer that the cell stands on; nil: on none
	made      Made
	profile   string           // name of the seccomp profile that it was last started with
	process   *os.Process      // the guardian of a supervisor on the host
	onHost    *os.ProcessState // how the last one ended
	client    *protocol.Client // nil: ended by a command, made again when needed
	ends      *pipes
	stderr    *tail
	closed    bool
	answer    func(Call) Reply // of calls of recorded commands; nil: there are none

	limits    *cellLimits // control group of the cell; nil: it has none
	limitsWhy string      // why it has none

	container  string    // name of a container of Podman; "": there is none
	containers int       // of Podman that were made
	attached   io.Closer // connection to the container's streams
}

var _ Cell = (*cell)(nil)

// maxCellLog caps what runtime and supervisor of one cell may write to its
// log, in bytes.
const maxCellLog = 1 << 20

// answerGrace is how much longer than its time-out a command's answer may
// take: then the supervisor cannot end what the command started, and the host
// ends the cell.
const answerGrace = 8 * time.Second

// pathGrace bounds a question about a file.
const pathGrace = 60 * time.Second

// pipes are our ends of a cell's standard streams.
type pipes struct {
	toCell, fromCell, stderr *os.File
	drained                  chan struct{} // stderr is at its end
}

// channel makes the cell's pipes and returns the ends that are the cell's.
func (c *cell) channel() ([3]*os.File, error) {
	ends, theirs, err := newPipes()
	if err != nil {
		return theirs, &Fault{Tried: "make a channel to the cell", Why: err}
	}
	c.stderr, c.ends = &tail{max: 4 << 10}, ends
	go func(kept *tail) {
		defer ends.stderr.Close()
		capped := &cappedWriter{w: orDiscard(c.order.Log), left: maxCellLog}
		io.Copy(io.MultiWriter(kept, capped), ends.stderr)
		io.Copy(io.Discard, ends.stderr) // a full log must not hold the cell
		close(ends.drained)
	}(c.stderr)
	return theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func newPipes() (*pipes, [3]*os.File, error) {
	var ours, theirs [3]*os.File
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			for j := range i {
				ours[j].Close()
				theirs[j].Close()
			}
			return nil, theirs, err
		}
		ours[i], theirs[i] = r, w
		if i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	return &pipes{toCell: ours[0], fromCell: ours[1], stderr: ours[2], drained: make(chan struct{})}, theirs, nil
}

// live returns the channel to the cell, making the cell again when a command
// ended it.
func (c *cell) live(ctx context.Context) (*protocol.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, &Fault{Tried: "use the cell", Why: errors.New("it is closed")}
	}
	if c.client != nil && c.made.Engine == EngineHost && c.client.Err() != nil {
		c.end(false, true) // what commands left running ended it
	}
	if c.client == nil {
		if err := c.boot(ctx); err != nil {
			c.end(true, true) // nothing that was half made answers later
			return nil, err
		}
		if c.answer != nil {
			if err := record(ctx, c.client, c.answer); err != nil {
				return nil, err
			}
		}
	}
	return c.client, nil
}

// Run implements Cell.
func (c *cell) Run(ctx context.Context, command Command) (Exit, error) {
	var input io.Reader
	if command.Stdin != nil {
		input = bytes.NewReader(command.Stdin)
	}
	if command.Live != nil {
		input = command.Live
	}
	if len(command.Stdin) > MaxStdin {
		return Exit{}, fmt.Errorf("%w: the command's standard input has %d bytes, the limit is %d", ErrTooLarge, len(command.Stdin), MaxStdin)
	}
	client, err := c.live(ctx)
	if err != nil {
		return Exit{}, err
	}
	waiting := ctx
	if command.Timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, command.Timeout+answerGrace)
		defer cancel()
	}
	started := time.Now()
	if command.Resized != nil {
		var over context.CancelFunc
		waiting, over = context.WithCancel(waiting)
		defer over()
		go resize(waiting, client, command.Resized)
	}
	answer, err := client.Feed(waiting, c.runRequest(command), input, protocol.Sinks{Stdout: command.Stdout, Stderr: command.Stderr})
	switch {
	case err == nil && answer.Failure != nil:
		return Exit{}, failure(answer.Failure)
	case err == nil && answer.Exit != nil:
		return c.exit(ctx, client, answer.Exit)
	case ctx.Err() != nil:
		return Exit{}, ctx.Err()
	case errors.Is(err, protocol.ErrEnvironment): // the cell was not asked
		return Exit{}, &Fault{Tried: "run a command", On: "in a cell of " + c.order.Image.Pin.String(), Why: err, Do: "make the variables of the image, or of the task, smaller"}
	case errors.Is(err, context.DeadlineExceeded) && c.stopped(ctx):
		return Exit{}, c.lost(client, errStopped)
	case errors.Is(err, context.DeadlineExceeded):
		// The command keeps the supervisor from answering: its own doing.
		return Exit{Code: -1, TimedOut: true, CellEnded: true, Duration: time.Since(started)}, c.endBy(ctx, client)
	case c.killedOnHost(client, err) || c.killedForMemory(client, err):
		return Exit{Code: 128 + int(unix.SIGKILL), Signal: int(unix.SIGKILL), CellEnded: true, Duration: time.Since(started)}, nil
	case err != nil:
		return Exit{}, c.lost(client, err)
	}
	return Exit{}, c.lost(client, errors.New("its answer says nothing"))
}

// resize says each new size to the supervisor, until the command is over.
func resize(ctx context.Context, client *protocol.Client, sizes <-chan Size) {
	for {
		select {
		case size := <-sizes:
			client.Do(ctx, protocol.Request{Op: protocol.OpResize, Size: &size}, protocol.Sinks{})
		case <-ctx.Done():
			return
		}
	}
}

func (c *cell) runRequest(command Command) protocol.Request {
	return protocol.Request{Op: protocol.OpRun, Run: &protocol.Run{
		Argv: command.Argv, Env: command.Env, Dir: command.Dir, Umask: 0o022, Timeout: command.Timeout,
		Limits: commandLimits(c.order.Plan.Limits, c.host.hello.Rlimits), Landlock: true,
		Live: command.Live != nil, Terminal: command.Terminal,
	}}
}

// commandLimits are set on each command: fewer processes than the supervisor
// itself may have, and where the task says how much memory, at most that much
// for each process, as a floor of what a cgroup would do.
func commandLimits(l oci.Limits, host map[string]oci.Rlimit) []protocol.Limit {
	limits := []protocol.Limit{{Resource: unix.RLIMIT_NPROC, Value: oci.Processes(l, host)}}
	if l.MemoryMB > 0 {
		limits = append(limits, protocol.Limit{Resource: unix.RLIMIT_DATA, Value: uint64(l.MemoryMB) << 20})
	}
	return limits
}

// errStopped says that somebody outside stopped the supervisor: its own commands
// cannot.
var errStopped = errors.New("its supervisor was stopped from outside of the cell")

// stopped tells whether the cell's first process is stopped. On the host any
// command may have done that.
func (c *cell) stopped(ctx context.Context) bool {
	if c.made.Engine == EngineHost {
		return false
	}
	reply, err := c.ask(ctx, worker.Request{Op: worker.OpStopped})
	return err == nil && reply.Stopped
}

// exit ends the cell when the supervisor could not end the command.
func (c *cell) exit(ctx context.Context, client *protocol.Client, e *protocol.Exit) (Exit, error) {
	var err error
	if e.Stuck {
		err = c.endBy(ctx, client)
	}
	return Exit{Code: e.Code, Signal: e.Signal, TimedOut: e.TimedOut, Held: e.Held, CellEnded: e.Stuck, NetworkAttempts: e.NoRoutes, Duration: e.Duration}, err
}

// endBy ends the cell because of one of its commands; the next question makes
// it again, on the views as they are. The image is looked at first: without
// its files a command may hang for no fault of its own.
func (c *cell) endBy(ctx context.Context, client *protocol.Client) error {
	err := c.CheckImage(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == client {
		c.end(true, true)
	}
	return err
}

// lost explains a channel that ended by itself.
func (c *cell) lost(client *protocol.Client, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	how := "earlier"
	if c.client == client {
		how = c.end(true, true)
		c.closed = true
	}
	why := fmt.Errorf("%w by itself (%s)", ErrCellLost, how)
	switch said := c.stderr.String(); {
	case errors.Is(err, ErrClosed) || c.host.gone():
		why = fmt.Errorf("%w with podgrade's worker", ErrCellLost)
	case !errors.Is(err, protocol.ErrClosed) || errors.Is(err, protocol.ErrFrame):
		// The channel was still there: what came could not be kept, or is
		// nothing that our supervisor says.
		why = fmt.Errorf("%w (%s): %w", ErrCellLost, how, err)
	case said != "":
		why = fmt.Errorf("%w: %s", why, said)
	}
	do := "the row is unchanged: grade it again"
	if c.order.Create {
		do = "execute the row again"
	}
	return &Fault{Tried: "use the cell", On: "of " + c.order.Image.Pin.String(), Why: why, Do: do}
}

func (h *Host) gone() bool {
	select {
	case <-h.worker.gone:
		return true
	default:
		return false
	}
}

// endBundle ends the container.
func (c *cell) endBundle(kill, keep bool) string {
	if c.ends != nil {
		c.ends.toCell.Close() // the supervisor leaves on this
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	reply, err := c.ask(ctx, worker.Request{Op: worker.OpFinish, Kill: kill, Keep: keep, Hold: keep && c.keepsRoot()})
	if c.ends != nil {
		if err == nil {
			<-c.ends.drained
		}
		c.ends.fromCell.Close()
		c.ends = nil
	}
	c.client = nil
	switch {
	case err != nil:
		return err.Error()
	case reply.End.Code > 128 && !reply.End.Killed:
		return fmt.Sprintf("ended by signal %d", reply.End.Code-128)
	}
	return fmt.Sprintf("exit code %d", reply.End.Code)
}

// keepsRoot tells whether the root file system stays when a command has ended
// the cell: what was done in it is the row's.
func (c *cell) keepsRoot() bool { return c.order.Create || c.order.WorkingDir != "" }

// Close implements Cell.
func (c *cell) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host.mu.Lock()
	ours := c.host.open[c]
	delete(c.host.open, c)
	c.host.mu.Unlock()
	c.closed = true
	defer c.releaseState()
	if ours && c.host.gone() && c.process != nil {
		c.endSupervisor(false) // it is no child of the worker's
	}
	if !ours || c.host.gone() {
		c.limits.remove() // its processes ended with the worker
		return nil
	}
	c.end(false, false)
	err := errors.Join(c.returnLent(), c.limits.remove())
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if _, failed := c.ask(ctx, worker.Request{Op: worker.OpDiscard}); failed != nil && !c.host.gone() {
		err = errors.Join(err, &Fault{Tried: "close the cell", Why: failed})
	}
	return err
}

// returnGrace bounds how long a closing cell may take to give its workspace
// back: some 50,000 entries take a second.
const returnGrace = 10 * time.Minute

// returnLent gives back the workspace of a cell that nobody settled.
func (c *cell) returnLent() error {
	if c.lent == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), returnGrace)
	defer cancel()
	_, err := c.takeBackLent(ctx)
	return err
}

// Stat implements Cell.
func (c *cell) Stat(ctx context.Context, base, name string) (protocol.File, error) {
	answer, err := c.path(ctx, protocol.OpStat, protocol.Path{Base: base, Name: name}, nil)
	if err != nil || answer.File == nil {
		return protocol.File{}, err
	}
	return *answer.File, nil
}

// Read implements Cell.
func (c *cell) Read(ctx context.Context, base, name string, limit int64, w io.Writer) (protocol.File, error) {
	answer, err := c.path(ctx, protocol.OpRead, protocol.Path{Base: base, Name: name, Limit: limit}, w)
	if err != nil || answer.File == nil {
		return protocol.File{}, err
	}
	return *answer.File, nil
}

// List implements Cell.
func (c *cell) List(ctx context.Context, base, name string, limit int64) ([]protocol.File, error) {
	answer, err := c.path(ctx, protocol.OpList, protocol.Path{Base: base, Name: name, Limit: limit}, nil)
	return answer.Files, err
}

func (c *cell) path(ctx context.Context, op protocol.Op, p protocol.Path, content io.Writer) (protocol.Answer, error) {
	waiting, cancel := context.WithTimeout(ctx, pathGrace)
	defer cancel()
	return c.question(ctx, waiting, protocol.Request{Op: op, Path: &p}, nil, content)
}

// question asks the supervisor something that is no command, and waits for the
// answer as long as waiting lasts, which ends with ctx.
func (c *cell) question(ctx, waiting context.Context, q protocol.Request, input io.Reader, content io.Writer) (protocol.Answer, error) {
	client, err := c.live(ctx)
	if err != nil {
		return protocol.Answer{}, err
	}
	answer, err := client.Feed(waiting, q, input, protocol.Sinks{Content: content})
	switch {
	case errors.Is(err, protocol.ErrSource):
		return answer, &Fault{Tried: "read what is to be put into the cell", Why: err}
	case err == nil && answer.Failure != nil:
		return answer, failure(answer.Failure)
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return answer, ctx.Err()
	case waiting.Err() != nil && c.stopped(ctx):
		return answer, c.lost(client, errStopped)
	case c.killedOnHost(client, err) || c.killedForMemory(client, err):
		return answer, fmt.Errorf("%w: what commands left running ended the supervisor", ErrBroken)
	case waiting.Err() != nil:
		// What commands left running keeps the supervisor from answering:
		// their own doing.
		late := fmt.Errorf("%w: the cell did not answer in time", ErrBroken)
		if err := c.endBy(ctx, client); err != nil {
			return answer, err
		}
		return answer, late
	}
	return answer, c.lost(client, err)
}

// Places implements Cell.
func (c *cell) Places() Places { return c.places }

// Made implements Cell.
func (c *cell) Made() Made {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := c.made
	if made.Runtime != "" {
		made.Runtime = c.host.runtimeName()
	}
	made.TimingsMS = maps.Clone(c.made.TimingsMS) // written to when the cell is made again
	return made
}

// failure turns what the supervisor says into one of our errors.
func failure(f *protocol.Failure) error {
	kinds := map[protocol.FailureKind]error{
		protocol.NotExist: ErrNotExist, protocol.Escapes: ErrEscapes, protocol.NotRegular: ErrNotRegular,
		protocol.NotDir: ErrNotDir, protocol.TooLarge: ErrTooLarge, protocol.Denied: ErrDenied, protocol.NoProgram: ErrNoProgram,
		protocol.NoSpace: ErrNoSpace,
	}
	kind := kinds[f.Kind]
	if kind == nil {
		kind = ErrBroken
	}
	return fmt.Errorf("%w: %s", kind, f.Message)
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// cappedWriter drops what is beyond its cap, and says so once.
type cappedWriter struct {
	w    io.Writer
	left int
}

func (c *cappedWriter) Write(p []byte) (int, error) {
	n := len(p)
	if c.left <= 0 {
		return n, nil
	}
	if n > c.left {
		fmt.Fprintf(c.w, "%s\n[the rest was dropped]\n", p[:c.left])
		c.left = 0
		return n, nil
	}
	c.left -= n
	_, err := c.w.Write(p)
	return n, err
}
