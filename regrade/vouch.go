package regrade

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks/record"
)

// vouched is a row whose signature is of a known key, and of what the row holds.
type vouched struct {
	by        policy.Signer
	name      string // of who signed, for a person
	row       rowName
	statement string                 // digest of what was signed
	workspace string                 // digest of the tree that the agent left
	times     string                 // digest of when its files were changed last; "": that was not signed
	timeless  bool                   // an older podgrade signed it, which left out the times
	parts     map[record.Part]string // that were signed
}

// vouch looks for who vouches for the row, and refuses one that is not what
// somebody known has signed. A row that nobody known has signed is a row like
// any other: what it may do is asked.
func (g *grading) vouch() error {
	if g.options.Keys == nil {
		return nil
	}
	text, err := g.row.Envelope(record.ExecuteEnvelope)
	if err != nil {
		g.warn(countsAsNone + err.Error())
		return nil
	}
	if text == nil {
		if g.options.Given == nil && g.options.Keys.Noted(g.row.Dir, policy.RowHalf) {
			g.warn("the row " + lost + ", which has signed what lay here: it is asked about like any other")
		}
		return nil
	}
	found, err := checkExecuted(g.options.signers(), g.row, g.record, text)
	if err != nil {
		g.warn(countsAsNone + err.Error())
		return nil
	}
	if found.none != "" {
		g.warn(countsAsNone + found.none)
		return nil
	}
	differ := found.differ
	if g.options.Given != nil { // which is graded by instead
		differ = slices.DeleteFunc(differ, func(p record.Part) bool { return p == record.PartTask || p == record.PartTaskFile })
	}
	if len(differ) > 0 {
		return mismatch(g.row.Dir, found.name, differ)
	}
	g.vouched = &found.vouched
	if found.timeless {
		g.warn(found.name + " has signed the row without the times of the workspace's files, as podgrade did then: a criterion that compares times goes by what is there now")
	}
	return nil
}

const countsAsNone = "the row's signature counts as none: "

// Signers are those whose signatures count.
type Signers struct {
	Keys    *policy.Keys        // this user's own
	Trusted []policy.TrustedKey // of the policy
}

func (s Signers) open(envelope []byte) (policy.Signed, error) {
	return s.Keys.Open(envelope, s.Trusted)
}

func (o Options) signers() Signers { return Signers{o.Keys, o.Answer.Policy.TrustedKeys()} }

// checkedRow is what a signature of a row came to.
type checkedRow struct {
	vouched
	none   string        // why it counts as none all the same; "": it counts
	moved  bool          // it counts as none since the row lies in another run
	differ []record.Part // which are another one than was signed
}

// partIdentity is the name of the row, which is no part of its record alone.
const partIdentity record.Part = "identity"

// checkExecuted compares a row with what was signed when it was executed. The
// error says why there is no signature that counts.
func checkExecuted(known Signers, row *record.Row, rec *record.Record, text []byte) (*checkedRow, error) {
	signed, err := known.open(text)
	if err != nil {
		return nil, err
	}
	if signed.By == policy.Unsigned {
		return nil, unknownKey(signed)
	}
	s, err := readStatement[executedRow](signed.Statement, saysExecute, saysTimeless)
	if err != nil {
		return nil, err
	}
	said := s.Predicate
	now := rec.Parts()
	if _, ok := now[record.PartPlace]; !ok { // the workspace was discarded
		delete(said.Parts, record.PartPlace)
	}
	none, moved := noneOf(row, rec, said)
	found := &checkedRow{none: none, moved: moved, vouched: vouched{
		by: signed.By, name: nameOfSigner(signed), row: said.Row, statement: digestOf(signed.Statement), workspace: said.Workspace, parts: said.Parts,
		times: signedTimes(said.Times), timeless: s.PredicateType == saysTimeless,
	}}
	if identityOf(row, rec) != said.Row.identity() {
		found.differ = append(found.differ, partIdentity)
	}
	found.differ = append(found.differ, record.Differences(said.Parts, now)...)
	return found, nil
}

// signedTimes are the times that a signature is of; "": of none.
func signedTimes(said string) string {
	if said == record.TimesNotKept {
		return ""
	}
	return said
}

