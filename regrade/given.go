package regrade

import (
	"bytes"

	"podgrade/tasks"
	"podgrade/tasks/record"
)

// Given is a task of the operator's own files that a row is graded by instead
// of the recorded one. It is trusted, so that nobody is asked; what the record
// itself leads to is not (spec/regrade.md 1.3).
type Given struct {
	task   *tasks.Task // as a record of it would be read
	path   string      // of the task file, absolute
	digest string
	config *record.TaskConfig
}

// Give makes what a row is graded by of a resolved task and its file. The task
// is read as from a record, so that it is graded as it would be by evaluate.
func Give(task *tasks.Task, file *tasks.File) (*Given, error) {
	path := absolute(file.Path)
	config, err := record.NewTaskConfig(task, file.Source, path)
	if err != nil {
		return nil, err
	}
	read, err := tasks.FromRecord(config.Resolved)
	if err != nil {
		return nil, err
	}
	digest, err := taskDigest(task)
	return &Given{task: read, path: path, digest: digest, config: config}, err
}

// network is what the operator's own task grants a grade: what it names itself,
// and not what is only upstream's default.
func (g *Given) network() string {
	if _, written := g.task.Network(); written {
		return NetworkRecorded
	}
	return NetworkNone
}

// put makes the record say what it was graded by. A record that says so already
// keeps its bytes.
func (g *Given) put(r *record.Record) {
	if config, err := r.TaskConfig(); err == nil && sameTask(config.Resolved, g.task) {
		return
	}
	r.Set(record.FieldDescription, g.task.Description)
	r.SetTaskConfig(g.config)
	r.Environment.Set(record.TaskDigest, g.digest)
}

// sameTask tells whether a recorded task is this one, wherever its files stand: a row
// of a moved project keeps its bytes, and with them the signatures of others.
func sameTask(resolved record.Raw, task *tasks.Task) bool {
	recorded, err := tasks.FromRecord(resolved)
	if err != nil {
		return false
	}
	a, err := placeless(recorded).MarshalJSON()
	if err != nil {
		return false
	}
	b, err := placeless(task).MarshalJSON()
	return err == nil && bytes.Equal(a, b)
}
