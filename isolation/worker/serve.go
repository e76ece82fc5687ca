package worker

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
	"podgrade/oci"
)

// Settings are the arguments of StageServe.
type Settings struct {
	Run     string // directory of this podgrade in the scratch
	Runtime string // path of crun or runc
}

// Args are the settings as arguments.
func (s Settings) Args() []string {
	return []string{"-run", s.Run, "-runtime", s.Runtime}
}

func parseSettings(args []string) (Settings, error) {
	var s Settings
	flags := flag.NewFlagSet("podgrade-worker", flag.ContinueOnError)
	flags.StringVar(&s.Run, "run", "", "directory of this run")
	flags.StringVar(&s.Runtime, "runtime", "", "path of the OCI runtime")
	return s, flags.Parse(args)
}

type server struct {
	settings Settings
	channel  *net.UnixConn
	write    sync.Mutex
	children *children
	last     map[string]chan struct{} // by cell: the last request about it; for loop alone

	mu    sync.Mutex
	cells map[string]*cell
	execs map[uint64]*execution         // OpExec under way
	ends  map[uint64]context.CancelFunc // of the other requests under way

	filter   seccompFilter
	trash    trash
	metacopy metacopy
}

func serve(args []string) error {
	settings, err := parseSettings(args)
	if err != nil {
		return err
	}
	// What is made for a cell, by us or by the runtime, is for its user, who may
	// be another than its maker: the caller's own umask has no say.
	unix.Umask(0o022)
	if err := privateMounts(); err != nil {
		return err
	}
	// What a worker holds is small, whatever it has to walk: to collect garbage less
	// often costs some megabytes.
	debug.SetGCPercent(400)
	channel, err := channelFromStdin()
	if err != nil {
		return err
	}
	s := &server{settings: settings, channel: channel, children: newChildren(), last: map[string]chan struct{}{}, cells: map[string]*cell{}, execs: map[uint64]*execution{}, ends: map[uint64]context.CancelFunc{}}
	hello, err := s.prepare()
	if err != nil {
		return err
	}
	if err := s.reply(Reply{Hello: hello}); err != nil {
		return err
	}
	return s.loop()
}

// channelFromStdin takes the channel from standard input and leaves /dev/null
// there, so that no child can inherit it.
func channelFromStdin() (*net.UnixConn, error) {
	fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return nil, fmt.Errorf("take the channel from standard input: %w", err)
	}
	file := os.NewFile(uintptr(fd), "channel")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("take the channel from standard input: %w", err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(null)
	if err := unix.Dup3(null, 0, 0); err != nil {
		return nil, err
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("standard input is not a unix socket")
	}
	return unixConn, nil
}

// prepare mounts our tools read-only, so that no cell can be given a changed
// supervisor, and says what kind of namespace this is.
func (s *server) prepare() (*Hello, error) {
	if err := bindReadOnly(toolDir(s.settings.Run)); err != nil {
		return nil, err
	}
	if err := mountRuntimeDir(s.settings.Run); err != nil {
		return nil, err
	}
	s.trash.start(trashDir(s.settings.Run))
	ids, err := idCount()
	if err != nil {
		return nil, err
	}
	return &Hello{PID: os.Getpid(), IDs: ids, Rlimits: ownLimits()}, nil
}

// idCount is how many ids, from 0 without a gap, this namespace has: users and
// groups alike.
func idCount() (uint32, error) {
	n := uint32(oci.MapSize)
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		var next uint64
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) != 3 || f[0] != strconv.FormatUint(next, 10) {
				break
			}
			size, err := strconv.ParseUint(f[2], 10, 32)
			if err != nil {
				return 0, fmt.Errorf("read %s: %w", file, err)
			}
			next += size
		}
		n = uint32(min(uint64(n), next))
	}
	return n, nil
}

