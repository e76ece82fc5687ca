package regrade

import (
	"fmt"

	"podgrade/isolation"
	"podgrade/tasks/record"
)

// lostTaskFile is the recorded task file where commands of the grade find no task
// directory although the row had one; "" else. A criterion need not name the
// directory to read it: a script that it starts may.
func (g *grading) lostTaskFile() string {
	if !g.accepted.Runs() || g.accepted.TaskDir() != "" {
		return ""
	}
	config, err := g.record.TaskConfig()
	if err != nil {
		return ""
	}
	return config.SourceFile
}

// explainBrought says of a verdict that is another than the one before whether what
// the task brings is another, too: nothing else of the row need have changed.
func (g *grading) explainBrought(v *Verdict, made isolation.Made) {
	if !g.record.HasVerdict() || g.record.Status == v.Status && g.record.Score != nil && *g.record.Score == v.Score {
		return
	}
	for _, brought := range []struct{ what, key, now string }{
		{"task directory", record.GradedTaskDir, made.TaskDirDigest},
		{"reference", record.GradedReference, made.ReferenceDigest},
	} {
		switch was := g.record.Environment.Text(brought.key); {
		case was == "" || was == brought.now:
		case brought.now == "":
			g.warn("the verdict is another one than before, which was made with a " + brought.what + ", and this one without")
		default:
			g.warn(fmt.Sprintf("the verdict is another one than before, and the %s holds something else than then (digest %.12s, now %.12s)", brought.what, was, brought.now))
		}
	}
}
