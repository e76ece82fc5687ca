package regrade

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/regrade/report"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// verdict folds the results by the row's gate.
func (g *grading) verdict(results []criteria.Result) (*Verdict, error) {
	gate, err := criteria.Gate(g.accepted.Criteria(), results)
	if err != nil {
		return nil, &Error{Kind: Infrastructure, Tried: "fold the results of", On: g.row.Dir, Why: err, Do: "report this as a defect of podgrade"}
	}
	passed := gate.Passed
	if !g.record.EarlyStop.IsNull() {
		// The run was stopped over a truncated trajectory, so the strict gate
		// would flip its verdict (spec/regrade.md 0.3).
		var threshold float64
		if threshold, err = g.gateThreshold(); err == nil {
			passed, err = criteria.EarlyGate(g.accepted.Criteria(), results, threshold)
		}
		if err != nil {
			return nil, &Error{Kind: TaskFault, Tried: "apply the early stop gate of", On: g.row.Dir, Why: err, Do: "execute the row again"}
		}
	}
	return &Verdict{
		Row:       g.rowIdentity(),
		Before:    g.record.Status,
		Status:    terminalStatus(g.record.Status, passed, g.record.MaxTurns),
		Score:     gate.WeightedScore,
		Results:   results,
		Place:     g.accepted.Place(),
		Inherited: g.record.Status.ExecutionFact(),
	}, nil
}

// terminalStatus is the status of a graded row; the order of the questions is
// what makes execute and evaluate together equal to run (spec/regrade.md 0.2).
func terminalStatus(before record.Status, passed, maxTurns bool) record.Status {
	switch {
	case before.ExecutionFact():
		return before
	case passed:
		return record.Success
	case maxTurns:
		return record.MaxTurnsExhausted
	}
	return record.Failure
}

// gateThreshold is the early stop's own, 1.0 when it names none, and that of the
// operator's own file where the row is graded by one. One that no task may have
// is refused: at 0 every row would pass.
func (g *grading) gateThreshold() (float64, error) {
	threshold, ok := g.task.RunLimits.StopEarlyGateThreshold, true
	if g.options.Given == nil {
		stop, err := g.record.EarlyStop.Object()
		if err != nil {
			return 0, err
		}
		value := stop.Value("gate_threshold")
		if value.IsNull() {
			return 1, nil
		}
		threshold, ok = value.Number()
	}
	if !ok || !(threshold > 0 && threshold <= 1) {
		return 0, errors.New("its gate_threshold should be a number above 0 and at most 1")
	}
	return threshold, nil
}

// outcome is what a grade leaves beside its results.
type outcome struct {
	spot     *place
	unpinned string // the reference that was looked up, when nothing is pinned
	hooks    []record.HookResult
	grading  time.Duration // of the criteria
	whole    time.Duration
	clean    *cleanRoom // nil: it was not asked for
}

// fold puts the verdict into the record: what fates calls recomputed, merged
// and extended. Everything else keeps its bytes.
func (g *grading) fold(v *Verdict, o outcome) {
	r := g.record
	g.explainBrought(v, o.spot.made)
	r.Status, r.Score = v.Status, &v.Score
	r.Set(record.FieldFinalStatus, string(v.Status))
	r.Set(record.FieldWeightedScore, v.Score)
	r.Set(record.FieldCriteriaResults, v.Results)
	r.Set(record.FieldPostFailure, []criteria.Result{})
	r.Set(record.FieldGradingMS, rounded(float64(o.grading)/float64(time.Millisecond)))
	if len(o.hooks) > 0 {
		r.Set(record.FieldPostRunResults, o.hooks)
	}
	if g.options.Given != nil {
		g.options.Given.put(r)
	}
	g.environment(o)
	g.stamp(o)
	o.clean.fold(v, g.record.Environment)
	v.Stamps = record.Stamps(r.Environment)
}

