package criteria

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"podgrade/tasks"
)

// Check checks the criteria of one row: first all but the judges, one after
// another in the order of the list, since one may change what the next one
// sees; then the judges, at the same time. Results are in the order of list.
// The error is an *AuthorError or an *InfrastructureError; there are no results
// then.
func Check(ctx context.Context, list []tasks.Criterion, where Surroundings) ([]Result, error) {
	if where.Calls == nil {
		where.Calls = ReadCalls(ctx, list, where, where.Cell, nil)
	}
	results := make([]Result, len(list))
	for i, criterion := range list {
		if isJudge(criterion) {
			continue
		}
		result, err := checkOne(ctx, i, criterion, where)
		if err != nil {
			return nil, err
		}
		results[i] = result
	}
	if err := checkJudges(ctx, list, where, results); err != nil {
		return nil, err
	}
	return results, nil
}

func isJudge(criterion tasks.Criterion) bool {
	switch criterion.(type) {
	case *tasks.LLMJudge, *tasks.AgentJudge, *tasks.SystemOneJudge:
		return true
	}
	return false
}

// checkJudges checks all judges at the same time and reports the first error
// in the order of the list.
func checkJudges(ctx context.Context, list []tasks.Criterion, where Surroundings, results []Result) error {
	errs := make([]error, len(list))
	var group sync.WaitGroup
	for i, criterion := range list {
		if !isJudge(criterion) {
			continue
		}
		group.Add(1)
		go func() {
			defer group.Done()
			results[i], errs[i] = checkOne(ctx, i, criterion, where)
		}()
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// judging is the check of one criterion.
type judging struct {
	where Surroundings
	index int
	tasks.Common
}

// outcome is what a checker found; finish makes a Result of it.
type outcome struct {
	score   float64
	details string // empty: none
	err     string // empty: none
	labels  *Classification
	judged  *Judgement
	output  *CommandOutput
}

// checkOne checks one criterion and notes the result.
func checkOne(ctx context.Context, index int, criterion tasks.Criterion, where Surroundings) (Result, error) {
	j := &judging{where: where, index: index, Common: *criterion.Common()}
	found, err := j.dispatch(ctx, criterion)
	if err != nil && ctx.Err() != nil {
		return Result{}, classify(ctx.Err(), index, criterion.Common())
	}
	var raised *trouble
	var none *missing
	var several *ambiguous
	var leading *outside
	switch {
	case errors.As(err, &raised):
		found = outcome{details: "Error during check: " + raised.message, err: raised.Error()}
	case errors.As(err, &none):
		found = outcome{details: none.Error(), err: none.Error()}
	case errors.As(err, &several):
		found = outcome{details: several.Error(), err: several.Error()}
	case errors.As(err, &leading):
		found = outcome{details: leading.Error(), err: leading.Error()}
	case err != nil:
		return Result{}, classify(err, index, criterion.Common())
	}
	result := finish(criterion, found)
	word := "failed"
	if result.Passed() {
		word = "passed"
	}
	j.note(fmt.Sprintf("%s (%s) %s with score %.3f: %s", result.CriterionType, result.Description, word, result.Score, result.Reason()))
	return result, nil
}

// dispatch calls the checker of the criterion's type.
func (j *judging) dispatch(ctx context.Context, criterion tasks.Criterion) (outcome, error) {
	switch c := criterion.(type) {
	case *tasks.FileExists:
		return j.fileExists(ctx, c)
	case *tasks.FileContains:
		return j.fileContains(ctx, c)
	case *tasks.FileMatchesRegex:
		return j.fileMatchesRegex(ctx, c)
	case *tasks.FileCheck:
		return j.fileCheck(ctx, c)
	case *tasks.JSONCheck:
		return j.jsonCheck(ctx, c)
	case *tasks.RunCommand:
		return j.runCommand(ctx, c)
	case *tasks.CommandExecuted:
		return j.commandExecuted(c)
	case *tasks.CLICalled:
		return j.cliCalled(ctx, c)
	case *tasks.CommandsEfficiency:
		return j.commandsEfficiency(c)
	case *tasks.ClassificationMatch:
		return j.classificationMatch(ctx, c)
	case *tasks.SkillTriggered:
		return j.skillTriggered(c)
	case *tasks.ReferenceComparison:
		return j.referenceComparison(ctx, c)
	case *tasks.LLMJudge:
		return j.llmJudge(ctx, c)
	case *tasks.AgentJudge:
		return j.agentJudge(ctx, c)
	case *tasks.SystemOneJudge:
		return j.systemOneJudge(ctx, c)
	case *tasks.UiPathEval:
		return j.uipathEval(ctx, c)
	}
	return outcome{}, misusef("criteria of type %s are unknown", j.Type)
}

// finish makes the record's result. A kind's own keys are there even when the
// check failed.
func finish(criterion tasks.Criterion, found outcome) Result {
	common := criterion.Common()
	result := Result{
		Kind: KindBasic, CriterionType: common.Type, Description: common.Description,
		Score: found.score, EvaluationStatus: Evaluated,
		PassThreshold: common.PassThreshold, Gating: common.Weight > 0,
		Classification: found.labels, Judgement: found.judged, CommandOutput: found.output,
	}
	if found.details != "" {
		result.Details = &found.details
	}
	if found.err != "" {
		result.Error = &found.err
	}
	switch c := criterion.(type) {
	case *tasks.ClassificationMatch, *tasks.SkillTriggered:
		result.Kind = KindClassification
		if result.Classification == nil {
			result.Classification = &Classification{}
		}
	case *tasks.LLMJudge, *tasks.AgentJudge, *tasks.SystemOneJudge:
		result.Kind = KindJudge
		if result.Judgement == nil {
			result.Judgement = &Judgement{}
		}
		if result.Judgement.Findings == nil {
			result.Judgement.Findings = []any{}
		}
	case *tasks.ReferenceComparison:
		// Its own threshold always wins (task-file 7.14).
		result.PassThreshold = c.SimilarityThreshold
	}
	return result
}

// label names the criterion in logs.
func (j *judging) label() string { return fmt.Sprintf("criterion %d", j.index+1) }

func (j *judging) note(text string) {
	if j.where.Sink != nil {
		j.where.Sink.Note(j.label(), text)
	}
}
