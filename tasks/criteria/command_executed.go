package criteria

import (
	"errors"
	"fmt"
	"strings"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// Limits of command_executed, in characters (task-file 7.9).
const (
	searchWindow  = 2000 // of parameters as JSON
	exampleCount  = 3
	exampleLength = 120
)

// shellTool is the tool whose parameter "command" is a shell line.
const shellTool = "Bash"

// errNoTrajectory is the error of criteria that need to know what the agent did.
const errNoTrajectory = "There is no trajectory: what the agent did is not known"

// commandExecuted counts tool calls (task-file 7.9).
func (j *judging) commandExecuted(c *tasks.CommandExecuted) (outcome, error) {
	if j.where.Trajectory == nil {
		return outcome{details: errNoTrajectory, err: errNoTrajectory}, nil
	}
	count, examples, err := j.countCalls(c)
	var bad *badPattern
	if errors.As(err, &bad) {
		return outcome{details: bad.Error(), err: bad.Error()}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	found := outcome{score: countScore(count, c.MinCount, c.MaxCount)}
	limit := "no maximum"
	if c.MaxCount != nil {
		limit = fmt.Sprintf("at most %d", *c.MaxCount)
	}
	found.details = fmt.Sprintf("%d matching calls; at least %d, %s.", count, c.MinCount, limit)
	for _, example := range examples {
		found.details += "\n- " + example
	}
	return found, nil
}

// countScore: with a maximum yes or no, else a share of the minimum.
func countScore(count, low int, high *int) float64 {
	switch {
	case high != nil:
		return binary(count >= low && count <= *high)
	case low == 0:
		return 1
	}
	return min(1, float64(count)/float64(low))
}

// countCalls counts the calls that match, with the first few as examples.
func (j *judging) countCalls(c *tasks.CommandExecuted) (count int, examples []string, err error) {
	wanted, unwanted := matchAll, matchNone
	if c.CommandPattern != "" {
		if wanted, err = j.anyText(c.CommandPattern); err != nil {
			return 0, nil, err
		}
	}
	if c.ExcludePattern != "" {
		if unwanted, err = j.anyText(c.ExcludePattern); err != nil {
			return 0, nil, err
		}
	}
	for _, call := range j.where.Trajectory.calls() {
		if c.ToolName != "" && call.Tool != c.ToolName || c.RequireSuccess && call.Status != StatusSuccess {
			continue
		}
		texts := callTexts(call)
		hit, err := wanted(texts)
		if err == nil && hit {
			var excluded bool
			excluded, err = unwanted(texts)
			hit = !excluded
		}
		if err != nil {
			return 0, nil, err
		}
		if !hit {
			continue
		}
		if count++; count <= exampleCount {
			kept, _ := python.Cut(call.Tool+": "+texts[0], exampleLength)
			examples = append(examples, strings.ReplaceAll(kept, "\n", " "))
		}
	}
	return count, examples, nil
}

// textMatch says whether one of several texts matches.
type textMatch func(texts []string) (bool, error)

func matchAll([]string) (bool, error) { return true, nil }

func matchNone([]string) (bool, error) { return false, nil }

// anyText matches a pattern in which "." takes a line feed too.
func (j *judging) anyText(pattern string) (textMatch, error) {
	re, err := j.compile(pattern, python.FlagDotAll)
	if err != nil {
		return nil, err
	}
	return func(texts []string) (bool, error) {
		for _, text := range texts {
			if _, found, err := find(re, pattern, text); found || err != nil {
				return found, err
			}
		}
		return false, nil
	}, nil
}

// callTexts are the texts of a call that patterns search: of a shell call the
// line and its normalised form, of any other its parameters as json.dumps
// writes them, the first 2000 characters.
func callTexts(call Call) []string {
	parameters := parametersOf(call)
	if call.Tool == shellTool {
		if v, _ := parameters.Get("command"); v != nil {
			if line, ok := v.(string); ok && line != "" {
				return shellTexts(line)
			}
		}
	}
	// The text is ASCII: its bytes are its characters.
	text, _ := python.DumpJSON(parameters, false, searchWindow)
	text, _ = python.Cut(text, searchWindow)
	return []string{text}
}

// parametersOf reads the parameters of a call. What is no JSON object has none.
func parametersOf(call Call) *python.Dict {
	value, err := python.LoadJSON(strings.ToValidUTF8(string(call.Parameters), "\uFFFD"))
	if dict, ok := value.(*python.Dict); ok && err == nil {
		return dict
	}
	return python.NewDict()
}

// shellTexts are a shell line and its normalised form: the words as the shell
// resolves them, of "sh -c" and its like the words of the inner line, joined
// by blanks. A line that does not split has no such form.
func shellTexts(line string) []string {
	words, err := python.SplitShell(line)
	if err != nil {
		return []string{line}
	}
	if len(words) >= 3 && strings.HasSuffix(words[0], "sh") && isCommandOption(words[1]) {
		inner, err := python.SplitShell(words[2])
		if err != nil {
			return []string{line, words[2]}
		}
		words = inner
	}
	return []string{line, strings.Join(words, " ")}
}

// isCommandOption knows -c and its company: -lc, -ec, -xeuc.
func isCommandOption(word string) bool {
	return len(word) >= 2 && word[0] == '-' && word[1] != '-' && strings.HasSuffix(word, "c")
}
