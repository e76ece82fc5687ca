package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// rowOf writes a pinned row of a task with these criterion lines.
func (s *suite) rowOf(name string, replicate int, commands ...string) (string, error) {
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
	return fixture.Write(fixture.Order{Task: task, Out: filepath.Join(s.dir, "run-"+name), Form: fixture.Pinned, Pin: s.image.Pin, Replicate: replicate})
}

// shared lets many grades use one Host: closing it is the suite's.
type shared struct{ *isolation.Host }

func (shared) Close() error { return nil }

func (s *suite) grade(ctx context.Context, dir string) error {
	row, err := record.OpenRow(dir)
	if err != nil {
		return err
	}
	defer row.Close()
	verdict, err := regrade.Grade(ctx, row, regrade.Options{
		Answer: policy.Answer{RecordedCommands: true}, Notice: io.Discard,
		Start:  func(context.Context) (regrade.Engines, error) { return shared{s.host}, nil },
		Lookup: os.LookupEnv, Version: "bench",
	})
	if err == nil && !verdict.Passed() {
		err = fmt.Errorf("the row %s is %s", dir, verdict.Status)
	}
	return err
}

// batch grades rows of 5 criteria, four at a time, and compares the rows per
// second with the floor's cells per second, in turns.
func (s *suite) batch(ctx context.Context) error {
	const parallel, turns = 4, 5
	f, err := s.floorRun(ctx)
	if err != nil {
		return err
	}
	var own, floor time.Duration
	for turn := range turns {
		var dirs []string
		for i := range s.rows / turns {
			dir, err := s.rowOf(fmt.Sprintf("batch%d-%03d", turn, i), 0, "true", "true", "true", "true", "true")
			if err != nil {
				return err
			}
			dirs = append(dirs, dir)
		}
		took, err := timed(func() error { return each(dirs, parallel, func(d string) error { return s.grade(ctx, d) }) })
		if err != nil {
			return err
		}
		own += took
		times, err := f.run(ctx, len(dirs), parallel)
		if err != nil {
			return err
		}
		floor += times.All
	}
	rows := s.rows / turns * turns
	perSecond := func(d time.Duration) float64 { return float64(rows) / d.Seconds() }
	s.table.add(fmt.Sprintf("%d rows x 5 criteria, -j 4", rows), "rows/s / floor cells/s", perSecond(own)/perSecond(floor), ">= 0.6",
		fmt.Sprintf("%.1f / %.1f", perSecond(own), perSecond(floor)))
	return nil
}

// each does the work for all, parallel at a time.
func each(all []string, parallel int, do func(string) error) error {
	work := make(chan string)
	var mu sync.Mutex
	var failed []error
	var workers sync.WaitGroup
	for range parallel {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for one := range work {
				if err := do(one); err != nil {
					mu.Lock()
					failed = append(failed, err)
					mu.Unlock()
				}
			}
		}()
	}
	for _, one := range all {
		work <- one
	}
	close(work)
	workers.Wait()
	return errors.Join(failed...)
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
