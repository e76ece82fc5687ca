package regrade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// Retry says which rows that ended badly a resume runs again; "": none.
type Retry string

// What can be retried (--retry).
const (
	RetryInfra Retry = "infra" // rows that the host ended, and not what they ran
	RetryError Retry = "error" // every row that counts as an error
)

// Retries returns what can be asked for.
func Retries() []Retry { return []Retry{RetryInfra, RetryError} }

// due is what a row still needs.
type due int

const (
	dueExecute due = iota // it has not been executed, or is to be again
	dueGrade              // it has no verdict, or one of other criteria
	dueNothing            // it is finished
)

// again says why a row that was finished is executed again.
type again int

const (
	againNot     again = iota // it was not finished
	againChanged              // it was executed with something else
	againRetried              // it ended badly
)

// standing is a row as a run finds it.
type standing struct {
	job     Job
	due     due
	owed    bool               // a grade, whether or not this run makes any
	clear   bool               // something of an earlier execution is in the way
	again   again              // why a row that was finished is executed again
	reason  string             // why a row that was there is done again although nobody asked for it; ""
	summary *record.SummaryRow // of the record that is there
	changed []string           // keys that the row was executed with otherwise
	err     error              // the row can be neither read nor made
}

// look finds out what one row needs (spec/regrade.md 1.3). It changes nothing
// but that the row directory is made, and that drafts of a killed podgrade are
// removed.
func (r *runner) look(job Job) standing {
	s := standing{job: job}
	row, err := record.Create(r.options.Dir, job.Identity())
	if err != nil {
		s.err = &Error{Kind: Infrastructure, Tried: "make the row directory", On: job.Identity().String(), Why: err, Do: "see what lies at its place"}
		return s
	}
	defer row.Close()
	row.RemoveLeftovers()
	rec, _, err := row.Read()
	switch {
	case errors.Is(err, record.ErrNoRecord):
		s.clear = row.Abandoned()
		return s
	case errors.Is(err, record.ErrUnreadable):
		// Nobody knows what it said, so the row is done again, and the text is
		// kept for a person.
		s.clear, s.reason = true, "its record cannot be read: "+err.Error()
		return s
	case err != nil:
		s.err = &Error{Kind: Infrastructure, Tried: "read the record of", On: row.Dir, Why: err,
			Do: "put the record back, or remove what is at its place to run the row again"}
		return s
	}
	s.summary, s.owed = record.NewSummaryRow(rec, job.Row.Replicate, job.Row.File.Path), dueOf(rec, true) == dueGrade
	r.decide(&s, rec)
	s.owed = s.owed || s.due == dueGrade
	if r.options.Grade && s.due != dueExecute && len(s.changed) == 0 {
		if s.reason = doubtOf(row, rec, r.options.Grading); s.reason != "" {
			s.due, s.owed, s.summary = dueGrade, true, nil // what it says is not passed on
		}
	}
	return s
}

// decide compares a record with the row that the task files ask for.
func (r *runner) decide(s *standing, rec *record.Record) {
	s.changed = r.differences(s.job, rec)
	switch {
	case len(s.changed) > 0 && r.options.RerunChanged:
		s.due, s.clear, s.again = dueExecute, true, againChanged
		s.changed = nil
		return
	case len(s.changed) > 0:
		s.due = dueNothing
		return
	case r.options.Retry.takes(rec):
		s.due, s.clear, s.again = dueExecute, true, againRetried
		return
	}
	s.due = dueOf(rec, r.options.Grade)
	if s.due == dueNothing && r.options.Grade && rec.HasVerdict() && otherCriteria(s.job.Row.Task, rec) {
		s.due, s.summary = dueGrade, nil // its verdict is none by these criteria
	}
}