func ownLimits() map[string]oci.Rlimit {
	limits := map[string]oci.Rlimit{}
	for name, resource := range map[string]int{
		"RLIMIT_NOFILE": unix.RLIMIT_NOFILE, "RLIMIT_NPROC": unix.RLIMIT_NPROC, "RLIMIT_CORE": unix.RLIMIT_CORE,
	} {
		var l unix.Rlimit
		if unix.Getrlimit(resource, &l) == nil {
			limits[name] = oci.Rlimit{Soft: l.Cur, Hard: l.Max}
		}
	}
	return limits
}

func (s *server) reply(r Reply) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(b) > MaxMessage {
		b, _ = json.Marshal(Reply{ID: r.ID, Error: &Error{Message: fmt.Sprintf("the answer has %d bytes, the limit is %d", len(b), MaxMessage)}})
	}
	s.write.Lock()
	defer s.write.Unlock()
	_, err = s.channel.Write(b)
	return err
}

// maxFiles is how many descriptors a request has at most.
const maxFiles = 8

// loop serves until podgrade closes the channel or dies. Returning ends the
// process, and with PID 1 the kernel ends all the rest.
func (s *server) loop() error {
	buf, oob := make([]byte, MaxMessage), make([]byte, unix.CmsgSpace(4*maxFiles))
	for {
		n, oobn, flags, _, err := s.channel.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			return nil
		}
		files, err := descriptors(oob[:oobn])
		if err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			return fmt.Errorf("a message was cut short (flags %#x, %v)", flags, err)
		}
		var r Request
		if err := json.Unmarshal(buf[:n], &r); err != nil {
			return fmt.Errorf("read a message: %w", err)
		}
		s.dispatch(r, files)
	}
}

// dispatch handles a request in the background, those about one cell in the
// order in which they came: podgrade may give one up, and then ends the cell
// that it was about.
func (s *server) dispatch(r Request, files []int) {
	ctx := s.note(r)
	if r.Cell == "" {
		go s.handle(ctx, r, files)
		return
	}
	before, done := s.last[r.Cell], make(chan struct{})
	s.last[r.Cell] = done
	if r.Op == OpDiscard {
		delete(s.last, r.Cell) // its name is not used again
	}
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		s.handle(ctx, r, files)
	}()
}

// note keeps that something is to be done, before the OpSignal that may follow
// is handled.
func (s *server) note(r Request) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Op == OpExec {
		s.execs[r.ID] = &execution{}
		return context.Background()
	}
	ctx, end := context.WithCancel(context.Background())
	s.ends[r.ID] = end
	return ctx
}

// done forgets what note kept.
func (s *server) done(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.ends[r.ID]; end != nil {
		end()
	}
	delete(s.ends, r.ID)
}

func descriptors(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []int
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
		}
		files = append(files, fds...)
	}
	return files, nil
}

// handle answers one request. It owns the descriptors that came with it.
func (s *server) handle(ctx context.Context, r Request, files []int) {
	answer := Reply{ID: r.ID}
	if err := s.do(ctx, r, files, &answer); err != nil {
		answer.Error = asError(err)
	}
	s.done(r)
	for _, fd := range files {
		syscall.Close(fd)
	}
	if s.reply(answer) != nil {
		os.Exit(1) // nobody is left to work for
	}
}

