package record

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"podgrade/tasks"
)

// totals are the fields of a record that follow from its turns.
type totals struct {
	model     *string
	stats     *CommandStats     // nil without turns
	usage     *tasks.TokenUsage // nil when no turn reported any
	assistant *int
	commands  *int
}

// complete computes what a turn's own numbers add up to.
func (t *Turn) complete() {
	t.TokenUsage.Complete()
	for i := range t.Commands {
		c := &t.Commands[i]
		c.ResultTokens = 0
		if c.Parameters == nil {
			c.Parameters = NewObject()
		}
		if c.ResultSummary != nil {
			// A guess that needs no tokeniser: four characters each.
			c.ResultTokens = (utf8.RuneCountInString(*c.ResultSummary) + 3) / 4
		}
	}
}

func totalsOf(turns []Turn, configured string) totals {
	t := totals{}
	if configured != "" {
		t.model = &configured
	}
	if len(turns) == 0 {
		return t
	}
	var commands []Command
	assistant := 0
	for i := range turns {
		turn := &turns[i]
		if turn.ModelUsed != nil {
			t.model = turn.ModelUsed
		}
		if turn.TokenUsage != nil {
			if t.usage == nil {
				t.usage = &tasks.TokenUsage{}
			}
			t.usage.Add(turn.TokenUsage)
		}
		assistant += turn.AssistantTurnCount
		commands = append(commands, turn.Commands...)
	}
	count := len(commands)
	t.assistant, t.commands, t.stats = &assistant, &count, statsOf(commands)
	return t
}

// efficiency is the share of the expected commands in those that were run.
func efficiency(expected, actual *int) *float64 {
	if expected == nil || actual == nil || *expected <= 0 {
		return nil
	}
	share := float64(*expected) / float64(max(*actual, *expected))
	return &share
}

// Bounds of CommandStats.
const (
	mostSlowest    = 5
	sequenceLength = 3
)

func statsOf(commands []Command) *CommandStats {
	s := &CommandStats{Total: len(commands), ByTool: map[string]int{}, Slowest: []SlowCommand{}}
	timed := 0
	for i := range commands {
		c := &commands[i]
		s.ByTool[c.ToolName]++
		switch {
		case c.ResultStatus != nil && *c.ResultStatus == CallSucceeded:
			s.Successful++
		case c.ResultStatus != nil && *c.ResultStatus == CallFailed:
			s.Failed++
		default:
			s.Unknown++
		}
		if c.DurationMS != nil {
			timed++
			s.TotalTimeMS += *c.DurationMS
			s.Slowest = append(s.Slowest, slowCommand(c))
		}
	}
	if timed > 0 {
		average := s.TotalTimeMS / float64(timed)
		s.AverageTimeMS = &average
	}
	if known := s.Successful + s.Failed; known > 0 {
		rate := float64(s.Successful) / float64(known)
		s.SuccessRate = &rate
	}
	slices.SortStableFunc(s.Slowest, func(a, b SlowCommand) int { return cmp.Compare(b.DurationMS, a.DurationMS) })
	s.Slowest = s.Slowest[:min(len(s.Slowest), mostSlowest)]
	s.MostCommonSequence = commonSequence(commands)
	return s
}

func slowCommand(c *Command) SlowCommand {
	slow := SlowCommand{Tool: c.ToolName, DurationMS: *c.DurationMS, Parameters: c.Parameters}
	if c.ToolID != "" {
		slow.ToolID = &c.ToolID
	}
	return slow
}

// commonSequence is the three tools that follow each other most often, the
// first such three when several do; nil with fewer commands.
func commonSequence(commands []Command) any {
	counts := map[string]int{}
	var best []string
	most := 0
	for i := 0; i+sequenceLength <= len(commands); i++ {
		three := make([]string, sequenceLength)
		for j := range three {
			three[j] = commands[i+j].ToolName
		}
		counts[strings.Join(three, "\x00")]++
	}
	for i := 0; i+sequenceLength <= len(commands); i++ {
		three := make([]string, sequenceLength)
		for j := range three {
			three[j] = commands[i+j].ToolName
		}
		if n := counts[strings.Join(three, "\x00")]; n > most {
			best, most = three, n
		}
	}
	if best == nil {
		return nil
	}
	return best
}
