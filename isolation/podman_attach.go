package isolation

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// attachGrace bounds how long Podman may take to make a container ready.
const attachGrace = 30 * time.Second

// attach joins the cell's ends of its pipes to the container's standard
// streams. On a container that was only created this makes Podman prepare it
// for its start. The files are closed when the container's streams end.
//
// It speaks to the service itself, where the bindings have an Attach: that one
// changes the connection under all other requests, and cannot switch off the
// detach keys, two bytes (16, 17) on which Podman cuts the channel when they
// arrive one at a time. Any bytes may stand in a frame.
func (c *cell) attach(ctx context.Context, theirs [3]*os.File) error {
	s, err := c.host.podmanService(ctx)
	if err != nil {
		closeAll(theirs[:])
		return err
	}
	conn, streams, err := s.hijack(ctx, attachTarget(c.container))
	if err != nil {
		closeAll(theirs[:])
		return err
	}
	c.attached = conn
	go func() {
		io.Copy(conn, theirs[0])
		conn.CloseWrite()
		theirs[0].Close()
	}()
	go func() {
		demultiplex(streams, theirs[1], theirs[2])
		conn.Close()
		closeAll(theirs[1:])
	}()
	return nil
}

// attachTarget asks for all streams, for nothing of the past, and for no keys
// that detach.
func attachTarget(container string) string {
	return "/v4.0.0/libpod/containers/" + url.PathEscape(container) + "/attach?stdin=true&stdout=true&stderr=true&stream=true&logs=false&detachKeys="
}

// hijack sends a request whose answer is a stream in both directions.
func (s *service) hijack(ctx context.Context, target string) (*net.UnixConn, io.Reader, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.socket(), Net: "unix"})
	if err != nil {
		return nil, nil, err
	}
	deadline := time.Now().Add(attachGrace)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	streams, err := upgrade(conn, target, deadline)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, streams, conn.SetDeadline(time.Time{})
}

func upgrade(conn net.Conn, target string, deadline time.Time) (io.Reader, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: d\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n", target); err != nil {
		return nil, err
	}
	streams := bufio.NewReader(conn)
	answer, err := http.ReadResponse(streams, nil)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols && answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
		return nil, fmt.Errorf("podman answered %s: %s", answer.Status, said)
	}
	return streams, nil
}

// Streams of a container in Podman's answer: 8 bytes (the stream, three zeros,
// the length in big endian order), then the bytes.
const (
	streamStdout = 1
	streamStderr = 2
	streamError  = 3 // of the service
)

// demultiplex copies until the stream ends or is none of Podman's. It buffers
// nothing, so that whoever does not read stops only the writer.
func demultiplex(streams io.Reader, stdout, stderr io.Writer) error {
	var header [8]byte
	for {
		if _, err := io.ReadFull(streams, header[:]); err != nil {
			return err
		}
		to := stdout
		switch header[0] {
		case 0, streamStdout:
		case streamStderr, streamError:
			to = stderr
		default:
			return fmt.Errorf("podman sent a stream of kind %d", header[0])
		}
		if _, err := io.CopyN(to, streams, int64(binary.BigEndian.Uint32(header[4:]))); err != nil {
			return err
		}
	}
}
