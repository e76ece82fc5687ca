package criteria

import (
	"context"
	"fmt"
	"strings"

	"podgrade/tasks"
)

// fileContains looks for substrings, case-sensitively (task-file 7.4).
func (j *judging) fileContains(ctx context.Context, c *tasks.FileContains) (outcome, error) {
	file, text, err := j.oneText(ctx, c.Path)
	if err != nil {
		return outcome{}, err
	}
	parts := newParts(file)
	parts.includes(text, c.Includes)
	parts.excludes(text, c.Excludes)
	return parts.outcome(), nil
}

// parts gathers the categories of a content check, whose mean is the score.
type parts struct {
	scores []float64
	lines  []string
}

func newParts(file subject) *parts {
	p := &parts{}
	if file.found != "" {
		p.lines = append(p.lines, file.found)
	}
	return p
}

// includes scores found/total; an empty list is no category.
func (p *parts) includes(text string, wanted []string) {
	if len(wanted) == 0 {
		return
	}
	var absent []string
	for _, s := range wanted {
		if !strings.Contains(text, s) {
			absent = append(absent, s)
		}
	}
	found := len(wanted) - len(absent)
	p.scores = append(p.scores, float64(found)/float64(len(wanted)))
	p.line(fmt.Sprintf("Includes: %d of %d found.", found, len(wanted)), "Missing", absent)
}

// excludes scores 1 - present/total; an empty list is no category.
func (p *parts) excludes(text string, unwanted []string) {
	if len(unwanted) == 0 {
		return
	}
	var present []string
	for _, s := range unwanted {
		if strings.Contains(text, s) {
			present = append(present, s)
		}
	}
	p.scores = append(p.scores, 1-float64(len(present))/float64(len(unwanted)))
	p.line(fmt.Sprintf("Excludes: %d of %d present.", len(present), len(unwanted)), "Present", present)
}

// itemLimit cuts an item of a list in details, in characters.
const itemLimit = 200

// line adds a line, with a list of items when there are some.
func (p *parts) line(text, title string, items []string) {
	if len(items) > 0 {
		var shown []string
		for i, item := range items {
			if i == listedMatches {
				shown = append(shown, fmt.Sprintf("and %d more", len(items)-i))
				break
			}
			shown = append(shown, "'"+cutNote(item, itemLimit)+"'")
		}
		text += " " + title + ": " + strings.Join(shown, ", ")
	}
	p.lines = append(p.lines, text)
}

// outcome is the mean of the categories, 1.0 without any.
func (p *parts) outcome() outcome {
	if len(p.scores) == 0 {
		return outcome{score: 1, details: strings.Join(append(p.lines, "The file exists; nothing more was asked."), "\n")}
	}
	return outcome{score: tasks.Sum(p.scores) / float64(len(p.scores)), details: strings.Join(p.lines, "\n")}
}
