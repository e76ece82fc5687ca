package worker

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// execServer is a worker without namespaces, as far as OpExec needs one.
func execServer() *server {
	return &server{children: newChildren(), execs: map[uint64]*execution{}}
}

// ask starts an OpExec as the loop does, up to where it is handled.
func (s *server) ask(t *testing.T, id uint64, argv ...string) (Request, []int) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	s.note(Request{ID: id, Op: OpExec})
	fd := int(null.Fd())
	return Request{ID: id, Op: OpExec, Exec: &Exec{Argv: argv, Dir: "/"}}, []int{fd, fd, fd}
}

// Who gives up a program has it ended, even when the worker has yet to start
// it: its output would be waited for until it ended by itself.
func TestAProgramIsEndedHoweverEarly(t *testing.T) {
	if !inNamespaces(t) { // children reaps every child of its process
		return
	}
	s := execServer()
	r, files := s.ask(t, 1, "/bin/sleep", "1000")
	if err := s.signal(1); err != nil {
		t.Fatal(err)
	}
	var answer Reply
	done := make(chan error, 1)
	go func() { done <- s.exec(r, files, &answer) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a program that was given up ran to its end")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a program that was given up before its start runs")
	}
	r, files = s.ask(t, 2, "/bin/sleep", "1000")
	go func() { done <- s.exec(r, files, &answer) }()
	for started := false; !started; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		started = s.execs[2].group != 0
		s.mu.Unlock()
	}
	if err := s.signal(2); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || answer.ExitCode != 128+int(syscall.SIGKILL) {
		t.Errorf("ended with %d, %v", answer.ExitCode, err)
	}
	if err := s.signal(2); err != nil || len(s.execs) != 0 {
		t.Errorf("after its end: %v, %d noted", err, len(s.execs))
	}
}

// The cause of an error reaches the host however long its words are.
func TestErrorsFitAMessage(t *testing.T) {
	long := errors.New(strings.Repeat("\xff/ä", MaxMessage))
	e := asError(&fault{err: long, workspace: true})
	if !e.Workspace || len(e.Message) > maxError+3 || !strings.HasSuffix(e.Message, "...") {
		t.Errorf("%d bytes, workspace %v", len(e.Message), e.Workspace)
	}
}
