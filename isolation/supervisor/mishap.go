package supervisor

import (
	"errors"
	"syscall"

	"podgrade/isolation/protocol"
)

// mishap is why a command did not come to run.
type mishap struct {
	stage stage
	errno syscall.Errno
	text  string // what was tried, when there is more to say
}

// failure turns a mishap into the request's failure.
func (m *mishap) failure(run *protocol.Run) *protocol.Failure {
	switch m.stage {
	case stageExec:
		return execFailure(m, run.Argv[0])
	case stageDir:
		return failed(classifyDir(m.errno), "start %q: enter its directory %q: %v", run.Argv[0], run.Dir, m.errno).Failure
	case stageLimit:
		return failed(protocol.Broken, "start %q: set its limits: %s: %v", run.Argv[0], m.text, m.errno).Failure
	}
	return failed(protocol.Broken, "start %q: %s: %v", run.Argv[0], m.text, m.errno).Failure
}

// classifyDir sorts an error of a command's directory. None of them is a fault
// of the cell: EIO and ESTALE come from the workspace too.
func classifyDir(err error) protocol.FailureKind {
	if kind := classify(err); kind != protocol.Broken {
		return kind
	}
	return protocol.Denied
}

// execFailure tells a program that is not there, or is none, from a cell that
// is short of something. A program that was cut off gives EIO.
func execFailure(m *mishap, name string) *protocol.Failure {
	switch m.errno {
	case syscall.E2BIG:
		return failed(protocol.TooLarge, "execute %q: its arguments and variables are too long: put them into a file", name).Failure
	case syscall.ENOMEM, syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE:
		return failed(protocol.Broken, "execute %q: %v", m.text, m.errno).Failure
	}
	switch {
	case m.text == "":
		return failed(protocol.NoProgram, "execute %q: no such program on PATH", name).Failure
	case m.errno == syscall.ENOENT:
		return failed(protocol.NoProgram, "execute %q: its interpreter or loader is not in the cell", m.text).Failure
	}
	return failed(protocol.NoProgram, "execute %q: %v", m.text, m.errno).Failure
}

// errno is the error number inside err.
func errno(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return syscall.EINVAL
}
