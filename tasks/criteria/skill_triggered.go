package criteria

import (
	"fmt"
	"regexp"
	"strings"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// skillTool is the tool that loads a skill.
const skillTool = "Skill"

// skillName are the names that can be seen in a path.
var skillName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// skillTriggered says whether a skill was used (task-file 7.13).
func (j *judging) skillTriggered(c *tasks.SkillTriggered) (outcome, error) {
	if j.where.Trajectory == nil {
		return outcome{details: errNoTrajectory, err: errNoTrajectory}, nil
	}
	observed, expected := yesNo(j.engaged(c.SkillName)), yesNo(c.SkillName == c.ExpectedSkill)
	return outcome{
		score:   binary(observed == expected),
		details: fmt.Sprintf("Skill '%s' used: %s, expected: %s.", c.SkillName, observed, expected),
		labels:  &Classification{ObservedLabel: &observed, ExpectedLabel: &expected},
	}, nil
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// engaged looks for a call of the skill, or a call with a path into it.
func (j *judging) engaged(name string) bool {
	var inPath *regexp.Regexp
	if skillName.MatchString(name) {
		inPath = regexp.MustCompile(`skills[/\\]+` + regexp.QuoteMeta(name) + `[/\\]`)
	}
	for _, call := range j.where.Trajectory.calls() {
		parameters := parametersOf(call)
		for _, key := range parameters.Keys() {
			value, _ := parameters.Get(key)
			text, ok := value.(string)
			if !ok {
				continue
			}
			if call.Tool == skillTool && key == "skill" && lastPart(text) == name {
				return true
			}
			if inPath != nil && inPath.MatchString(text) {
				return true
			}
		}
	}
	return false
}

// lastPart is the name of a skill without the plugin's.
func lastPart(skill string) string {
	return python.Strip(skill[strings.LastIndexByte(skill, ':')+1:])
}
