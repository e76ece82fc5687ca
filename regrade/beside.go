package regrade

import (
	"fmt"
	"slices"

	"podgrade/policy"
	"podgrade/tasks/record"
)

// beside are the files that a verdict puts beside its record: drafts until the
// record is on the disk. A write of it that fails leaves what is of the record
// that stays, signatures above all: a trusted key's cannot be made again.
type beside struct {
	row     *record.Row
	cell    *record.Draft   // of record.GradeCellFile; nil: it could not be written
	changes *rowChanges     // of record.GradeChanges
	signed  []*record.Draft // of envelopes, in the order that they are put
	removed []string        // envelopes of another record, or of another verdict
	keys    *policy.Keys    // that note what is signed; nil: none do
	own     bool            // this user's own key has signed the row
	said    string          // what is to be told once these are removed
}

// sign drafts an envelope, which then takes the place of an older one.
func (b *beside) sign(name string, text []byte) error {
	draft, err := b.row.Prepare(name, text)
	if err != nil {
		return err
	}
	b.signed = append(b.signed, draft)
	b.removed = slices.DeleteFunc(b.removed, func(old string) bool { return old == name })
	return nil
}

// commit puts all of it into the row, whose record is there. What fails is no
// reason to lose the verdict.
func (b *beside) commit(warn func(string)) {
	if b.cell != nil {
		if err := b.cell.Put(); err != nil {
			warn(cellFileUnwritten(err))
		}
	}
	if err := b.changes.publish(); err != nil {
		warn(fmt.Sprintf("%s could not be written: %s", record.GradeChanges, whyUnwritten(err)))
	}
	b.note(warn)
	for i, draft := range b.signed {
		put := draft.Put
		if i < len(b.signed)-1 { // the next one names it
			put = draft.Commit
		}
		if err := put(); err != nil {
			warn(verdictUnsigned + err.Error())
			drop(b.signed[i+1:])
			b.removed = append(b.removed, record.GradeEnvelope)
			break
		}
	}
	if err := b.row.Sync(); err != nil {
		warn("what lies beside the record is not known to be on the disk: " + whyUnwritten(err))
	}
	for _, name := range b.removed {
		if err := b.row.Remove(name); err != nil {
			warn(fmt.Sprintf("%s, which is of something else than the row holds now, stays: %v", name, err))
		}
	}
	if b.said != "" {
		warn(b.said)
	}
}

// note notes whether the verdict is signed from now on, and the row, which an older
// podgrade may have signed, or in another place.
func (b *beside) note(warn func(string)) {
	if b.keys == nil {
		return
	}
	note(b.keys, b.row, policy.VerdictHalf, !slices.Contains(b.removed, record.GradeEnvelope), warn)
	if b.own {
		note(b.keys, b.row, policy.RowHalf, true, warn)
	}
}

// drop leaves the row as it is.
func (b *beside) drop() {
	if b.cell != nil {
		b.cell.Drop()
	}
	b.changes.drop()
	drop(b.signed)
}

func drop(drafts []*record.Draft) {
	for _, draft := range drafts {
		draft.Drop()
	}
}

func cellFileUnwritten(err error) string {
	return fmt.Sprintf("%s could not be written: %s", record.GradeCellFile, whyUnwritten(err))
}