func (s *server) do(ctx context.Context, r Request, files []int, answer *Reply) error {
	switch r.Op {
	case OpExec:
		return s.exec(r, files, answer)
	case OpSignal:
		return s.signal(r.Of)
	case OpSweep:
		return sweep(r.Sweep)
	case OpRoot:
		return s.root(ctx, r, files, answer)
	case OpView:
		return s.view(ctx, r, files, answer)
	case OpLook:
		return s.look(r, answer)
	case OpApply:
		if r.Root == nil {
			return errors.New("to apply a state layer it must be named")
		}
		return apply(ctx, r.Root.State, r.Mounted, r.Etc)
	case OpBack:
		return takeBack(ctx, r, files, answer)
	case OpSurvey:
		return survey(ctx, files, answer)
	}
	find := s.cell
	if r.Op == OpEntrust || r.Op == OpStock {
		find = s.cellOrNew // a cell without views has not been there before
	}
	c, err := find(r.Cell)
	if err != nil && r.Op == OpDiscard {
		return nil // it never came to be
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.Op {
	case OpHome:
		return c.home(r, answer)
	case OpStart:
		return s.startCell(ctx, c, r, files)
	case OpMeasure:
		return s.measure(ctx, c, answer)
	case OpStopped:
		return s.stopped(c, answer)
	case OpNetwork:
		return s.network(c, r.Network, answer)
	case OpEntrust:
		return s.entrust(c, r.Spec, answer)
	case OpAdopt:
		return s.adopt(c, r, files)
	case OpCapture:
		return s.captureTree(ctx, c, r, files, answer)
	case OpLay:
		return s.lay(ctx, c, r, files, answer)
	case OpRoom:
		return c.roomLeft(ctx, r, files, answer)
	case OpChanges:
		return s.changes(ctx, c, r, files, answer)
	case OpKeep:
		return s.keep(ctx, c, r, answer)
	case OpBefore:
		return s.keepBefore(ctx, c, r, answer)
	case OpStock:
		return s.stock(ctx, c, r, files, answer)
	case OpLayers:
		answer.Missing = c.missingLayer()
		return nil
	case OpFinish:
		return s.finish(c, r, answer)
	case OpDiscard:
		return s.discard(c)
	}
	return fmt.Errorf("unknown operation %q", r.Op)
}

// fault is an error with a cause that the host must know.
type fault struct {
	err              error
	image, workspace bool
	refused          bool
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// maxError caps the message of an error, in bytes: it may name a path of any
// length, and its cause must reach the host all the same.
const maxError = 4 << 10

func asError(err error) *Error {
	e := &Error{Message: err.Error(), Damaged: errors.Is(err, states.ErrDamaged)}
	if len(e.Message) > maxError {
		e.Message = strings.ToValidUTF8(e.Message[:maxError], "") + "..."
	}
	var f *fault
	if errors.As(err, &f) {
		e.Image, e.Workspace, e.Refused = f.image, f.workspace, f.refused
	}
	return e
}

// execution is an OpExec under way.
type execution struct {
	group int  // of its processes, 0 while there are none
	ended bool // by an OpSignal
}

// exec runs a program of the host, Podman above all, inside the namespaces.
func (s *server) exec(r Request, files []int, answer *Reply) error {
	defer func() {
		s.mu.Lock()
		delete(s.execs, r.ID)
		s.mu.Unlock()
	}()
	if len(files) != 3 || r.Exec == nil || len(r.Exec.Argv) == 0 {
		return errors.New("a program to run needs arguments and three descriptors")
	}
	pid, ended, err := s.startExec(r, [3]int(files))
	if err != nil {
		return fmt.Errorf("start %s: %w", r.Exec.Argv[0], err)
	}
	answer.ExitCode = exitCode(<-ended)
	s.mu.Lock()
	s.execs[r.ID].group = 0
	s.mu.Unlock()
	// What it left behind in its own session goes with it.
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("end what %s left running: %w", r.Exec.Argv[0], err)
	}
	return nil
}

// startExec starts the program, unless an OpSignal came first.
func (s *server) startExec(r Request, files [3]int) (int, <-chan syscall.WaitStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.execs[r.ID].ended {
		return 0, nil, errors.New("it was ended before it started")
	}
	pid, ended, err := s.children.start(r.Exec.Argv, r.Exec.Env, r.Exec.Dir, files)
	if err == nil {
		s.execs[r.ID].group = pid
	}
	return pid, ended, err
}

// signal ends what a request has under way: a program, be it one that has yet
// to start, or a walk of a tree.
func (s *server) signal(id uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.ends[id]; end != nil {
		end()
		return nil
	}
	e := s.execs[id]
	if e == nil {
		return nil
	}
	e.ended = true
	if e.group == 0 {
		return nil
	}
	return syscall.Kill(-e.group, syscall.SIGKILL)
}