// environment adds the facts of this grade to environment_info; what the run
// recorded wins (spec/regrade.md 1.7).
func (g *grading) environment(o outcome) {
	info, made := g.record.Environment, o.spot.made
	for _, key := range record.GradeFacts() {
		info.Delete(key)
	}
	info.Set(record.GradingDuration, rounded(o.whole.Seconds()))
	if info.Text(record.Version) != g.options.Version {
		info.Set(record.GradedByVersion, g.options.Version)
	}
	setText(info, record.GradedByEngine, made.Engine)
	setText(info, record.GradedByRuntime, made.Runtime)
	setText(info, record.WorkspaceView, made.View.Kind)
	setText(info, record.ViewReason, made.View.Reason)
	setText(info, record.ViewHazards, policy.Names(made.View.Hazards))
	setText(info, record.GradedWorkspace, made.View.Digest)
	setText(info, record.GradedTimes, made.View.Times)
	setText(info, record.GradedTaskDir, made.TaskDirDigest)
	setText(info, record.GradedReference, made.ReferenceDigest)
	setText(info, record.GradedLimits, policy.Names(made.LimitsKept))
	if g.accepted.Place() == policy.OnHost {
		// A contract of an earlier container says nothing about this grade.
		info.Delete(record.ContainerContract)
		return
	}
	setText(info, record.GradedImage, made.Pin.Reference)
	setText(info, record.GradedImageID, made.Pin.ID)
	setText(info, record.GradedDigest, made.Pin.Digest)
	setText(info, record.GradedPlatform, made.Pin.Platform)
	setText(info, record.GradedSpecSHA256, made.SpecSHA256)
}

// stamp removes the stamps of earlier grades and sets those whose gap applies
// to this one (design: Identity).
func (g *grading) stamp(o outcome) {
	info, made := g.record.Environment, o.spot.made
	record.ClearGradeStamps(info)
	container := g.task.Sandbox.Driver != tasks.DriverTempdir || g.executedInCell()
	if container && g.accepted.Place() == policy.OnHost {
		info.Set(record.GradedOnHost, true)
	}
	drifted := o.unpinned == record.Drift
	if n := len(g.task.PreRun); n > 0 && container && !g.sawPreRun(drifted) {
		info.Set(record.GradedWithoutPreRun, n)
	}
	if lost := g.lostState(drifted, made.View.Kind); lost != nil {
		info.Set(record.GradedWithoutState, lost)
	}
	if made.View.Kind == isolation.ViewCapture {
		info.Set(record.GradedFromCapture, true)
	}
	if g.options.Live != nil {
		info.Set(record.GradedLive, true)
	} else {
		setText(info, record.GradedWithoutProcesses, info.Text(record.Processes))
	}
	setText(info, record.GradedWithUnpinnedImage, o.unpinned)
	setText(info, record.GradedWithoutTaskDir, g.lostTaskFile())
	if drifted {
		setText(info, record.GradedWithRebuiltImage, g.accepted.BuiltFrom())
	}
	if n := o.spot.attempts.Load(); n > 0 && g.networkWithheld() {
		info.Set(record.GradedWithoutNetwork, n)
	}
	setText(info, record.GradedFewerCapabilities, policy.Names(fewer(g.accepted.Capabilities(), made)))
	setText(info, record.GradedWithoutVariables, policy.Names(g.accepted.Withheld()))
	setText(info, record.GradedWithReplacedTools, policy.Names(o.spot.replaced()))
	if dir := g.otherWorkspace(); dir != "" {
		info.Set(record.GradedOtherWorkspace, dir)
	}
	setText(info, record.LimitsNotEnforced, policy.Names(made.LimitsNotKept))
}

// otherWorkspace is the tree that the operator named, where that is not the one
// that the record leads to.
func (g *grading) otherWorkspace() string {
	if g.options.Workspace == "" || g.options.Run != "" { // a tree that no run left has no other
		return ""
	}
	if recorded, err := findWorkspace(g.row, g.record, ""); err == nil && recorded == g.workspace {
		return ""
	}
	return g.workspace
}

