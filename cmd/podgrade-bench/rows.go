package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// rowOf writes a pinned row of a task with these criterion lines.
func (s *suite) rowOf(name string, replicate int, commands ...string) (string, error) {
	return s.rowIn("run-"+name, name, nil, replicate, commands...)
}

// rowIn writes it into a run, with files in its workspace.
func (s *suite) rowIn(run, name string, files map[string]string, replicate int, commands ...string) (string, error) {
	// A directory of its own: the cell is given all that lies beside the task.
	dir := filepath.Join(s.dir, "task-"+name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	task := filepath.Join(dir, name+".yaml")
	text := "task_id: " + name + "\ndescription: bench\ninitial_prompt: none\nagent: {type: codex}\n" +
		"sandbox:\n  driver: docker\n  python: null\n  docker: {image: \"localhost/podgrade-bench:1\", network: none, env_passthrough: []}\nsuccess_criteria:\n"
	for i, c := range commands {
		text += fmt.Sprintf("  - {type: run_command, description: c%d, timeout: 120, command: %q}\n", i, c)
	}
	if err := os.WriteFile(task, []byte(text), 0o600); err != nil {
		return "", err
	}
	return fixture.Write(fixture.Order{Task: task, Out: filepath.Join(s.dir, run), Form: fixture.Pinned, Pin: s.image.Pin, Replicate: replicate, Files: files})
}

// runOf writes a run of pinned rows of a task with these criterion lines.
func (s *suite) runOf(name string, rows int, commands ...string) (string, error) {
	var run string
	for i := range rows {
		task := fmt.Sprintf("%s-%03d", name, i)
		row, err := s.rowIn("run-"+name, task, workspaceFiles(), 0, commands...)
		if err != nil {
			return "", err
		}
		run = strings.TrimSuffix(row, record.Identity{VariantID: "default", TaskID: task}.String())
	}
	summary, _, err := record.Rebuild(run)
	if err != nil {
		return "", err
	}
	return run, summary.Write(run)
}

// batch grades a run of rows of 5 criteria, four at a time, and compares the rows
// per second with the floor's cells per second, of which half are made before
// and half after, so that a noisy minute hits both.
func (s *suite) batch(ctx context.Context) error {
	const parallel = 4
	f, err := s.floorRun(ctx)
	if err != nil {
		return err
	}
	run, err := s.runOf("batch", s.rows, "true", "true", "true", "true", "true")
	if err != nil {
		return err
	}
	var floor spent
	half := func() error {
		var times floorTimes
		took, err := spend(func() error {
			times, err = f.run(ctx, s.rows/2, parallel)
			return err
		})
		floor.wall, floor.processor = floor.wall+times.All, floor.processor+took.processor
		return err
	}
	if err := half(); err != nil {
		return err
	}
	own, err := spend(func() error {
		_, _, err := s.podgrade("evaluate", "-j", fmt.Sprint(parallel), "--allow-recorded-commands", run)
		return err
	})
	if err != nil {
		return err
	}
	if err := half(); err != nil {
		return err
	}
	rows, cells := float64(s.rows)/own.wall.Seconds(), float64(s.rows/2*2)/floor.wall.Seconds()
	s.table.add(fmt.Sprintf("%d rows x 5 criteria, -j %d", s.rows, parallel), "rows/s / floor cells/s", rows/cells, ">= 0.6",
		fmt.Sprintf("%.1f / %.1f; of processors %v / %v each", rows, cells, ms(own.processor/time.Duration(s.rows)), ms(floor.processor/time.Duration(s.rows))))
	return nil
}

// podgrade runs the program and returns its time and its largest memory in KiB.
func (s *suite) podgrade(args ...string) (time.Duration, int64, error) {
	cmd := exec.Command(filepath.Join(s.build, "bin", "podgrade"), args...)
	started := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(started)
	if err != nil {
		return took, 0, fmt.Errorf("podgrade %v: %w: %s", args, err, out)
	}
	return took, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss, nil
}

// oneRow compares the whole of `podgrade evaluate` with one podman run.
func (s *suite) oneRow(ctx context.Context) error {
	dir, err := s.rowOf("single", 0, "true")
	if err != nil {
		return err
	}
	var own, podman []time.Duration
	for range 9 {
		took, _, err := s.podgrade("evaluate", "--allow-recorded-commands", dir)
		if err != nil {
			return err
		}
		own = append(own, took)
		took, err = timed(func() error { return s.podmanRun(ctx) })
		if err != nil {
			return err
		}
		podman = append(podman, took)
	}
	s.table.add("podgrade evaluate, wall", "evaluate / podman run --rm", ratio(median(own), median(podman)), "<= 1.2",
		fmt.Sprintf("%v / %v", ms(median(own)), ms(median(podman))))
	return nil
}

func (s *suite) starts(context.Context) error {
	for _, option := range []string{"--version", "--help"} {
		var took []time.Duration
		for range 11 {
			d, _, err := s.podgrade(option)
			if err != nil {
				return err
			}
			took = append(took, d)
		}
		d := median(took)
		s.table.add("podgrade "+option, "ms", float64(d.Microseconds())/1000, "<= 25", "")
	}
	return nil
}

// memory lets a criterion print 3 GB.
func (s *suite) memory(context.Context) error {
	dir, err := s.rowOf("loud", 0, "head -c 3000000000 /dev/zero")
	if err != nil {
		return err
	}
	took, kib, err := s.podgrade("evaluate", "--allow-recorded-commands", dir)
	if err != nil {
		return err
	}
	s.table.add("a criterion prints 3 GB", "MiB of podgrade", float64(kib)/1024, "<= 100", fmt.Sprintf("%.1f s", took.Seconds()))
	return nil
}
