package isolation

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"podgrade/isolation/hostfacts"
)

// The files of subordinate ids.
const (
	subuidFile = "/etc/subuid"
	subgidFile = "/etc/subgid"
)

// idRange is one range of subordinate ids, and the user who has it.
type idRange struct {
	user         string
	start, count uint64
}

// subordinateIDs reads the ranges of a user, by its names, from /etc/subuid or
// /etc/subgid. Entries name a user by name or by number.
func subordinateIDs(file string, names []string) ([]idRange, error) {
	return readRanges(file, func(user string) bool { return slices.Contains(names, user) })
}

// readRanges reads those of the users that are wanted.
func readRanges(file string, wanted func(user string) bool) ([]idRange, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var ranges []idRange
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(fields) != 3 || !wanted(fields[0]) {
			continue
		}
		r, err := newRange(fields[0], fields[1], fields[2])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		ranges = append(ranges, r)
	}
	return ranges, lines.Err()
}

func newRange(user, start, count string) (idRange, error) {
	first, err1 := strconv.ParseUint(start, 10, 32)
	n, err2 := strconv.ParseUint(count, 10, 32)
	return idRange{user, first, n}, errors.Join(err1, err2)
}

// callerRanges are the caller's ranges as newuidmap knows them: of the file, or, where
// nsswitch.conf names another source, of that one alone. newuidmap falls back to the
// files where it has no plugin for the source (subuid(5)), and older ones know no
// source: where there is no getsubids to ask, it decides about the files' ranges.
func callerRanges(ctx context.Context, file, source string) ([]idRange, error) {
	if source != "" {
		if _, err := exec.LookPath("getsubids"); err != nil {
			source = ""
		}
	}
	if source == "" {
		return subordinateIDs(file, callerNames())
	}
	names := callerNames()
	args := []string{names[len(names)-1]} // getsubids(1) wants the name
	if file == subgidFile {
		args = append([]string{"-g"}, args...)
	}
	var out bytes.Buffer
	said := &tail{max: 4 << 10}
	cmd := exec.CommandContext(ctx, "getsubids", args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = hostEnv(), &limitedWriter{w: &out, left: 1 << 20}, said, time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if text := said.String(); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return nil, fmt.Errorf("getsubids %s: %w", strings.Join(args, " "), err)
	}
	return rangesIn(out.String())
}

// rangesIn reads what getsubids(1) prints, for each range a line "0: dana 100000 65536".
func rangesIn(text string) ([]idRange, error) {
	var ranges []idRange
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		r, err := newRange(fields[1], fields[len(fields)-2], fields[len(fields)-1])
		if err != nil {
			return nil, fmt.Errorf("read what getsubids printed: %w", err)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// callerNames are the names under which the caller may stand in /etc/subuid.
func callerNames() []string {
	uid := strconv.Itoa(os.Getuid())
	names := []string{uid}
	if u, err := user.LookupId(uid); err == nil {
		return append(names, u.Username)
	}
	// A directory service that pure Go does not ask: the log-in says it.
	if name := cmp.Or(os.Getenv("USER"), os.Getenv("LOGNAME")); name != "" {
		names = append(names, name)
	}
	return names
}

// idMapping maps 0 to the caller and 1 and up to its subordinate ids, in the
// form of newuidmap's arguments.
func idMapping(own int, ranges []idRange) []string {
	args := []string{"0", strconv.Itoa(own), "1"}
	next := uint64(1)
	for _, r := range ranges {
		args = append(args, strconv.FormatUint(next, 10), strconv.FormatUint(r.start, 10), strconv.FormatUint(r.count, 10))
		next += r.count
	}
	return args
}

// writeMaps writes the id maps of the process's new user namespace through
// the set-uid helpers newuidmap and newgidmap.
func writeMaps(ctx context.Context, pid int) error {
	type mapping struct {
		tool, file string
		own        int
	}
	kinds := []mapping{{"newuidmap", subuidFile, os.Getuid()}, {"newgidmap", subgidFile, os.Getgid()}}
	results := make(chan error, len(kinds))
	for _, k := range kinds {
		go func() { results <- writeMap(ctx, k.tool, k.file, k.own, pid) }()
	}
	var first error // what is wrong with one is most often wrong with both
	for range kinds {
		if err := <-results; first == nil {
			first = err
		}
	}
	return first
}

func writeMap(ctx context.Context, tool, file string, own, pid int) error {
	source := hostfacts.SubordinateSource()
	ranges, err := callerRanges(ctx, file, source)
	if err != nil || len(ranges) == 0 {
		why := err
		if why == nil {
			why = fmt.Errorf("%s has no line for this user", cmp.Or(source, file))
		}
		return &Fault{Tried: "map the user ids of a container", Why: why,
			Do: "podgrade doctor prints the command that gives it a range that is free"}
	}
	path, err := exec.LookPath(tool)
	if err != nil {
		return &Fault{Tried: "map the user ids of a container", Why: err, Do: "install the package that has newuidmap and newgidmap (Debian: uidmap, Fedora: shadow-utils)"}
	}
	args := append([]string{strconv.Itoa(pid)}, idMapping(own, ranges)...)
	// It asks who the user is, which a directory service may not answer.
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return &Fault{Tried: "map the user ids of a container", On: "with " + tool, Why: fmt.Errorf("it did not end in time: %w", context.Cause(ctx)),
			Do: "see whether `getent passwd $(id -u)` answers"}
	}
	if err != nil {
		return &Fault{Tried: "map the user ids of a container", On: "with " + tool, Why: fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))}
	}
	return nil
}
