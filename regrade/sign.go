package regrade

import (
	"podgrade/policy"
	"podgrade/tasks/record"
)

// sign vouches for the row with this user's key. A row that no grade can use,
// or whose commands ran on the host, where they could have the key, is not
// signed; nor is one where the key cannot be had, which is no reason to lose
// the row (design: Trust).
func (e *execution) sign(made *record.Record) {
	if e.options.Keys == nil {
		return
	}
	// What was signed at this place before was of another execution.
	note(e.options.Keys, e.row, policy.VerdictHalf, false, e.warn)
	if e.accepted.Place() != policy.InCell || e.settled == nil {
		note(e.options.Keys, e.row, policy.RowHalf, false, e.warn)
		return
	}
	text, err := executedStatement(nameOfRow(e.row, e.job.Identity()), made, e.options.Version)
	if err == nil {
		text, err = e.options.Keys.Sign(text)
	}
	if err == nil {
		note(e.options.Keys, e.row, policy.RowHalf, true, e.warn)
		err = e.row.Write(record.ExecuteEnvelope, text)
	}
	if err != nil {
		e.warn("the row is not signed, so that a grade by its record will ask: " + err.Error())
	}
}

// note notes whether a half of the row is signed from now on, so that a resume misses
// a signature that is taken away.
func note(keys *policy.Keys, row *record.Row, half policy.Half, signed bool, warn func(string)) {
	if err := keys.Note(row.Dir, half, signed); err != nil {
		warn(err.Error())
	}
}

// sign vouches for the verdict with this user's key, and again for a row of this
// user's own whose task is another one by this grade. What commands of this
// grade could have forged, since they ran on the host, is not signed; an older
// signature, which would be of another verdict, goes in any case.
func (g *grading) sign(to *beside) {
	to.removed = append(to.removed, record.GradeEnvelope)
	if g.options.Keys == nil {
		return
	}
	to.keys, to.own = g.options.Keys, g.vouched != nil && g.vouched.by == policy.Own
	executed, err := g.signAgain(to)
	_, live := g.record.Environment.Get(record.GradedLive)
	if err == nil && !live && g.accepted.Place() == policy.InCell {
		err = g.signVerdict(to, executed)
	}
	if err != nil {
		g.warn(verdictUnsigned + err.Error())
	}
}

const verdictUnsigned = "the verdict is not signed: "

func (g *grading) signVerdict(to *beside, executed string) error {
	text, err := gradedStatement(nameOfRow(g.row, g.rowIdentity()), g.record, executed, g.options.Version)
	if err == nil {
		text, err = g.options.Keys.Sign(text)
	}
	if err == nil {
		err = to.sign(record.GradeEnvelope, text)
	}
	return err
}

// signAgain is for a row whose recorded task this grade has replaced by the
// operator's own: the signature of its execute is of the one before. This user's
// own is made anew. Another's cannot be, and goes; the record as it was executed
// is kept beside. It returns the digest of what vouches for the row then.
func (g *grading) signAgain(to *beside) (executed string, err error) {
	if g.vouched == nil {
		return "", nil
	}
	if len(record.Differences(g.vouched.parts, g.record.Parts())) == 0 {
		return g.vouched.statement, nil
	}
	if g.vouched.by != policy.Own {
		to.removed = append(to.removed, record.ExecuteEnvelope)
		to.said = "the row holds your task now, which " + g.vouched.name + " has not signed: that signature is removed"
		return "", nil
	}
	text, err := executedStatement(g.vouched.row, g.record, g.options.Version)
	if err != nil {
		return "", err
	}
	executed = digestOf(text)
	if text, err = g.options.Keys.Sign(text); err != nil {
		return "", err
	}
	return executed, to.sign(record.ExecuteEnvelope, text)
}

// rowIdentity is the row's name by its record and its directory.
func (g *grading) rowIdentity() record.Identity { return identityOf(g.row, g.record) }

func identityOf(row *record.Row, rec *record.Record) record.Identity {
	return record.Identity{VariantID: rec.VariantID, TaskID: rec.TaskID, Replicate: row.Replicate()}
}
