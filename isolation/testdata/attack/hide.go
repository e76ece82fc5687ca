package main

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// listen leaves a child behind that has a TCP and a UDP port, and says which.
// Args: a mark for the process list, the seconds; "hide" when the child is to
// make itself untraceable, "pass" when it is to put its sockets where no
// process holds them, on their way through another socket.
func listen(args []string) {
	if args[len(args)-1] == "child" {
		keepListening(args)
		return
	}
	tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		say("listen", err)
		return
	}
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		say("listen", err)
		return
	}
	tcpFile, err1 := tcp.File()
	udpFile, err2 := udp.File()
	ready, done, err3 := os.Pipe()
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			say("listen", err)
			return
		}
	}
	files := []uintptr{0, ^uintptr(0), ^uintptr(0), tcpFile.Fd(), udpFile.Fd(), done.Fd()}
	if err := again(files, append(append([]string{"listen"}, args...), "child")...); err != nil {
		say("listen", err)
		return
	}
	done.Close()
	ready.Read(make([]byte, 1)) // until the child has done what it was told
	fmt.Printf("listen: tcp %d udp %d\n", tcp.Addr().(*net.TCPAddr).Port, udp.LocalAddr().(*net.UDPAddr).Port)
}

// Descriptors of listen's child.
const (
	tcpSocket = 3
	udpSocket = 4
	doneFD    = 5
)

func keepListening(args []string) {
	switch args[2] {
	case "hide":
		say("untraceable", call(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0))
	case "pass":
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err == nil {
			err = syscall.Sendmsg(pair[0], []byte{1}, syscall.UnixRights(tcpSocket, udpSocket), nil, 0)
		}
		if err == nil {
			syscall.Close(tcpSocket)
			syscall.Close(udpSocket)
		}
	}
	syscall.Close(doneFD)
	time.Sleep(seconds(args[1:]))
}

// swap makes the link "swapped" in a directory lead to one place and to another
// in turn, and now and then puts a directory there, for some seconds. Args: the
// directory, the two places, the seconds.
func swap(args []string) {
	if len(args) < 4 {
		return
	}
	err := os.Chdir(args[0])
	swapped := 0
	for end, i := time.Now().Add(seconds(args[3:])), 0; time.Now().Before(end) && err == nil; i++ {
		os.RemoveAll("new")
		if i%3 == 2 {
			os.Mkdir("new", 0o777)
		} else {
			os.Symlink(args[1+i%3], "new")
		}
		if i%3 != 1 { // a directory and a link do not replace each other
			os.RemoveAll("swapped")
		}
		if os.Rename("new", "swapped") == nil { // else somebody put something there
			swapped++
		}
	}
	say("swap", err)
	fmt.Printf("swapped: %d\n", swapped)
}

// calls speaks to the socket of recorded commands as none would: nothing, half a
// frame, frames of other kinds, a length beyond all bounds, many at once that
// stay. Args: its name.
func calls(args []string) {
	var err error
	for _, text := range []string{"", "\x00", "\x00\x00\x00\x05C{", "\xff\xff\xff\xffC", "\x00\x00\x00\x03C{}", "\x00\x00\x00\x03Q{}", "\x00\x00\x00\x03R{}", "\x00\x00\x00\x05Cnull", "\x00\x00\x00\x02C[", "rubbish, and a lot of it"} {
		var conn net.Conn
		if conn, err = net.Dial("unix", args[0]); err != nil {
			break
		}
		conn.Write([]byte(text))
		if len(text)%2 == 0 {
			conn.Close()
		}
	}
	say("calls", err)
}
