package regrade

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks/criteria"
)

// Kind says whose turn it is after an error, and so how podgrade exits
// (design: Errors and exit codes).
type Kind string

// The kinds of errors.
const (
	User           Kind = "user"           // the command line is wrong
	Refused        Kind = "refusal"        // it may not happen, or not like this
	Infrastructure Kind = "infrastructure" // the host failed; the row is as it was
	TaskFault      Kind = "task"           // the task or the row cannot be graded by it

	// Interruption is no fault of anything: a signal ended the work.
	Interruption Kind = "interrupted"
)

// Exit codes of the program.
const (
	ExitPassed      = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInterrupted = 130
)

// Error says what was tried, on what, why it failed, and one thing to do. Its
// parts may hold text of a record; Error makes them safe to print.
type Error struct {
	Kind  Kind
	Tried string
	On    string
	Why   error
	Do    string
}

// What an error says of a record may be as long as its author likes: in
// characters, of what was tried on, and in bytes of why it failed.
const (
	mostOn  = 1000
	mostWhy = 64 << 10
)

// Error is one sentence of all parts.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Tried)
	if e.On != "" {
		b.WriteString(" " + policy.Clip(e.On, mostOn))
	}
	if e.Why != nil {
		b.WriteString(":")
		why := policy.NeutralText(cutText(e.Why.Error(), mostWhy))
		if !strings.HasPrefix(why, "\n") { // as a list does
			b.WriteString(" ")
		}
		b.WriteString(why)
	}
	if e.Do != "" {
		b.WriteString("; " + policy.Neutral(e.Do))
	}
	return b.String()
}

// cutText is the beginning of a long text, with a note of how much is left out.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s... (%d more bytes)", text[:most], len(text)-most)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Why }

// KindOf classifies any error of a grade. What nobody has classified is
// infrastructure: the row is not to blame for it.
func KindOf(err error) Kind {
	var interrupted *Interrupted
	var own *Error
	var refusal *policy.Refusal
	var fault *isolation.Fault
	var author *criteria.AuthorError
	switch {
	case errors.As(err, &interrupted):
		return Interruption
	case errors.As(err, &own):
		return own.Kind
	case errors.As(err, &refusal):
		return Refused
	case errors.As(err, &author):
		return TaskFault
	case errors.As(err, &fault):
		return kindOfFault(fault)
	}
	return Infrastructure
}

func kindOfFault(fault *isolation.Fault) Kind {
	switch fault.Kind {
	case isolation.Refusal:
		return Refused
	case isolation.Evidence:
		return TaskFault
	}
	return Infrastructure
}

// Interrupted says that a signal to podgrade ended the work. It is a
// context.Canceled; most that are none of these are infrastructure that gave up.
type Interrupted struct {
	What string // what that means for the row
}

// Error says it in plain words.
func (e *Interrupted) Error() string { return "interrupted: " + e.What }

// Is lets it stand for the end of its context.
func (e *Interrupted) Is(target error) bool { return target == context.Canceled }

// ExitCode is the exit code for an error; 0 for nil.
func ExitCode(err error) int {
	if err == nil {
		return ExitPassed
	}
	switch KindOf(err) {
	case Interruption:
		return ExitInterrupted
	case User, Refused:
		return ExitUsage
	}
	return ExitFailed
}
