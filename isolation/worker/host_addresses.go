package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// A forwarder is a program of this host, so what it connects to for a cell can
// be this host itself, by any address that the host has. What keeps the cell
// from there are routes in its own network, which only we can change.

// closeHost makes every address of this host unreachable in the network of a
// process. That takes a program of its own: nobody comes back from a network to
// that of the host.
func (s *server) closeHost(namespace string, files [3]int) error {
	addresses, err := hostAddresses()
	if err != nil {
		return fmt.Errorf("list the addresses of this host: %w", err)
	}
	argv := []string{"/proc/self/exe", StageClose, namespace}
	for _, address := range addresses {
		argv = append(argv, address.String())
	}
	_, ended, err := s.children.start(argv, []string{toolPath}, "/", files)
	if err != nil {
		return fmt.Errorf("keep the cell from this host: %w", err)
	}
	if code := exitCode(<-ended); code != 0 {
		return fmt.Errorf("keep the cell from this host: the program for it ended with %d", code)
	}
	return nil
}

// closeAddresses is that program: in the network that its first argument leads
// to, the other arguments become unreachable.
func closeAddresses(args []string) error {
	if len(args) == 0 {
		return errors.New("no network is named")
	}
	runtime.LockOSThread()
	network, err := os.Open(args[0])
	if err != nil {
		return err
	}
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network of the cell: %w", err)
	}
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return err
	}
	for i, arg := range args[1:] {
		address, err := netip.ParseAddr(arg)
		if err == nil {
			err = closeAddress(socket, uint32(i+1), address)
		}
		if address.Is6() && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENODEV)) {
			continue // the cell has no version 6
		}
		if err != nil {
			return fmt.Errorf("make %s unreachable: %w", arg, err)
		}
	}
	return nil
}

// hostAddresses are those of our network, which is the host's, but for what no
// other network can route: the loopback, and what is local to a link.
func hostAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		if address := prefix.Addr().Unmap(); !address.IsLoopback() && !address.IsLinkLocalUnicast() {
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

// closeAddress adds a route that ends nowhere (rtnetlink(7)).
func closeAddress(socket int, sequence uint32, address netip.Addr) error {
	family, bytes := byte(unix.AF_INET), address.AsSlice()
	if address.Is6() {
		family = unix.AF_INET6
	}
	message := make([]byte, 0, 64)
	order := binary.NativeEndian
	total := unix.SizeofNlMsghdr + unix.SizeofRtMsg + unix.SizeofRtAttr + len(bytes)
	message = order.AppendUint32(message, uint32(total))
	message = order.AppendUint16(message, unix.RTM_NEWROUTE)
	message = order.AppendUint16(message, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	message = order.AppendUint32(message, sequence)
	message = order.AppendUint32(message, 0)
	message = append(message, family, byte(8*len(bytes)), 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNREACHABLE)
	message = order.AppendUint32(message, 0)
	message = order.AppendUint16(message, uint16(unix.SizeofRtAttr+len(bytes)))
	message = order.AppendUint16(message, unix.RTA_DST)
	message = append(message, bytes...)
	if err := unix.Sendto(socket, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	return acknowledged(socket, sequence)
}

// acknowledged reads the kernel's answer to the message.
func acknowledged(socket int, sequence uint32) error {
	answer := make([]byte, 1<<12)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return err
	}
	order := binary.NativeEndian
	if n < unix.SizeofNlMsghdr+4 || order.Uint16(answer[4:]) != unix.NLMSG_ERROR || order.Uint32(answer[8:]) != sequence {
		return errors.New("the kernel's answer is not understood")
	}
	if code := int32(order.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