// fewer names the capabilities that were asked for and that the cell that was
// made does not have.
func fewer(asked []string, made isolation.Made) []string {
	spec := made.Spec
	if spec == nil || spec.Process == nil {
		return nil // on the host
	}
	var has []string
	if spec.Process.Capabilities != nil {
		has = spec.Process.Capabilities.Bounding
	}
	var missing []string
	for _, name := range asked {
		if !contains(has, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

func contains(list []string, name string) bool {
	for _, each := range list {
		if strings.EqualFold(each, name) {
			return true
		}
	}
	return false
}

// setText sets a fact that is not empty.
func setText(info *record.Object, key, value string) {
	if value != "" {
		info.Set(key, value)
	}
}

// rounded keeps three decimals, as upstream's durations have.
func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }

// cellFile is cell.grade.json.
type cellFile struct {
	Version string         `json:"podgrade_version"`
	Cells   int64          `json:"cells"` // one, and one more for each that a command ended
	Made    isolation.Made `json:"made"`
	Grants  []string       `json:"grants"` // that were accepted
	Changes changesFound   `json:"workspace_changes"`
}

// write puts the verdict on the disk. The record is the one step that makes it
// true: all else is written before, and takes its place only then.
func (g *grading) write(v *Verdict, spot *place, changes changesFound) error {
	unlock, err := g.row.Lock()
	if err != nil {
		return g.writeError(err, "grade it again")
	}
	defer unlock()
	if !g.row.Unchanged(g.before) {
		return g.writeError(errors.New("the record was changed while the row was graded"), "grade it again")
	}
	files, err := g.beside(spot, changes)
	if err != nil {
		return g.writeError(err, "report this as a defect of podgrade")
	}
	if err := g.row.KeepExecuted(g.before); err != nil {
		g.warn("the record from before the grade could not be kept: " + whyUnwritten(err))
	}
	if err := g.row.Write(record.TaskFile, g.record.Bytes()); err != nil {
		files.drop()
		return g.writeError(err, writeRemedy(err, "grade it again"))
	}
	files.commit(g.warn)
	g.logs.Note("podgrade", fmt.Sprintf("%s: %s, score %.3f", v.Row, v.Status, v.Score))
	if err := report.RefreshRow(g.row, g.record, v.Row); err != nil {
		g.warn(fmt.Sprintf("%s was not brought up to date: %s", record.RowPage, whyUnwritten(err)))
	}
	if g.options.Run == "" {
		g.refreshRun(v)
	}
	observe(g.options.Observe, Event{
		Kind: RowGraded, Row: v.Row, Dir: g.row.Dir, Last: true, Took: time.Since(g.began), Status: v.Status, Score: &v.Score, Verdict: v,
	})
	return nil
}

// beside drafts the files beside the record.
func (g *grading) beside(spot *place, changes changesFound) (*beside, error) {
	file := cellFile{Version: g.options.Version, Cells: 1 + spot.remade.Load(), Made: spot.made, Changes: changes}
	for _, grant := range g.accepted.Grants() {
		file.Grants = append(file.Grants, grant.String())
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, err
	}
	files := &beside{row: g.row, changes: g.changes}
	if files.cell, err = g.row.Prepare(record.GradeCellFile, append(text, '\n')); err != nil {
		g.warn(cellFileUnwritten(err))
	}
	g.sign(files)
	return files, nil
}

func (g *grading) writeError(why error, do string) error {
	return &Error{Kind: Infrastructure, Tried: "write the verdict (the grade itself succeeded) of", On: g.row.Dir, Why: why, Do: do}
}

// refreshRun brings the owning run's summary up to date. It is best effort,
// and never changes the outcome.
func (g *grading) refreshRun(v *Verdict) {
	if many := g.options.summaries; many != nil {
		many.graded(g.row.Dir, v.Row)
		return
	}
	run, err := record.OwningRun(g.row.Dir)
	if err == nil {
		err = record.RefreshRun(run, record.UpdateOf(v.Row, g.record))
	}
	if err == nil {
		err = report.Refresh(run)
	}
	if err != nil {
		g.warn(fmt.Sprintf("no %s was brought up to date: %s", record.RunFile, whyUnwritten(err)))
		return
	}
	refreshAggregates(run, []record.Identity{v.Row}, g.options.Missed, g.warn)
}
