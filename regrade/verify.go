package regrade

import (
	"errors"

	"podgrade/policy"
	"podgrade/tasks/record"
)

// Vouching is who vouches for one half of a row: for what was executed, or for
// its verdict.
type Vouching struct {
	By     policy.Signer `json:"by"`               // policy.Unsigned: nobody who counts
	Signer string        `json:"signer,omitempty"` // for a person
	Why    string        `json:"why,omitempty"`    // nobody counts
	// Differ is what is not as it was signed. Where nobody counts, since the row lies in
	// another run than the signed one, it is what Signer has signed otherwise there: the
	// run's name alone is none of it.
	Differ []record.Part `json:"differ,omitempty"`
	// Lost: nobody who counts has signed it now, and this user's own key had signed
	// what lay in its place. Somebody took the signature away, or put another row there.
	Lost bool `json:"lost,omitempty"`
	// Without is what the signature says nothing of, and others do.
	Without []record.Part `json:"without,omitempty"`
}

// Holds tells whether somebody known has signed what the row holds.
func (v Vouching) Holds() bool { return v.By != policy.Unsigned && len(v.Differ) == 0 }

// Vouched is who vouches for a row.
type Vouched struct {
	Row     string    `json:"row"` // directory
	Execute Vouching  `json:"execute"`
	Verdict *Vouching `json:"verdict"` // nil: the row has no verdict
	// Workspace is what is known of it: nothing, since Verify does not read it.
	Workspace string `json:"workspace"`
}

// notCompared: only a grade compares a workspace with what was signed.
const notCompared = "not compared"

// Holds tells whether all of the row is as somebody known has signed it.
func (v Vouched) Holds() bool { return v.Execute.Holds() && (v.Verdict == nil || v.Verdict.Holds()) }

// Verify looks for who vouches for a row. It reads the record and the files of
// its signatures and starts nothing, so that the workspace is not looked at: a
// grade compares it.
func Verify(row *record.Row, known Signers) (Vouched, error) {
	rec, _, err := row.Read()
	if errors.Is(err, record.ErrNoRecord) {
		return Vouched{}, withoutRecord("read the record of", row.Dir)
	}
	if err != nil {
		return Vouched{}, &Error{Kind: kindOfReading(err), Tried: "read the record of", On: row.Dir, Why: err, Do: "name a row directory: RUN/VARIANT/TASK/NN"}
	}
	return verify(row, rec, known), nil
}

func verify(row *record.Row, rec *record.Record, known Signers) Vouched {
	v := Vouched{Row: row.Dir, Workspace: notCompared}
	executed, timeless := "", false
	v.Execute = vouching(row, record.ExecuteEnvelope, func(text []byte) (policy.Signer, string, []record.Part, error) {
		found, err := checkExecuted(known, row, rec, text)
		if err != nil {
			return policy.Unsigned, "", nil, err
		}
		executed, timeless = found.statement, found.times == ""
		switch {
		case found.moved:
			return inItsOwnRun(found.name, found.differ, found.none)
		case found.none != "":
			return policy.Unsigned, "", nil, errors.New(found.none)
		}
		return found.by, found.name, found.differ, nil
	})
	if v.Execute.Holds() && timeless {
		v.Execute.Without = []record.Part{record.PartTimes}
	}
	v.Execute.Lost = v.Execute.By == policy.Unsigned && known.Keys.Noted(row.Dir, policy.RowHalf)
	if !rec.HasVerdict() {
		return v
	}
	verdict := vouching(row, record.GradeEnvelope, func(text []byte) (policy.Signer, string, []record.Part, error) {
		return checkGraded(known, row, rec, executed, text)
	})
	verdict.Lost = verdict.By == policy.Unsigned && known.Keys.Noted(row.Dir, policy.VerdictHalf)
	v.Verdict = &verdict
	return v
}

func vouching(row *record.Row, name string, check func([]byte) (policy.Signer, string, []record.Part, error)) (v Vouching) {
	text, err := row.Envelope(name)
	if err == nil && text == nil {
		err = errors.New("there is no " + name)
	}
	if err == nil {
		v.By, v.Signer, v.Differ, err = check(text)
	}
	if err != nil {
		v.Why = err.Error()
	}
	return v
}

// partExecuted is what the row was when it was graded.
const partExecuted record.Part = "row as it was executed"

// checkGraded compares a verdict with what was signed when it was reached.
func checkGraded(known Signers, row *record.Row, rec *record.Record, executed string, text []byte) (policy.Signer, string, []record.Part, error) {
	signed, err := known.open(text)
	if err == nil && signed.By == policy.Unsigned {
		err = unknownKey(signed)
	}
	if err != nil {
		return policy.Unsigned, "", nil, err
	}
	s, err := readStatement[gradedRow](signed.Statement, saysGrade)
	if err != nil {
		return policy.Unsigned, "", nil, err
	}
	var differ []record.Part
	elsewhere := ""
	if identityOf(row, rec) != s.Predicate.Row.identity() {
		differ = append(differ, partIdentity)
	} else {
		elsewhere = inAnotherRun(row, rec, s.Predicate.Row)
	}
	// A verdict on a row that nobody vouched for names no signature of it.
	vouched := s.subject(record.ExecuteEnvelope)
	if s.subject(record.TaskFile) != digestOfParts(gradedParts(rec)) || vouched != "" && vouched != executed {
		differ = append(differ, partExecuted)
	}
	differ = append(differ, record.Differences(s.Predicate.Parts, rec.VerdictParts())...)
	if elsewhere != "" {
		return inItsOwnRun(nameOfSigner(signed), differ, elsewhere)
	}
	return signed.By, nameOfSigner(signed), differ, nil
}

// inItsOwnRun is what a signature comes to that is of a row of another run: nobody
// vouches for this one. What the signer has signed otherwise is told all the same: an
// edited row does not become a believed one when its run gets another name.
func inItsOwnRun(signer string, differ []record.Part, why string) (policy.Signer, string, []record.Part, error) {
	if len(differ) == 0 {
		signer = ""
	}
	return policy.Unsigned, signer, differ, errors.New(why)
}
