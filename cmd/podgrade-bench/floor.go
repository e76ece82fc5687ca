package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"podgrade/oci"
)

// The floor is what a cell costs at the least: the same views, the same
// specification with a compiled seccomp filter, and crun, all by hand, with no
// supervisor, no check, and removal left for later.

const floorCommand = "floor"

// floorOrder is what the program is told when it runs inside the namespaces.
type floorOrder struct {
	Dir       string
	Runtime   string
	Layers    []string
	Workspace string
	Spec      json.RawMessage
}

type floorRun struct {
	suite *suite
	file  string
}

// floorRun takes the specification of a real cell.
func (s *suite) floorRun(ctx context.Context) (*floorRun, error) {
	if s.floor != nil {
		return s.floor, nil
	}
	order, err := s.order()
	if err != nil {
		return nil, err
	}
	c, err := s.host.Open(ctx, order)
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(c.Made().Spec)
	if err := errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	dir := filepath.Join(s.dir, "floor")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	b, err := json.Marshal(floorOrder{Dir: dir, Runtime: s.host.RuntimePath(), Layers: order.Image.Layers, Workspace: order.Workspace, Spec: spec})
	if err != nil {
		return nil, err
	}
	s.floor = &floorRun{suite: s, file: filepath.Join(s.dir, "floor.json")}
	return s.floor, os.WriteFile(s.floor.file, b, 0o600)
}

// floorTimes are how long each cell took, and all of them together. The first
// one, whose filter has to be compiled, is not among them.
type floorTimes struct {
	Each []time.Duration
	All  time.Duration
}

// run makes n cells, parallel at a time.
func (f *floorRun) run(ctx context.Context, n, parallel int) (floorTimes, error) {
	var took floorTimes
	self, err := os.Executable()
	if err != nil {
		return took, err
	}
	var out bytes.Buffer
	code, err := f.suite.host.Inside(ctx, []string{self, floorCommand, "-n", fmt.Sprint(n), "-j", fmt.Sprint(parallel), f.file}, &out, os.Stderr)
	if err != nil || code != 0 {
		return took, fmt.Errorf("the floor ended with exit code %d (%v)", code, err)
	}
	return took, json.Unmarshal(out.Bytes(), &took)
}

// floor is the program inside the namespaces.
func floor(args []string) error {
	flags := flag.NewFlagSet(floorCommand, flag.ContinueOnError)
	n := flags.Int("n", 1, "cells")
	parallel := flags.Int("j", 1, "at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	var o floorOrder
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	if err := o.compileFilter(); err != nil {
		return err
	}
	took, err := o.cells(*n, *parallel)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(took)
}

func (o *floorOrder) cells(n, parallel int) (floorTimes, error) {
	took := make([]time.Duration, n)
	began := time.Now()
	failed := make([]error, n)
	next := make(chan int)
	var workers sync.WaitGroup
	for range parallel {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for i := range next {
				started := time.Now()
				failed[i] = o.cell(fmt.Sprintf("f%d-%d", os.Getpid(), i), "")
				took[i] = time.Since(started)
			}
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	return floorTimes{Each: took, All: time.Since(began)}, errors.Join(failed...)
}

// compileFilter starts one cell in the ordinary way and takes the filter that
// crun leaves in its state directory.
func (o *floorOrder) compileFilter() error {
	return o.cell(fmt.Sprintf("f%d-first", os.Getpid()), "while [ ! -e "+oci.WorkspacePath+"/go ]; do :; done")
}

// cell makes one cell. With a script it is the first one: it runs until its
// filter was taken.
func (o *floorOrder) cell(name, script string) error {
	d := filepath.Join(o.Dir, name)
	for _, sub := range []string{"root", "upper", "work", "view", "etc"} {
		if err := os.MkdirAll(filepath.Join(d, sub), 0o755); err != nil {
			return err
		}
	}
	root := filepath.Join(d, "root")
	data := "lowerdir=" + strings.Join(o.Layers, ":") + ",upperdir=" + d + "/upper,workdir=" + d + "/work,userxattr,volatile"
	if err := unix.Mount("overlay", root, "overlay", 0, data); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	defer unix.Unmount(root, unix.MNT_DETACH)
	if err := copyFlat(o.Workspace, filepath.Join(d, "view")); err != nil {
		return err
	}
	spec, err := o.specFor(d, script)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d, "config.json"), spec, 0o600); err != nil {
		return err
	}
	state := filepath.Join(o.Dir, "state")
	cmd := exec.Command(o.Runtime, "--root", state, "--cgroup-manager=disabled", "run", "--bundle", d, name)
	cmd.Stderr = os.Stderr
	if script == "" {
		return cmd.Run()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := o.takeFilter(filepath.Join(state, name, "seccomp.bpf")); err != nil {
		cmd.Process.Kill()
		return errors.Join(err, cmd.Wait())
	}
	if err := os.WriteFile(filepath.Join(d, "view", "go"), nil, 0o600); err != nil {
		return err
	}
	return cmd.Wait()
}

func (o *floorOrder) specFor(dir, script string) ([]byte, error) {
	var s specs.Spec
	if err := json.Unmarshal(o.Spec, &s); err != nil {
		return nil, err
	}
	s.Root.Path = filepath.Join(dir, "root")
	s.Process.Args = []string{"/bin/true"}
	if script != "" {
		s.Process.Args = []string{"/bin/sh", "-c", script}
	}
	s.Process.Env = []string{"PATH=/bin"}
	for i := range s.Mounts {
		m := &s.Mounts[i]
		switch {
		case m.Destination == oci.WorkspacePath:
			m.Source = filepath.Join(dir, "view")
		case strings.HasPrefix(m.Destination, "/etc/"):
			m.Source = filepath.Join(dir, m.Destination)
			if err := os.WriteFile(m.Source, nil, 0o644); err != nil {
				return nil, err
			}
		}
	}
	return json.Marshal(s)
}

func (o *floorOrder) takeFilter(file string) error {
	for range 2000 {
		if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
			var s specs.Spec
			if err := json.Unmarshal(o.Spec, &s); err != nil {
				return err
			}
			s.Annotations = map[string]string{"run.oci.seccomp_bpf_data": base64.StdEncoding.EncodeToString(b)}
			o.Spec, err = json.Marshal(s)
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("the runtime left no filter in %s", file)
}

// copyFlat copies the files of a directory without any below it.
func copyFlat(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyFile(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
