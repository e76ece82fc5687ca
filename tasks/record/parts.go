package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Part is a part of a record that a signature speaks of, by the name that an
// operator is told when it is another one now.
type Part string

// The parts that execute writes and no grade does. Together they are all of the
// record but what a grade writes: what nobody has classified is in PartRest.
const (
	PartTask        Part = "resolved task"
	PartTaskFile    Part = "task file"
	PartPin         Part = "pin"
	PartWorkspace   Part = "workspace"
	PartTimes       Part = "times of the workspace's files"
	PartPlace       Part = "workspace path"
	PartState       Part = "state layer"
	PartEnvironment Part = "environment"
	PartStatus      Part = "status"
	PartTrajectory  Part = "trajectory"
	PartRest        Part = "rest of the record"
)

// The parts of a verdict, which a grade writes.
const (
	PartVerdictStatus Part = "verdict"
	PartScore         Part = "score"
	PartResults       Part = "criterion results"
	PartPostRun       Part = "post_run results"
	PartStamps        Part = "stamps"
	PartFacts         Part = "facts of the grade"
)

// gradeFields are the fields that a grade writes: no signature of an execute
// covers them, and no grade reads them for its verdict.
var gradeFields = map[string]Part{
	FieldWeightedScore:   PartScore,
	FieldCriteriaResults: PartResults,
	FieldPostFailure:     PartResults,
	FieldGradingMS:       "", // a measurement
	FieldPostRunResults:  PartPostRun,
}

// environmentParts are keys of environment_info that have a part of their own.
var environmentParts = map[string]Part{
	TaskDigest: PartTask,
	Image:      PartPin, ImageID: PartPin, ImageDigest: PartPin, Platform: PartPin, ImageCreated: PartPin, ImageOrigin: PartPin,
	WorkspaceDigest: PartWorkspace, WorkspaceTimes: PartTimes,
	State: PartState, StateDiffID: PartState, PreRunState: PartState, PreRunDiffID: PartState,
	StateChanged: PartState, StateChanges: PartState, StateNotCarried: PartState,
}

// Parts returns a digest of each part of the record that execute wrote. It does
// not change when the row is graded, and depends on no layout of the text.
func (r *Record) Parts() map[Part]string {
	p := parts{}
	for field, value := range r.doc.all() {
		switch _, graded := gradeFields[field]; {
		case graded:
		case field == FieldEnvironment:
		case field == FieldFinalStatus:
			p.add(PartStatus, field, Encode(string(r.executedStatus())))
		case field == FieldTaskConfig:
			p.addTask(value)
		case field == FieldIterations || field == fieldTurns:
			p.add(PartTrajectory, field, value)
		case field == FieldSandboxPath:
			// Without one the workspace is looked for in the row: a row whose
			// workspace was discarded has none.
			if !value.IsNull() {
				p.add(PartPlace, field, value)
			}
		default:
			p.add(PartRest, field, value)
		}
	}
	for key, value := range r.Environment.all() {
		part, own := environmentParts[key]
		switch {
		case slices.Contains(gradeFacts, key), slices.Contains(gradeStamps, key), slices.Contains(importFacts, key):
			continue
		case !own:
			part = PartEnvironment
		}
		p.add(part, key, value)
	}
	return p.digests()
}

// VerdictParts returns a digest of each part of the record's verdict.
func (r *Record) VerdictParts() map[Part]string {
	p := parts{}
	p.add(PartVerdictStatus, FieldFinalStatus, r.doc.Value(FieldFinalStatus))
	for field, part := range gradeFields {
		if part != "" {
			p.add(part, field, r.doc.Value(field))
		}
	}
	for _, name := range gradeStamps {
		if value, ok := r.Environment.Get(name); ok {
			p.add(PartStamps, name, value)
		}
	}
	for _, name := range gradeFacts {
		if value, ok := r.Environment.Get(name); ok && name != GradingDuration { // a measurement
			p.add(PartFacts, name, value)
		}
	}
	return p.digests()
}

// Imported tells whether the record holds something that an import added.
func (r *Record) Imported() bool {
	return slices.ContainsFunc(importFacts, func(key string) bool {
		_, ok := r.Environment.Get(key)
		return ok
	})
}

// executedStatus is the status that the row had when it was executed: a grade
// keeps an execution fact, and replaces NOT_GRADED.
func (r *Record) executedStatus() Status {
	if r.Status.ExecutionFact() {
		return r.Status
	}
	return NotGraded
}

// parts collects the members of parts: name and value by part.
type parts map[Part]map[string]Raw

func (p parts) add(part Part, name string, value Raw) {
	if p[part] == nil {
		p[part] = map[string]Raw{}
	}
	p[part][name] = value
}

// addTask adds the recorded task: what a grade is made of apart from where it
// came from.
func (p parts) addTask(config Raw) {
	o, err := config.Object()
	if err != nil {
		p.add(PartTask, FieldTaskConfig, config)
		return
	}
	for name, value := range o.all() {
		part := PartTaskFile
		if name == "resolved" {
			part = PartTask
		}
		p.add(part, name, value)
	}
}

// digests are of name and value of each member, in the order of their names.
func (p parts) digests() map[Part]string {
	digests := map[Part]string{}
	for part, members := range p {
		sum := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(members)) {
			value := members[name].compact()
			fmt.Fprintf(sum, "%d %s %d ", len(name), name, len(value))
			sum.Write(value)
		}
		digests[part] = hex.EncodeToString(sum.Sum(nil))
	}
	return digests
}

// compact is a checked value without the space between its tokens.
func (r Raw) compact() []byte {
	if r == nil {
		return null
	}
	out := make([]byte, 0, len(r))
	s := scanner{data: r}
	for s.pos < len(r) {
		start := s.pos
		switch {
		case r[start] == '"':
			if _, err := s.text(); err != nil {
				return r // it was not checked, and stands for itself
			}
			out = append(out, r[start:s.pos]...)
		case bytes.IndexByte([]byte(" \t\r\n"), r[start]) >= 0:
			s.pos++
		default:
			out = append(out, r[start])
			s.pos++
		}
	}
	return out
}

// Differences names the parts of which two records have different digests, in a
// fixed order.
func Differences(signed, now map[Part]string) []Part {
	var differ []Part
	for _, part := range partOrder {
		if signed[part] != now[part] {
			differ = append(differ, part)
		}
	}
	for _, other := range []map[Part]string{signed, now} {
		for part := range other {
			if !slices.Contains(partOrder, part) && !slices.Contains(differ, part) {
				differ = append(differ, part)
			}
		}
	}
	return differ
}

var partOrder = []Part{
	PartTask, PartTaskFile, PartPin, PartWorkspace, PartTimes, PartPlace, PartState, PartEnvironment, PartStatus, PartTrajectory, PartRest,
	PartVerdictStatus, PartScore, PartResults, PartPostRun, PartStamps, PartFacts,
}
