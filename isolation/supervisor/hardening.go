package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// channel is what the supervisor was started with, moved out of the reach of
// the commands.
type channel struct {
	in, out *os.File
	null    int // descriptor of /dev/null, or of a pipe that is at its end
}

// harden makes this process safe from what it will start, first of all from
// being traced, and takes the channel over. On the host it is not PID 1: it
// can be killed, and the rules of an init do not hold for it.
func harden(onHost bool) (channel, error) {
	if err := prctl(syscall.PR_SET_DUMPABLE, 0); err != nil {
		return channel{}, fmt.Errorf("make the process untraceable: %w", err)
	}
	if onHost {
		if err := prctl(prSetChildSubreaper, 1); err != nil {
			return channel{}, fmt.Errorf("become the parent of orphans: %w", err)
		}
	} else {
		if os.Getpid() != 1 {
			return channel{}, errors.New("this process is not PID 1 of a pid namespace, and would end processes that are not its own")
		}
		if err := signalsToDefault(); err != nil {
			return channel{}, fmt.Errorf("set signals to their default: %w", err)
		}
	}
	if err := closeOnExecFrom(2); err != nil {
		return channel{}, fmt.Errorf("close descriptors on exec: %w", err)
	}
	return takeChannel()
}

// takeChannel moves descriptors 0 and 1 to close-on-exec ones from 10 on, and
// puts /dev/null in their place.
func takeChannel() (channel, error) {
	in, err := duplicate(0)
	if err != nil {
		return channel{}, fmt.Errorf("take standard input over: %w", err)
	}
	out, err := duplicate(1)
	if err != nil {
		return channel{}, fmt.Errorf("take standard output over: %w", err)
	}
	null, err := openNull()
	if err != nil {
		return channel{}, err
	}
	for fd := range 2 {
		if err := syscall.Dup3(null, fd, syscall.O_CLOEXEC); err != nil {
			return channel{}, fmt.Errorf("replace descriptor %d: %w", fd, err)
		}
	}
	return channel{in: os.NewFile(uintptr(in), "channel"), out: os.NewFile(uintptr(out), "channel"), null: null}, nil
}

// duplicate copies a descriptor to a close-on-exec one from 10 on.
func duplicate(fd int) (int, error) {
	n, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, firstOwnDescriptor)
	if e != 0 {
		return -1, e
	}
	return int(n), nil
}

// openNull opens /dev/null once, before any command can put something else in
// its place. An image without one, or with one that is no such device, gets a
// pipe that nobody writes to: reading it ends at once.
func openNull() (int, error) {
	fd, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err == nil {
		defer syscall.Close(fd)
		if isNull(fd) && syscall.SetNonblock(fd, false) == nil {
			return duplicate(fd)
		}
	}
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return -1, fmt.Errorf("make an empty standard input: %w", err)
	}
	defer syscall.Close(ends[0])
	defer syscall.Close(ends[1])
	return duplicate(ends[0])
}

// isNull tells whether fd is the null device (character device 1:3).
func isNull(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFCHR && st.Rdev == 1<<8|3
}

// threads are as many threads as the supervisor needs at once: the reader of
// the channel, the reaper, one that forks, one that writes, and some spare.
const threads = 8

// greetingGrace bounds how long a supervisor that cannot work waits for the host.
const greetingGrace = time.Second

// awaitGreeting waits until the host's hello has come on a descriptor, or its end, and
// tells whether something has. Podman drops what a container printed when the container
// ends before all that was sent to it was handed on, and so why there is no cell.
func awaitGreeting(fd int, grace time.Duration) bool {
	var read syscall.FdSet
	read.Bits[0] = 1 << fd
	limit := syscall.NsecToTimeval(int64(grace))
	n, err := syscall.Select(fd+1, &read, nil, nil, &limit)
	return err == nil && n > 0
}

// spareThreads makes the runtime start its threads before any command can use
// up the cell's processes: a Go program that gets no thread when it wants one
// dies, and with PID 1 the cell. A thread that has nothing to do stays.
func spareThreads() {
	var ready, left sync.WaitGroup
	ready.Add(threads)
	gate := make(chan struct{})
	for range threads {
		left.Go(func() {
			runtime.LockOSThread() // so each of them needs a thread to itself
			defer runtime.UnlockOSThread()
			ready.Done()
			<-gate
		})
	}
	ready.Wait()
	close(gate)
	left.Wait()
}

// closeOnSignal ends everything on the host when somebody ends the supervisor
// itself: without a pid namespace nobody else would.
func (s *supervisor) closeOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-signals
		s.closing.Store(true)
		s.lost()
	}()
}
