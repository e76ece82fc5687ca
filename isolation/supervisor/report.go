package supervisor

import (
	"encoding/json"
	"io"
	"syscall"

	"podgrade/isolation/protocol"
)

// reportLimit bounds a report: a path and a few words.
const reportLimit = 16 << 10

// report is what a trampoline said before it became the command or gave up.
type report struct {
	reached bool // all was set, the exec was tried
	failed  bool
	mishap  mishap
}

// readReport reads a report until the pipe closes: by the exec, or by the
// trampoline's end.
func readReport(fd int) report {
	f := pollable(fd)
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, reportLimit))
	return parseReport(data)
}

// parseReport reads the bytes of a report.
func parseReport(data []byte) report {
	var r report
	if len(data) > 0 && data[0] == reached {
		r.reached, data = true, data[1:]
	}
	if len(data) > 0 {
		r.failed = true
		if err := json.Unmarshal(data, &r.mishap); err != nil {
			r.mishap = mishap{Stage: stageOrders, Text: "its report cannot be read: " + err.Error()}
		}
	}
	return r
}

// failure turns a trampoline's mishap into the request's failure.
func (r report) failure(run *protocol.Run) *protocol.Failure {
	m := r.mishap
	switch m.Stage {
	case stageExec:
		return execFailure(m, run.Argv[0])
	case stageDir:
		return failed(classifyDir(m.Errno), "start %q: enter its directory %q: %v", run.Argv[0], run.Dir, m.Errno).Failure
	case stageLimit:
		return failed(protocol.Broken, "start %q: set its limits: %s: %v", run.Argv[0], m.Text, m.Errno).Failure
	}
	return failed(protocol.Broken, "start %q: %s: %v", run.Argv[0], m.Text, m.Errno).Failure
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
func execFailure(m mishap, name string) *protocol.Failure {
	switch m.Errno {
	case syscall.E2BIG:
		return failed(protocol.TooLarge, "execute %q: its arguments and variables are too long: put them into a file", name).Failure
	case syscall.ENOMEM, syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE:
		return failed(protocol.Broken, "execute %q: %v", m.Text, m.Errno).Failure
	}
	switch {
	case m.Text == "":
		return failed(protocol.NoProgram, "execute %q: no such program on PATH", name).Failure
	case m.Errno == syscall.ENOENT:
		return failed(protocol.NoProgram, "execute %q: its interpreter or loader is not in the cell", m.Text).Failure
	}
	return failed(protocol.NoProgram, "execute %q: %v", m.Text, m.Errno).Failure
}
