package policy

import (
	"fmt"
	"io"
	"slices"
)

// Carried is what of this host travels with a row beside its own directory.
type Carried struct {
	TaskDir   string // resolved; "": none
	Reference string // resolved; "": the task has none
}

// ConsentToCarry asks for what an export of a row reads of this host: a record
// can name any directory as that of its task, and an archive is made to be
// handed on. Who signed the row does not answer for that: a signature says what may
// be used here. What is taken is written to notice. The error is a *Refusal.
func ConsentToCarry(r Request, answer Answer, notice io.Writer) (Carried, error) {
	t := &terms{}
	for _, criterion := range r.Task.SuccessCriteria {
		if err := t.criterion(criterion, r); err != nil {
			return Carried{}, err
		}
	}
	for _, hook := range r.Task.PostRun {
		t.hook(hook, r)
	}
	if err := t.paths(r); err != nil {
		return Carried{}, err
	}
	grants := slices.DeleteFunc(t.grants, func(g Grant) bool { return g.Kind != Path })
	for i := range grants {
		grants[i].Reason = "the record names it; all of it, but .git and links that lead out, goes into the archive"
	}
	if err := keepsKey(r, grants); err != nil {
		return Carried{}, err
	}
	if err := denied(answer.Policy, grants); err != nil {
		return Carried{}, err
	}
	open := slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool {
		return answer.RecordedPaths || answer.Policy.allows(g, grants)
	})
	if len(open) > 0 {
		return Carried{}, &Refusal{
			What:   "the record names directories of this host that are to go into the archive, and nobody has accepted that:",
			Grants: open,
			Do:     "Read the list; when all of it may be handed on, run the same command with --allow-recorded-paths.",
		}
	}
	if len(grants) > 0 {
		fmt.Fprintf(notice, "going into the archive:\n%s", Page(grants))
	}
	return Carried{TaskDir: t.taskDir, Reference: t.reference}, nil
}