// doubtOf is why a verdict is not believed: somebody known has signed another
// one, or another row than it is of, or this user's own key has signed the row or the
// verdict, and the verdict is without a signature although a grade would have made
// one. That what was signed is of a run of another name, as it is in a run directory
// that was renamed or copied, does not make another verdict a believed one. A grade
// then refuses the row or makes it good. What no known key has signed, as far as
// anybody here knows, is believed, as every record is.
func doubtOf(row *record.Row, rec *record.Record, o Options) string {
	if o.Keys == nil || !rec.HasVerdict() && dueOf(rec, true) == dueGrade {
		return ""
	}
	v := verify(row, rec, o.signers())
	if v.Verdict == nil { // a status that needs none, as it says
		return doubtOfStatus(v, o.Keys.Noted(row.Dir, policy.VerdictHalf))
	}
	_, live := rec.Environment.Get(record.GradedLive)
	_, onHost := rec.Environment.Get(record.GradedOnHost)
	switch {
	case len(v.Verdict.Differ) > 0:
		return signedOtherwise(*v.Verdict)
	case v.Verdict.By != policy.Unsigned:
		return ""
	case v.Verdict.Lost:
		return "its verdict " + lost + ": " + v.Verdict.Why
	case live, onHost: // which no grade signs
		return ""
	case v.Execute.Lost:
		return "it " + lost + ": " + v.Execute.Why
	case v.Execute.By == policy.Own:
		return "this user's own key has signed the row and not its verdict: " + v.Verdict.Why
	}
	return ""
}

// signedOtherwise tells of a half that is not as it was signed, in this run or in the
// one that the signature is of.
func signedOtherwise(v Vouching) string {
	text := v.Signer + " has signed another " + namesOfParts(v.Differ) + " than it holds now"
	if v.By == policy.Unsigned {
		text += "; " + v.Why
	}
	return text
}

// doubtOfStatus is why a row that would stay without a verdict is not believed.
func doubtOfStatus(v Vouched, verdictNoted bool) string {
	switch {
	case len(v.Execute.Differ) > 0:
		return signedOtherwise(v.Execute)
	case v.Execute.Lost:
		return "it " + lost + ": " + v.Execute.Why
	case verdictNoted:
		return "this user's own key has signed a verdict of it, and it holds none now"
	}
	return ""
}

// lost tells of what this user's own key is known to have signed.
const lost = "has lost the signature of this user's own key"

// dueOf is the partition of spec/regrade.md 1.3. What owes a grade is decided
// by the missing verdict and the evidence of an execution, not by the status.
func dueOf(r *record.Record, grade bool) due {
	if !grade || r.HasVerdict() || endedEarly(r) {
		return dueNothing
	}
	if r.Status == record.NotGraded || r.Iterations > 0 {
		return dueGrade
	}
	return dueNothing // a dead cell or a failed build: its diagnosis stays
}

// endedEarly tells whether a row that podgrade executed was ended by its host, or by
// its set-up: what is there is not what its agent would have left, and no score of it
// would be the agent's.
func endedEarly(r *record.Record) bool {
	if r.Environment == nil || r.Environment.Text(record.Version) == "" {
		return false
	}
	switch categoryOf(r) {
	case record.CategoryInfrastructure, record.CategorySetup, record.CategoryBuild:
		return true
	}
	return false
}

// categoryOf is the category of the error that a row ended with; "": there is none.
func categoryOf(r *record.Record) string {
	if r.Status.Category() != record.Errored {
		return ""
	}
	details, err := r.Get(record.FieldErrorDetails).Object()
	if err != nil {
		return ""
	}
	return details.Text("error_category")
}

// takes tells whether a row is to be run again although it is finished.
func (retry Retry) takes(r *record.Record) bool {
	if r.Status.Category() != record.Errored {
		return false
	}
	switch retry {
	case RetryError:
		return true
	case RetryInfra:
		return !r.HasVerdict() && categoryOf(r) == record.CategoryInfrastructure
	}
	return false
}

