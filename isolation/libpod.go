package isolation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"podgrade/isolation/libpod"
)

// libpodName is the program in the libexec directory that asks Podman's
// service.
const libpodName = "podgrade-libpod"

// caller asks Podman's service through one podgrade-libpod that lives as long
// as the service. It is safe for several goroutines.
type caller struct {
	program, socket string
	env             []string
	in              io.WriteCloser
	process         *exec.Cmd
	said            *tail
	ended           chan struct{}

	write sync.Mutex
	mu    sync.Mutex
	next  uint64
	calls map[uint64]chan libpod.Answer
}

// newCaller starts the program. It connects to the service by itself.
func newCaller(libexec, socket string, env []string) (*caller, error) {
	c := &caller{
		program: filepath.Join(libexec, libpodName), socket: socket, env: env,
		said: &tail{max: 4 << 10}, ended: make(chan struct{}), calls: map[uint64]chan libpod.Answer{},
	}
	c.process = c.command(context.Background(), libpod.Serve)
	c.process.Stderr = c.said
	in, err := c.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in = in
	if err := c.process.Start(); err != nil {
		return nil, installFault(c.program, err)
	}
	go c.read(out)
	return c, nil
}

func installFault(program string, err error) error {
	return &Fault{Tried: "start", On: program, Why: err, Do: "install podgrade with its libexec directory beside bin"}
}

// command is a start of the program. It ends with podgrade.
func (c *caller) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.program, append([]string{args[0], c.socket}, args[1:]...)...)
	cmd.Env = c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (c *caller) read(out io.Reader) {
	defer close(c.ended)
	answers := json.NewDecoder(out)
	for {
		var a libpod.Answer
		if answers.Decode(&a) != nil {
			break
		}
		c.mu.Lock()
		call := c.calls[a.ID]
		delete(c.calls, a.ID)
		c.mu.Unlock()
		if call != nil {
			call <- a
		}
	}
	c.process.Process.Kill()
	c.process.Wait()
}

// close ends the program.
func (c *caller) close() {
	c.in.Close()
	c.process.Process.Kill()
	<-c.ended
}

// ask asks a short question.
func (c *caller) ask(ctx context.Context, call libpod.Call) (libpod.Answer, error) {
	answered := make(chan libpod.Answer, 1)
	c.mu.Lock()
	c.next++
	call.ID = c.next
	c.calls[call.ID] = answered
	c.mu.Unlock()
	if err := c.send(call); err != nil {
		return libpod.Answer{}, c.fault(err)
	}
	select {
	case a := <-answered:
		return a, errorOf(a)
	case <-c.ended:
		return libpod.Answer{}, c.fault(nil)
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.calls, call.ID)
		c.mu.Unlock()
		c.send(libpod.Call{GiveUp: call.ID})
		return libpod.Answer{}, ctx.Err()
	}
}

func (c *caller) send(call libpod.Call) error {
	line, err := json.Marshal(call)
	if err != nil {
		return err
	}
	c.write.Lock()
	defer c.write.Unlock()
	_, err = c.in.Write(append(line, '\n'))
	return err
}

// fault explains a program that ended.
func (c *caller) fault(err error) error {
	if said := c.said.String(); said != "" {
		return errors.New(said)
	}
	if err == nil {
		err = errors.New("it ended")
	}
	return fmt.Errorf("ask Podman's service through %s: %w", libpodName, err)
}

// errorOf is nil where there is none: a nil pointer in an error is not.
func errorOf(a libpod.Answer) error {
	if a.Error != nil {
		return a.Error
	}
	return nil
}

func isNotFound(err error) bool {
	var e *libpod.Error
	return errors.As(err, &e) && e.NotFound
}

// once makes a call that takes an archive, or says much, in a program of its
// own. It returns the id of the image that was made.
func (c *caller) once(ctx context.Context, call libpod.Call, in io.Reader, said io.Writer) (string, error) {
	text, err := json.Marshal(call)
	if err != nil {
		return "", err
	}
	cmd := c.command(ctx, libpod.Once, string(text))
	var out bytes.Buffer
	kept := &tail{max: 4 << 10}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, io.MultiWriter(kept, orDiscard(said))
	cmd.WaitDelay = drainGrace // a reader that has nothing to give holds it no longer
	err = cmd.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	var a libpod.Answer
	if json.Unmarshal(out.Bytes(), &a) == nil {
		return a.Image, errorOf(a)
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return "", installFault(c.program, err)
	}
	if text := strings.TrimSpace(kept.String()); text != "" {
		err = errors.New(text)
	}
	return "", fmt.Errorf("ask Podman's service through %s: %w", libpodName, err)
}
