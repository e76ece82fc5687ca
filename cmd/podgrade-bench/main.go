// Command podgrade-bench measures what design.md calls Speed, as ratios within
// one run on one machine, and prints a table of them beside their targets. It
// is not installed: `make bench` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == floorCommand {
		if err := floor(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "floor:", err)
			os.Exit(1)
		}
		return
	}
	build := flag.String("build", "build", "`directory` that make build filled")
	cells := flag.Int("cells", 60, "cells a measurement")
	rows := flag.Int("rows", 200, "rows of the batch")
	only := flag.String("only", "", "measure only these, of "+strings.Join(measurementNames(), ", ")+"; a `list` with commas")
	flag.Parse()
	if err := bench(*build, *cells, *rows, *only); err != nil {
		fmt.Fprintln(os.Stderr, "podgrade-bench:", err)
		os.Exit(1)
	}
}

// suite is one run of all measurements.
type suite struct {
	build string
	dir   string // of rows and floor cells, removed at the end
	host  *isolation.Host
	image isolation.Image
	cells int
	rows  int
	floor *floorRun // made when first needed
	table table
}

// measurements are all that the suite measures, in their order.
var measurements = []struct {
	name    string
	measure func(*suite, context.Context) error
}{
	{"cell", (*suite).oneCell},
	{"criteria", (*suite).manyCriteria},
	{"batch", (*suite).batch},
	{"row", (*suite).oneRow},
	{"start", (*suite).starts},
	{"memory", (*suite).memory},
	{"report", (*suite).reports},
}

func measurementNames() []string {
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	return names
}

// chosen are the names of a list with commas; none is all.
func chosen(list string) ([]string, error) {
	if list == "" {
		return measurementNames(), nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(measurementNames(), name) {
			return nil, fmt.Errorf("there is no measurement %q, only %s", name, strings.Join(measurementNames(), ", "))
		}
	}
	return names, nil
}

func bench(build string, cells, rows int, only string) error {
	names, err := chosen(only)
	if err != nil {
		return err
	}
	if build, err = filepath.Abs(build); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "podgrade-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	host, err := isolation.Start(ctx, isolation.Options{Libexec: filepath.Join(build, "libexec", "podgrade"), Log: os.Stderr})
	if err != nil {
		return err
	}
	defer host.Close()
	s := &suite{build: build, dir: dir, host: host, cells: cells, rows: rows}
	if err := s.makeImage(ctx); err != nil {
		return err
	}
	for _, m := range measurements {
		if !slices.Contains(names, m.name) {
			continue
		}
		if err := m.measure(s, ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	s.table.print(os.Stdout)
	return nil
}

func (s *suite) makeImage(ctx context.Context) error {
	tar := testimages.Busybox().Open()
	defer tar.Close()
	pin, err := s.host.Import(ctx, tar, "localhost/podgrade-bench:1", isolation.ImageConfig{})
	if err != nil {
		return err
	}
	s.image, err = s.host.ImageByPin(ctx, pin)
	return err
}

// workspaceFiles are those of a cell's workspace, and of a batch's rows: the floor
// and podgrade make views of the same.
func workspaceFiles() map[string]string {
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("file-%d.txt", i)] = string(make([]byte, 2000))
	}
	return files
}

func (s *suite) order() (isolation.Order, error) {
	workspace := filepath.Join(s.dir, "workspace")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return isolation.Order{}, err
	}
	for name, text := range workspaceFiles() {
		if err := os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o600); err != nil {
			return isolation.Order{}, err
		}
	}
	return isolation.Order{Image: s.image, Workspace: workspace, Plan: oci.Plan{Phase: oci.Grade, Network: oci.Sealed}}, nil
}

// oneCell compares a cell with one `true` with the floor and with podman run,
// in turns, so that a noisy moment hits all three.
func (s *suite) oneCell(ctx context.Context) error {
	order, err := s.order()
	if err != nil {
		return err
	}
	f, err := s.floorRun(ctx)
	if err != nil {
		return err
	}
	var own, floor, podman []time.Duration
	for range 5 {
		d, err := f.run(ctx, s.cells/5, 1)
		if err != nil {
			return err
		}
		floor = append(floor, d.Each...)
		for range s.cells / 5 {
			took, err := timed(func() error { return s.cell(ctx, order) })
			if err != nil {
				return err
			}
			own = append(own, took)
		}
		for range 3 {
			took, err := timed(func() error { return s.podmanRun(ctx) })
			if err != nil {
				return err
			}
			podman = append(podman, took)
		}
	}
	cell := median(own)
	s.table.add("one cell with one `true`", "cell / floor", ratio(cell, median(floor)), "<= 1.3", fmt.Sprintf("%v / %v", ms(cell), ms(median(floor))))
	s.table.add("", "podman run --rm / cell", ratio(median(podman), cell), ">= 7", fmt.Sprintf("%v / %v", ms(median(podman)), ms(cell)))
	return nil
}

// cell opens a cell, runs `true` in it and closes it.
func (s *suite) cell(ctx context.Context, order isolation.Order) error {
	c, err := s.host.Open(ctx, order)
	if err != nil {
		return err
	}
	defer c.Close()
	return runTrue(ctx, c)
}

func runTrue(ctx context.Context, c isolation.Cell) error {
	exit, err := c.Run(ctx, isolation.Command{Argv: []string{"/bin/true"}, Env: []string{"PATH=/bin"}, Dir: oci.WorkspacePath, Timeout: time.Minute})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("`true` ended with exit code %d", exit.Code)
	}
	return err
}

func (s *suite) podman(ctx context.Context, args ...string) error {
	code, err := s.host.Inside(ctx, append([]string{s.host.PodmanPath()}, args...), io.Discard, os.Stderr)
	if err == nil && code != 0 {
		err = fmt.Errorf("podman %v: exit code %d", args, code)
	}
	return err
}

func (s *suite) podmanRun(ctx context.Context) error {
	return s.podman(ctx, "run", "--rm", "--network=none", "--cgroups=disabled", s.image.Pin.ID, "/bin/true")
}

// manyCriteria compares 20 commands in one cell with 20 podman exec.
func (s *suite) manyCriteria(ctx context.Context) error {
	const criteria = 20
	order, err := s.order()
	if err != nil {
		return err
	}
	c, err := s.host.Open(ctx, order)
	if err != nil {
		return err
	}
	defer c.Close()
	own, err := timed(func() error {
		for range criteria {
			if err := runTrue(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	const name = "podgrade-bench-exec"
	if err := s.podman(ctx, "run", "--detach", "--replace", "--name", name, "--network=none", "--cgroups=disabled", s.image.Pin.ID, "/bin/sleep", "600"); err != nil {
		return err
	}
	defer s.podman(ctx, "rm", "--force", "--time=0", name)
	const execs = 5 // of which each takes long enough
	exec, err := timed(func() error {
		for range execs {
			if err := s.podman(ctx, "exec", name, "/bin/true"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.table.add("20 criteria in one cell", "podman exec / criterion", ratio(exec/execs, own/criteria), ">= 20", fmt.Sprintf("%v / %v", ms(exec/execs), ms(own/criteria)))
	return nil
}

func timed(do func() error) (time.Duration, error) {
	started := time.Now()
	err := do()
	return time.Since(started), err
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func ms(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