// differences names the keys of the task that the row was executed with
// otherwise; none when it is the same row. The run digest decides, where the
// record holds one: a position in a list never does (design: Identity).
func (r *runner) differences(job Job, rec *record.Record) []string {
	digests, err := r.digestsOf(job)
	if err != nil {
		return []string{"task that has no digest: " + err.Error()}
	}
	return differencesOf(job.Row.Task, *digests, rec)
}

// differencesOf names what a row was executed with otherwise than the task, of
// these digests, says.
func differencesOf(task *tasks.Task, digests Digests, rec *record.Record) []string {
	recorded := rec.Environment.Text(record.RunDigest)
	if recorded == digests.Run || recorded == digests.Placed {
		return nil
	}
	config, err := rec.TaskConfig()
	if err != nil {
		if recorded == "" {
			return nil // nothing to compare: the record was made for a dead cell
		}
		return []string{"task, which its record does not hold"}
	}
	part := RunPart
	if recorded == "" { // nothing says what lay at the places
		part = placedPart
	}
	keys := differentKeys(task, config.Resolved, part)
	if len(keys) == 0 && recorded != "" {
		return []string{"content of a file that its set-up uses"}
	}
	return keys
}

// differentKeys compares what an execute reads of two tasks.
func differentKeys(task *tasks.Task, resolved record.Raw, part func(*tasks.Task) (map[string]json.RawMessage, error)) []string {
	was, err := tasks.FromRecord(resolved)
	if err != nil {
		return []string{"task, which cannot be read: " + err.Error()}
	}
	before, err := part(was)
	if err != nil {
		return []string{"task: " + err.Error()}
	}
	now, err := part(task)
	if err != nil {
		return []string{"task: " + err.Error()}
	}
	var keys []string
	for key := range maps.Keys(before) {
		if !bytes.Equal(before[key], now[key]) {
			keys = append(keys, key)
		}
	}
	for key := range maps.Keys(now) {
		if _, both := before[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// gradedBy are the keys of a task that a verdict follows from.
var gradedBy = []string{"success_criteria", "reference", "checker_context"}

// otherCriteria tells whether the verdict in a record is of other criteria than
// the task has now. A record that does not say is left alone.
func otherCriteria(task *tasks.Task, rec *record.Record) bool {
	config, err := rec.TaskConfig()
	if err != nil {
		return false
	}
	was, err := tasks.FromRecord(config.Resolved)
	if err != nil {
		return false
	}
	before, err := keysOf(was)
	if err != nil {
		return false
	}
	now, err := keysOf(task)
	if err != nil {
		return false
	}
	for _, key := range gradedBy {
		if !bytes.Equal(before[key], now[key]) {
			return true
		}
	}
	return false
}

func keysOf(task *tasks.Task) (map[string]json.RawMessage, error) {
	text, err := task.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var keys map[string]json.RawMessage
	return keys, json.Unmarshal(text, &keys)
}

// warnOfDoubts says which records are not believed, before their rows are done
// again.
func (r *runner) warnOfDoubts() {
	done := map[due]string{dueExecute: "executed", dueGrade: "graded"}
	for _, s := range r.rows {
		if s.reason != "" {
			r.warn(s.job.Identity().String() + " is " + done[s.due] + " again: " + s.reason)
		}
	}
}

// refuseChanged refuses to go on with a run of which rows were executed with
// something else, naming all of it.
func refuseChanged(found []standing) error {
	var text strings.Builder
	n := 0
	for _, s := range found {
		if len(s.changed) == 0 {
			continue
		}
		n++
		fmt.Fprintf(&text, "\n  - %s: another %s", policy.Neutral(s.job.Identity().String()), policy.Neutral(strings.Join(s.changed, ", ")))
	}
	if n == 0 {
		return nil
	}
	rows := "one row was"
	if n > 1 {
		rows = fmt.Sprintf("%d rows were", n)
	}
	return &Error{Kind: Refused, Tried: "resume the run", Why: fmt.Errorf("%s executed with something else than the task files say now:%s", rows, text.String()),
		Do: "put the task files back, use another --run-dir, or have what changed run again with --rerun-changed"}
}