// noneOf is why what a known key has signed says nothing of this row, and whether
// that is the run that the row lies in.
func noneOf(row *record.Row, rec *record.Record, said executedRow) (why string, moved bool) {
	switch {
	case said.Workspace == "":
		return noWorkspaceDigest, false
	case identityOf(row, rec) != said.Row.identity():
		return "", false // it is compared, and refused
	case rec.Imported():
		return "the row was imported with files that it does not cover", false
	}
	why = inAnotherRun(row, rec, said.Row)
	return why, why != ""
}

// inAnotherRun tells of a row that lies in another run than the signed one: it is
// none that was signed.
func inAnotherRun(row *record.Row, rec *record.Record, signed rowName) string {
	if row.Run(identityOf(row, rec)) == signed.Run {
		return ""
	}
	return fmt.Sprintf("the row was signed as one of the run %q, and does not lie in it", signed.Run)
}

// mismatch refuses a row, naming the parts that are not what was signed.
func mismatch(dir, signer string, differ []record.Part) error {
	return &Error{Kind: Refused, Tried: "trust the signature of", On: dir,
		Why: fmt.Errorf("%s has signed another %s than the row holds now", signer, namesOfParts(differ)),
		Do:  "restore the row; or, where you know who changed it, remove " + record.ExecuteEnvelope + ": then you are asked what the row may do"}
}

func namesOfParts(parts []record.Part) string {
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = string(part)
	}
	return strings.Join(names, ", ")
}

// checkWorkspace refuses a workspace that is not the signed one, before anything
// looks at it. seen is of the evidence that the place was made with.
func (g *grading) checkWorkspace(seen isolation.View) error {
	if g.otherWorkspace() != "" {
		g.signatureHolds()
		return nil
	}
	if g.vouched == nil {
		g.compareTimes(seen)
		return nil
	}
	if seen.Digest != g.vouched.workspace {
		return mismatch(g.row.Dir, g.vouched.name, []record.Part{record.PartWorkspace})
	}
	if g.vouched.times == "" || seen.Times == g.vouched.times {
		g.signatureHolds()
		return nil
	}
	if !g.options.Answer.Explicit() {
		return otherTimes(g.row.Dir, g.vouched.name)
	}
	g.warn("the row's signature counts as none: " + onlyTimes + " than " + g.vouched.name + " has signed, and the row was accepted all the same")
	g.vouched = nil
	return nil
}

// onlyTimes is what a copy of a workspace loses on the honest way.
const onlyTimes = "only times differ: the workspace has the signed names, modes, owners and content, and files, directories or links in it were changed at other times"

// otherTimes refuses a workspace that was touched, or copied without its times.
// Whoever says that the row may be graded all the same says it for one that nobody
// has signed.
func otherTimes(dir, signer string) error {
	return &Error{Kind: Refused, Tried: "trust the signature of", On: dir,
		Why: errors.New(onlyTimes + " than " + signer + " has signed; git clone, cp without -a and rsync without -t make such copies, and so does touch"),
		Do:  "copy the row again with its times (cp -a, rsync -a, podgrade export); or, where its criteria do not go by times, grade it with --allow-recorded-commands, or --accept-plan, as a row that nobody has signed"}
}

// compareTimes warns where a row that nobody vouches for has the workspace that its
// record speaks of, but for the times.
func (g *grading) compareTimes(seen isolation.View) {
	info := g.record.Environment
	times := signedTimes(info.Text(record.WorkspaceTimes))
	if g.saidTimes || times == "" || seen.Times == "" || times == seen.Times || info.Text(record.WorkspaceDigest) != seen.Digest {
		return
	}
	g.saidTimes = true // of each cell that a grade opens
	g.warn("the workspace is the one of the record, but for when its files were changed last: a criterion that compares times may find other ones than the agent left")
}

// signedBy is whose signature consent may rely on. It is of no use on the host:
// what an image has put into the record, as PATH, would reach it unasked.
func (g *grading) signedBy(place policy.Place) policy.Signer {
	if g.vouched == nil || place != policy.InCell {
		return policy.Unsigned
	}
	return g.vouched.by
}

// nameOfSigner says to a person who has signed.
func nameOfSigner(signed policy.Signed) string {
	if signed.By == policy.Own {
		return "this user's own key"
	}
	return "the trusted key " + policy.Clip(signed.Name, 100)
}

func unknownKey(signed policy.Signed) error {
	return errors.New("it is by a key that is neither yours nor trusted: " + signed.Key)
}
