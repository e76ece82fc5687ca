package regrade

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"podgrade/policy"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// Bounds of the logs of one grade, in bytes.
const (
	mostGradeLog = 64 << 20
	mostCellLog  = 16 << 20
)

// logs are the two logs of a grade. Neither is needed for the verdict, so a
// log that cannot be written is a warning.
type logs struct {
	grade *boundedLog
	cell  *boundedLog
	// streams are of the criteria's commands; nil: nobody keeps them.
	streams *streams
}

var _ criteria.Sink = (*logs)(nil)

// openRunLogs opens the logs of an execute, which have names of their own.
func openRunLogs(row *record.Row, warn func(string)) *logs {
	l := &logs{
		grade: openLog(row, record.TaskLog, mostGradeLog, warn),
		cell:  openLog(row, record.ContainerLog, mostCellLog, warn),
	}
	l.grade.last, l.cell.last = &lastBytes{}, &lastBytes{}
	return l
}

// tail is the end of a log, for the record: of what the build said, or of the
// row's own.
func (l *logs) tail(build bool) string {
	if said := l.cell.last.String(); build && said != "" {
		return said
	}
	return l.grade.last.String()
}

func openLogs(row *record.Row, warn func(string)) *logs {
	return &logs{
		grade: openLog(row, record.GradeLog, mostGradeLog, warn),
		cell:  openLog(row, record.GradeCellLog, mostCellLog, warn),

		streams: newStreams(row),
	}
}

// whole opens what takes all of a stream of a command.
func (l *logs) whole(label, stream string) io.Writer {
	if l.streams == nil {
		return io.Discard
	}
	return l.streams.open(label, stream)
}

// close puts the logs under their names, or drops them.
func (l *logs) close(keep bool, warn func(string)) {
	for _, log := range []*boundedLog{l.grade, l.cell} {
		if err := log.close(keep); err != nil {
			warn(fmt.Sprintf("the log %s could not be written: %v", log.name, err))
		}
	}
	if l.streams == nil {
		return
	}
	if err := l.streams.close(keep); err != nil {
		warn(fmt.Sprintf("not all of %s could be written: %v", record.CriterionLogs, err))
	}
}

// Note adds a line to the grade's log.
func (l *logs) Note(label, text string) {
	fmt.Fprintf(l.grade, "%s %s: %s\n", time.Now().Format("15:04:05.000"), label, policy.Neutral(text))
}

// Command adds a finished command with what was kept of its output.
func (l *logs) Command(label, line string, exit criteria.Exit) {
	end := fmt.Sprintf("exit code %d", exit.Code)
	switch {
	case exit.Held:
		end = "it had ended, and what it left in the background held its output until the time-out"
	case exit.TimedOut:
		end = "ended by its time-out"
	case exit.NoShell:
		end = "there is no shell that could run it"
	case exit.CellEnded:
		end += ", and the cell ended with it"
	}
	l.Note(label, fmt.Sprintf("%s: %s after %.3f s", line, end, exit.Duration.Seconds()))
	l.stream(label, streamStdout, exit.Stdout)
	l.stream(label, streamStderr, exit.Stderr)
}

func (l *logs) stream(label, name string, out criteria.Output) {
	if out.Bytes == 0 {
		return
	}
	if l.streams != nil {
		l.streams.ended(label, name, out)
	}
	text := strings.ReplaceAll(strings.TrimSuffix(policy.NeutralText(string(out.Text)), "\n"), "\n", "\n    ")
	fmt.Fprintf(l.grade, "  %s, %d bytes, sha256 %s:\n    %s\n", name, out.Bytes, out.SHA256, text)
}

// boundedLog is a log file of the row that stops growing at a limit.
type boundedLog struct {
	name  string
	draft *record.Draft // nil: it cannot be written

	mu   sync.Mutex
	room int64
	last *lastBytes // nil: nobody asks for the end
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct{ kept []byte }

// mostLast bounds what a record holds of a log, in bytes.
const mostLast = 4 << 10

func (l *lastBytes) write(p []byte) {
	l.kept = append(l.kept, p[max(0, len(p)-mostLast):]...)
	if len(l.kept) > 4*mostLast {
		l.kept = append(l.kept[:0], l.kept[len(l.kept)-mostLast:]...)
	}
}

func (l *lastBytes) bytes() []byte { return l.kept[max(0, len(l.kept)-mostLast):] }

// String begins with a whole line where there is one.
func (l *lastBytes) String() string {
	kept := l.bytes()
	if len(kept) < len(l.kept) {
		if _, rest, found := bytes.Cut(kept, []byte("\n")); found {
			kept = rest
		}
	}
	return policy.NeutralText(strings.ToValidUTF8(string(kept), "\ufffd"))
}

var _ io.Writer = (*boundedLog)(nil)

func openLog(row *record.Row, name string, most int64, warn func(string)) *boundedLog {
	draft, err := row.Draft(name)
	if err != nil {
		warn(fmt.Sprintf("the log %s cannot be written: %v", name, err))
	}
	return &boundedLog{name: name, draft: draft, room: most}
}

// Write never fails: a full disk must not change a verdict.
func (b *boundedLog) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil {
		b.last.write(p)
	}
	if b.draft == nil || b.room <= 0 {
		return len(p), nil
	}
	part := p[:min(int64(len(p)), b.room)]
	b.room -= int64(len(part))
	if _, err := b.draft.Write(part); err != nil {
		b.room = 0
	} else if b.room == 0 {
		fmt.Fprintf(b.draft, "\n[the log is full]\n")
	}
	return len(p), nil
}

func (b *boundedLog) close(keep bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.draft == nil {
		return nil
	}
	draft := b.draft
	b.draft = nil
	if !keep {
		draft.Drop()
		return nil
	}
	return draft.Publish()
}
