package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"podgrade/isolation/protocol"
)

// The trampoline is podgrade-init once more, in the child: it does what must
// be done there and by no other means than a program, and then becomes the
// command. Its environment is empty and its orders come through a pipe, so
// nothing that the command is given can steer the trampoline.
const (
	reportFD = 3
	ordersFD = 4
	// exitNotRun is the trampoline's status when it could not become the
	// command; the report says why.
	exitNotRun = 127
)

// reached is the report's first byte: all is set, only the exec is left.
const reached = '+'

// stage is the step of the trampoline that failed.
type stage string

const (
	stageOrders stage = "orders"
	stageDir    stage = "dir"
	stageLimit  stage = "limit"
	stageExec   stage = "exec"
)

// mishap is the report's rest: why the command did not come to run.
type mishap struct {
	Stage stage         `json:"stage"`
	Errno syscall.Errno `json:"errno"`
	Text  string        `json:"text"` // what was tried, when there is more to say
}

// trampoline becomes the command, or reports why it did not.
func trampoline() int {
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // no thread may have to be made once limits are set
	syscall.CloseOnExec(reportFD)
	err := become()
	var m mishap
	if !errors.As(err, &m) {
		m = mishap{Stage: stageOrders, Text: err.Error()}
	}
	data, _ := json.Marshal(m) // strings and a number
	_, _ = syscall.Write(reportFD, data)
	return exitNotRun
}

// become does the steps in the order that they allow: the Landlock domain
// first, so that nothing that an earlier command left can trace what follows;
// the limits last, since they may leave this program no room.
func become() error {
	if err := prctl(syscall.PR_SET_DUMPABLE, 0); err != nil {
		return fmt.Errorf("make the process untraceable: %w", err)
	}
	orders, err := readOrders()
	if err != nil {
		return err
	}
	if err := closeOnExecFrom(reportFD); err != nil {
		return err
	}
	if orders.Landlock {
		enterLandlock()
	}
	if err := syscall.Chdir(orders.Dir); err != nil {
		return mishap{Stage: stageDir, Errno: errno(err)}
	}
	syscall.Umask(int(orders.Umask & 0o777))
	if err := signalsToDefault(); err != nil {
		return fmt.Errorf("set signals to their default: %w", err)
	}
	unblockSignals()
	candidates := programs(orders)
	if err := setLimits(orders.Limits); err != nil {
		return err
	}
	_, _ = syscall.Write(reportFD, []byte{reached})
	return execute(candidates, orders)
}

// readOrders reads the command from the supervisor.
func readOrders() (*protocol.Run, error) {
	f := os.NewFile(ordersFD, "orders")
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 2*protocol.MaxFrame))
	if err != nil {
		return nil, fmt.Errorf("read the orders: %w", err)
	}
	var r protocol.Run
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read the orders: %w", err)
	}
	if len(r.Argv) == 0 {
		return nil, errors.New("read the orders: they name no program")
	}
	return &r, nil
}

// setLimits sets the resource limits, soft and hard, none above the hard limit
// that is in force: only root could raise it.
func setLimits(limits []protocol.Limit) error {
	for _, l := range limits {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.Resource, &now); err != nil {
			return mishap{Stage: stageLimit, Errno: errno(err), Text: fmt.Sprintf("resource %d", l.Resource)}
		}
		value := min(l.Value, now.Max)
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
			return mishap{Stage: stageLimit, Errno: errno(err), Text: fmt.Sprintf("resource %d", l.Resource)}
		}
	}
	return nil
}

// defaultPath is searched when the environment has no PATH, as Python's
// os.defpath, by which upstream's commands are found.
const defaultPath = "/bin:/usr/bin"

// programs lists where the program may lie: the name itself when it has a
// slash, else one path for each part of PATH, as execvp(3) has it.
func programs(r *protocol.Run) []string {
	name := r.Argv[0]
	if strings.Contains(name, "/") {
		return []string{name}
	}
	path, ok := lookup(r.Env, "PATH")
	if !ok {
		path = defaultPath
	}
	var found []string
	for _, dir := range strings.Split(path, ":") {
		if dir == "" {
			dir = "."
		}
		found = append(found, dir+"/"+name)
	}
	return found
}

// execute tries each candidate by executing it, which alone tells whether it
// can be, and returns why none could: a refusal says more than an absence.
func execute(candidates []string, r *protocol.Run) error {
	last := mishap{Stage: stageExec, Errno: syscall.ENOENT}
	if r.Argv[0] == "" {
		return last
	}
	for _, candidate := range candidates {
		e := errno(syscall.Exec(candidate, r.Argv, r.Env))
		switch e {
		case syscall.ENOENT, syscall.ENOTDIR:
			if exists(candidate) { // its interpreter or loader does not
				last = mishap{Stage: stageExec, Errno: e, Text: candidate}
			}
		case syscall.EACCES, syscall.ENAMETOOLONG, syscall.ELOOP:
			if last.Errno == syscall.ENOENT {
				last = mishap{Stage: stageExec, Errno: e, Text: candidate}
			}
		default:
			return mishap{Stage: stageExec, Errno: e, Text: candidate}
		}
	}
	return last
}

// exists tells whether something is at path, every link followed.
func exists(path string) bool {
	var st syscall.Stat_t
	return syscall.Stat(path, &st) == nil
}

// errno is the error number inside err.
func errno(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return syscall.EINVAL
}

// Error makes a mishap an error.
func (m mishap) Error() string { return string(m.Stage) + ": " + m.Errno.Error() + " " + m.Text }
