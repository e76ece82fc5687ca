package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"podgrade/isolation"
	"podgrade/isolation/hostfacts"
	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks/record"
)

const rmHelp = `Removes the run directory RUN with all its rows, also where files in it belong
to users of an image and cannot be removed with rm. Only a directory with a
run's run.json, or with row records that lie where a run puts them, is removed;
never a link, and never a directory that holds your home, the current
directory or something mounted, or files that are no part of the run: these are
named.

At a terminal it asks; --yes is the answer for everywhere else.

Exit codes: 0 the run is gone; 1 it is not, or not all of it; 2 it is refused,
or the command line is wrong; 130 interrupted at the question.`

func rmCommand() *cli.Command {
	return &cli.Command{
		Name:        "rm",
		Usage:       "remove a run directory, whoever owns the files in it",
		ArgsUsage:   "RUN",
		Description: rmHelp,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
			scratchFlag(),
		},
		OnUsageError: usageError,
		Action:       removeRun,
	}
}

func removeRun(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage(c, "rm takes one run directory, and %s given", argumentsWere(c.NArg()))
	}
	run, err := openRun(c.Args().First())
	if err != nil {
		return err
	}
	defer run.close()
	if !c.Bool("yes") {
		if err := run.ask(c.Context, c.App.ErrWriter); err != nil {
			return err
		}
	}
	return run.remove(c.Context, isolation.Options{Scratch: c.String("scratch"), Log: policy.NeutralWriter(c.App.ErrWriter)})
}

// openedRun is a run directory that has been looked at: the descriptors stay
// open, so that what was looked at is what is removed.
type openedRun struct {
	path   string // absolute, every link resolved
	rows   int
	parent *os.Root
	dir    *os.File
	// release lets others run rows in it; nil: nobody is kept from that.
	release func()
}

func (r *openedRun) close() {
	r.letRun()
	r.dir.Close()
	r.parent.Close()
}

// letRun calls release, once.
func (r *openedRun) letRun() {
	if r.release != nil {
		r.release()
		r.release = nil
	}
}

func refuseRemoval(on string, why error, do string) error {
	return &regrade.Error{Kind: regrade.Refused, Tried: "remove the run", On: on, Why: why, Do: do}
}

// openRun opens the directory and refuses what is no run directory, or is more
// than one.
func openRun(name string) (*openedRun, error) {
	const nameOne = "name a run directory"
	path, err := resolveParent(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there is no such directory")
	}
	if err != nil {
		return nil, refuseRemoval(name, err, nameOne)
	}
	if err := protected(path); err != nil {
		return nil, refuseRemoval(path, err, nameOne)
	}
	parent, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, refuseRemoval(path, err, nameOne)
	}
	dir, err := openNoLink(parent, filepath.Base(path))
	if err != nil {
		parent.Close()
		return nil, refuseRemoval(path, err, nameOne)
	}
	run := &openedRun{path: path, parent: parent, dir: dir}
	if run.release, err = regrade.LockRun(dir); err != nil {
		run.close()
		return nil, refuseRemoval(path, err, "wait until it has ended, or end it")
	}
	if run.rows, err = countRows(dir); err != nil {
		run.close()
		return nil, refuseRemoval(path, err, nameOne)
	}
	if err := run.refuseForeign(); err != nil {
		run.close()
		return nil, err
	}
	return run, nil
}

// resolveParent resolves all links but the last name.
func resolveParent(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil || path == "/" {
		return path, err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

func openNoLink(parent *os.Root, base string) (*os.File, error) {
	info, err := parent.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no such directory")
	}
	if err != nil {
		return nil, err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		return nil, errors.New("it is a link")
	}
	if !info.IsDir() {
		return nil, errors.New("it is no directory")
	}
	dir, err := parent.Open(base)
	if err != nil {
		return nil, err
	}
	if opened, err := dir.Stat(); err != nil || !os.SameFile(info, opened) {
		dir.Close()
		return nil, errors.New("it was replaced meanwhile")
	}
	return dir, nil
}

// protected refuses a directory that holds more than a run can.
func protected(path string) error {
	home, _ := os.UserHomeDir()
	current, _ := os.Getwd()
	for _, held := range []struct{ path, what string }{
		{"/", "the root directory"}, {home, "your home directory"}, {current, "the current directory"},
	} {
		resolved, err := filepath.EvalSymlinks(held.path)
		if err == nil && holds(path, resolved) {
			return fmt.Errorf("it is or holds %s", held.what)
		}
	}
	points, err := hostfacts.MountPoints()
	if err != nil {
		return err
	}
	for _, point := range points {
		if holds(path, point) {
			return fmt.Errorf("something is mounted on %s", point)
		}
	}
	return nil
}

// holds tells whether inner is outer or lies below it; both are clean.
func holds(outer, inner string) bool {
	return outer == inner || outer == "/" || strings.HasPrefix(inner, outer+"/")
}

func countRows(dir *os.File) (int, error) {
	// The descriptor, not the name: nobody can put another directory there.
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return 0, err
	}
	defer root.Close()
	return record.RowsOfRun(root)
}

// refuseForeign refuses a directory that holds more than the run: nobody said that
// this is to be removed.
func (r *openedRun) refuseForeign() error {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", r.dir.Fd()))
	if err != nil {
		return err
	}
	defer root.Close()
	names, err := record.Foreign(root)
	if err != nil {
		return refuseRemoval(r.path, err, "look at what it holds")
	}
	if len(names) == 0 {
		return nil
	}
	foreign := &record.ForeignError{Names: names}
	return refuseRemoval(r.path, fmt.Errorf("it holds what is no part of the run: %s", foreign.Named()), "move that elsewhere, or remove it yourself; nothing was removed")
}

// ask asks at the terminal. Where there is none, nobody has answered.
func (r *openedRun) ask(ctx context.Context, terminal io.Writer) error {
	if !isTerminal(os.Stdin) {
		return refuseRemoval(r.path, errors.New("there is no terminal to ask at"), "say --yes")
	}
	rows := "1 row"
	if r.rows != 1 {
		rows = fmt.Sprintf("%d rows", r.rows)
	}
	fmt.Fprintf(terminal, "Remove the run %s (%s)? [y/N] ", policy.Neutral(r.path), rows)
	line, err := typedLine(ctx, os.Stdin, "nothing was removed")
	if err != nil {
		fmt.Fprintln(terminal)
		return err
	}
	if isYes(line) {
		return nil
	}
	return refuseRemoval(r.path, errors.New("the answer was not yes"), "nothing was removed")
}

func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

func (r *openedRun) remove(ctx context.Context, options isolation.Options) error {
	// What keeps other hosts away is a file in the run, which NFS does not let go of
	// while it is open. The directory's own lock is held to the end.
	r.letRun()
	if err := isolation.RemoveTree(ctx, options, r.dir); err != nil {
		return err
	}
	base := filepath.Base(r.path)
	if err := r.parent.Remove(base); err != nil {
		return &regrade.Error{Kind: regrade.Infrastructure, Tried: "remove the run", On: r.path, Why: err, Do: "its directory is empty now"}
	}
	// The link that names the newest run would lead nowhere.
	if to, err := r.parent.Readlink(record.Latest); err == nil && to == base {
		return r.parent.Remove(record.Latest)
	}
	return nil
}
