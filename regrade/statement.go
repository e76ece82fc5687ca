package regrade

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"podgrade/tasks/record"
)

// The types of an in-toto statement, version 1, and of what ours say.
const (
	inToto      = "https://in-toto.io/Statement/v1"
	saysExecute = "urn:podgrade:execute:v2"
	saysGrade   = "urn:podgrade:grade:v2"

	// saysTimeless is the execute of a podgrade that left the times of files out. It
	// is believed in all else that it says.
	saysTimeless = "urn:podgrade:execute:v1"
)

// statement is an in-toto statement about a row (docs/signatures.md).
type statement[P any] struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     P         `json:"predicate"`
}

// subject is what a statement speaks of.
type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// rowName is a row and the run that it lies in.
type rowName struct {
	Run       string `json:"run"`
	Variant   string `json:"variant"`
	Task      string `json:"task"`
	Replicate int    `json:"replicate"`
}

// executedRow is what an execute vouches for. Of the parts of the record, which
// are all that a grade reads, the digests count; the other fields say to a
// reader what these were made of.
type executedRow struct {
	Version   string                 `json:"version"` // of podgrade
	Row       rowName                `json:"row"`
	Status    record.Status          `json:"status"`
	RunDigest string                 `json:"runDigest"`
	Task      string                 `json:"taskDigest"`
	Image     imageName              `json:"image"`
	Workspace string                 `json:"workspace"` // digest, made inside the user namespace
	Times     string                 `json:"workspaceTimes,omitempty"`
	State     string                 `json:"state"`
	StateDiff string                 `json:"stateDiffID,omitempty"`
	Parts     map[record.Part]string `json:"parts"`
}

type imageName struct {
	Reference string `json:"reference"`
	ID        string `json:"id"`
	Digest    string `json:"digest,omitempty"`
	Platform  string `json:"platform"`
}

// gradedRow is what a grade vouches for.
type gradedRow struct {
	Version   string                 `json:"version"` // of podgrade
	Row       rowName                `json:"row"`
	Task      string                 `json:"taskDigest"` // that the row was graded by
	Status    record.Status          `json:"status"`
	Score     *float64               `json:"score"`
	Criteria  []gradedCriterion      `json:"criteria"`
	Stamps    map[string]any         `json:"stamps"`
	Workspace string                 `json:"workspace"` // digest of the evidence
	Times     string                 `json:"workspaceTimes,omitempty"`
	Parts     map[record.Part]string `json:"parts"` // of the verdict
}

type gradedCriterion struct {
	Type   string  `json:"type"`
	Score  float64 `json:"score"`
	Passed bool    `json:"passed"`
}

// nameOfRow is the name of a row as it lies on the disk.
func nameOfRow(row *record.Row, id record.Identity) rowName {
	return rowName{Run: row.Run(id), Variant: id.VariantID, Task: id.TaskID, Replicate: id.Replicate}
}

// identity is the row without its run.
func (n rowName) identity() record.Identity {
	return record.Identity{VariantID: n.Variant, TaskID: n.Task, Replicate: n.Replicate}
}

// noWorkspaceDigest: any tree could be put where the workspace was.
const noWorkspaceDigest = "the row's record has no digest of its workspace"

// executedStatement is the statement about a row that was executed.
func executedStatement(name rowName, rec *record.Record, version string) ([]byte, error) {
	info, parts := rec.Environment, rec.Parts()
	if info.Text(record.WorkspaceDigest) == "" {
		return nil, errors.New(noWorkspaceDigest)
	}
	status := rec.Status
	if !status.ExecutionFact() {
		status = record.NotGraded
	}
	pin := record.Pin(info)
	says := saysExecute
	if info.Text(record.WorkspaceTimes) == "" { // an older podgrade executed it
		says = saysTimeless
	}
	return encodeStatement(statement[executedRow]{
		Type: inToto, PredicateType: says,
		Subject: []subject{{record.TaskFile, sha256Of(digestOfParts(parts))}},
		Predicate: executedRow{
			Version: version, Row: name, Status: status,
			RunDigest: info.Text(record.RunDigest), Task: info.Text(record.TaskDigest),
			Image:     imageName{pin.Reference, pin.ID, pin.Digest, pin.Platform},
			Workspace: info.Text(record.WorkspaceDigest), Times: info.Text(record.WorkspaceTimes),
			State: info.Text(record.State), StateDiff: info.Text(record.StateDiffID),
			Parts: parts,
		},
	})
}

// gradedStatement is the statement about a verdict. executed is the digest of
// the statement that vouches for the row; "": nobody does.
func gradedStatement(name rowName, rec *record.Record, executed, version string) ([]byte, error) {
	verdict := gradedRow{
		Version: version, Row: name, Task: rec.Environment.Text(record.TaskDigest), Status: rec.Status, Score: rec.Score,
		Criteria: []gradedCriterion{}, Stamps: map[string]any{},
		Workspace: rec.Environment.Text(record.GradedWorkspace), Times: rec.Environment.Text(record.GradedTimes), Parts: rec.VerdictParts(),
	}
	for _, result := range rec.CriterionResults() {
		verdict.Criteria = append(verdict.Criteria, gradedCriterion{result.Type, result.Score, result.Passed})
	}
	for _, stamp := range record.Stamps(rec.Environment) {
		var value any
		if err := stamp.Value.Decode(&value); err != nil {
			return nil, fmt.Errorf("the stamp %s: %w", stamp.Name, err)
		}
		verdict.Stamps[stamp.Name] = value
	}
	subjects := []subject{{record.TaskFile, sha256Of(digestOfParts(gradedParts(rec)))}}
	if executed != "" {
		subjects = append(subjects, subject{record.ExecuteEnvelope, sha256Of(executed)})
	}
	return encodeStatement(statement[gradedRow]{Type: inToto, PredicateType: saysGrade, Subject: subjects, Predicate: verdict})
}

// gradedParts are what a verdict is of. Where the workspace was is not among
// them: it may be discarded then.
func gradedParts(rec *record.Record) map[record.Part]string {
	parts := rec.Parts()
	delete(parts, record.PartPlace)
	return parts
}

func encodeStatement(s any) ([]byte, error) { return json.Marshal(s) }

// readStatement reads a statement that somebody has signed, of one of the types.
func readStatement[P any](text []byte, says ...string) (statement[P], error) {
	var s statement[P]
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("what was signed is no statement: %w", err)
	}
	if s.Type != inToto || !slices.Contains(says, s.PredicateType) {
		return s, errors.New("what was signed is a statement of another type: " + s.Type + ", " + s.PredicateType)
	}
	return s, nil
}

// subject is the digest of what the statement speaks of under a name.
func (s statement[P]) subject(name string) string {
	for _, each := range s.Subject {
		if each.Name == name {
			return each.Digest[sha256Name]
		}
	}
	return ""
}

const sha256Name = "sha256"

func sha256Of(digest string) map[string]string { return map[string]string{sha256Name: digest} }

// digestOfParts is one digest of all parts.
func digestOfParts(parts map[record.Part]string) string {
	text, _ := json.Marshal(parts) // with its keys sorted
	return digestOf(text)
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
