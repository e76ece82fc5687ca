package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// fds lists the descriptors that the command holds, and what they are.
func fds([]string) {
	for fd := range 1024 {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) != nil {
			continue
		}
		flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if fd <= 2 || flags&syscall.FD_CLOEXEC == 0 { // the others are this program's own
			target, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			fmt.Printf("descriptor %d: %s\n", fd, target)
		}
	}
}

// frames writes what looks like the supervisor's answer, a success, to every
// descriptor that there might be.
func frames([]string) {
	for id := range uint32(64) {
		text := fmt.Sprintf(`{"id":%d,"exit":{"code":0}}`, id)
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(text)+1))
		frame = append(append(frame, 'A'), text...)
		for fd := range 32 {
			syscall.Write(fd, frame)
		}
	}
	os.Exit(9)
}

// connect tries to reach the network, with TCP and UDP, IPv4 and IPv6.
func connect([]string) {
	for _, to := range [][2]string{{"tcp4", "192.0.2.1:80"}, {"udp4", "192.0.2.53:53"}, {"tcp6", "[2001:db8::1]:80"}} {
		conn, err := net.DialTimeout(to[0], to[1], 2*time.Second)
		say("connect "+to[0]+" "+to[1], err)
		if err == nil {
			conn.Write([]byte("x"))
			conn.Close()
		}
	}
}

// killAll kills everything that it may, itself last.
func killAll([]string) {
	say("kill -1", syscall.Kill(-1, syscall.SIGKILL))
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// again starts this program once more, in a session of its own, holding the
// same descriptors.
func again(files []uintptr, args ...string) error {
	_, err := syscall.ForkExec("/proc/self/exe", append([]string{os.Args[0]}, args...), &syscall.ProcAttr{
		Env: os.Environ(), Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	return err
}

// bomb forks until it is refused, and then goes on for the given seconds with
// children that try the same. Where nothing refuses, as for root of a host, it
// would take the machine, and does nothing.
func bomb(args []string) {
	if !forksEnd() {
		fmt.Println("fork: permitted without end")
		os.Exit(1)
	}
	n, err := 0, error(nil)
	for err == nil && n < 100_000 {
		var pid uintptr
		if pid, err = fork(); err == nil && pid == 0 {
			for pause := (syscall.Timespec{Nsec: 1e7}); ; fork() {
				syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
			}
		}
		n++
	}
	say("fork", err)
	fmt.Printf("forked: %d\n", n-1)
	time.Sleep(seconds(args))
}

// forksEnd tells whether the kernel refuses forks at some number: it never does to
// root of the host itself, whose user namespace has every id.
func forksEnd() bool {
	const everyID = "4294967295"
	ids, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || os.Geteuid() != 0 || !strings.Contains(string(ids), everyID)
}

// fork is a plain fork of this thread. The child must not use the Go runtime;
// it only makes raw system calls.
func fork() (uintptr, error) {
	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return 0, e
	}
	return pid, nil
}

// threads makes as many threads as it gets.
func threads(args []string) {
	for range 200_000 {
		go func() {
			t := syscall.NsecToTimespec(int64(seconds(args)))
			syscall.Nanosleep(&t, nil)
		}()
	}
	time.Sleep(seconds(args))
}

// hog takes memory until it gets no more, or has taken the given MiB.
func hog(args []string) {
	limit := 1 << 40
	if len(args) > 0 {
		if n, err := strconv.Atoi(args[0]); err == nil {
			limit = n
		}
	}
	var err error
	taken := 0
	for err == nil && taken < limit {
		var mem []byte
		mem, err = syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		for i := 0; i < len(mem); i += 4096 {
			mem[i] = 1
		}
		taken++
	}
	say("mmap", err)
	fmt.Printf("taken: %d MiB\n", taken)
}

// linger ignores every signal it can, leaves its session with children that
// hold no descriptor of its, and sleeps with them. Args: a mark for the
// process list, the seconds.
func linger(args []string) {
	signal.Ignore()
	if len(args) == 0 {
		args = []string{"attack"}
	}
	for range 3 {
		say("start a child", again(nil, append([]string{"sleep"}, args...)...))
	}
	time.Sleep(seconds(args[1:]))
}

// sleep ignores every signal, forks once more, and sleeps.
func sleep(args []string) {
	signal.Ignore()
	if len(args) < 3 {
		again(nil, append(append([]string{"sleep"}, args...), "last")...)
	}
	if len(args) > 1 {
		time.Sleep(seconds(args[1:]))
	}
}

// hold leaves a child behind that holds standard output open, and ends.
func hold(args []string) {
	say("start a child", again([]uintptr{0, 1, 2}, append([]string{"sleep"}, args...)...))
}

// spawn leaves a child that starts a new one again and again, each in a
// session of its own, while its parent ends: a chain that never stands still.
func spawn(args []string) {
	if len(args) < 2 {
		return
	}
	end := time.Now().Add(seconds(args[1:]))
	if len(args) == 2 {
		args = append(args, strconv.FormatInt(end.Unix(), 10))
	}
	if until, err := strconv.ParseInt(args[2], 10, 64); err == nil && time.Now().Unix() < until {
		time.Sleep(2 * time.Millisecond)
		again(nil, append([]string{"spawn"}, args...)...)
	}
}

// watch tries to get hold of the next command: of every process that is not
// its own it reads the memory map and attaches to it, for the given seconds.
func watch(args []string) {
	caught := 0
	for end := time.Now().Add(seconds(args)); time.Now().Before(end); {
		names, _ := os.ReadDir("/proc")
		for _, e := range names {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			if call(syscall.SYS_PTRACE, syscall.PTRACE_ATTACH, uintptr(pid), 0, 0) == nil {
				caught++
			}
		}
	}
	fmt.Printf("caught: %d\n", caught)
}

// fill makes a directory with the given number of files, whose names are no
// UTF-8 and come in no order.
func fill(args []string) {
	if len(args) < 2 {
		return
	}
	n, err := strconv.Atoi(args[1])
	if err == nil {
		err = os.Mkdir(args[0], 0o755)
	}
	for i := n - 1; i >= 0 && err == nil; i-- {
		var fd int
		if fd, err = syscall.Open(fmt.Sprintf("%s/\xff%06d", args[0], i), syscall.O_CREAT|syscall.O_WRONLY, 0o644); err == nil {
			syscall.Close(fd)
		}
	}
	say("fill", err)
}

// seconds reads the first argument as a time, ten seconds without one.
func seconds(args []string) time.Duration {
	if len(args) > 0 {
		if n, err := strconv.ParseFloat(args[0], 64); err == nil {
			return time.Duration(n * float64(time.Second))
		}
	}
	return 10 * time.Second
}
