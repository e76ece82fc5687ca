package isolation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"podgrade/isolation"
)

// loopVariable makes the test binary a podgrade that opens cells until it is
// killed. Its value is a looper.
const loopVariable = "PODGRADE_LOOP"

// looper says what such a podgrade does.
type looper struct {
	Options isolation.Options
	Order   isolation.Order
	LookUp  bool   // ask Podman for the image each time
	Hold    bool   // only hold the image, again and again
	Build   bool   // start Podman's service, and build
	Stay    bool   // stay in the first command
	Line    string // before staying
}

// loop runs until it is killed. It says "ready" once its first cell is open.
func loop() int {
	var l looper
	if err := json.Unmarshal([]byte(os.Getenv(loopVariable)), &l); err != nil {
		fmt.Println(err)
		return 1
	}
	for first := true; ; first = false {
		if err := l.once(context.Background(), first); err != nil {
			fmt.Println(err)
			return 1
		}
	}
}

func (l looper) once(ctx context.Context, first bool) error {
	h, err := isolation.Start(ctx, l.Options)
	if err != nil {
		return err
	}
	if l.LookUp {
		if _, err := h.Image(ctx, l.Order.Image.Pin.Reference); err != nil { // an id it may know
			return err
		}
	}
	if l.Hold {
		return l.hold(ctx, h)
	}
	if l.Build {
		if _, err := h.Import(ctx, bytes.NewReader(make([]byte, 1024)), "localhost/podgrade-test/loop:1", isolation.ImageConfig{}); err != nil {
			return err
		}
	}
	for range 3 {
		if err := l.cell(ctx, h, first); err != nil {
			return err
		}
	}
	return h.Close()
}

// hold says "ready" before it holds.
func (l looper) hold(ctx context.Context, h *isolation.Host) error {
	fmt.Println("ready")
	for {
		release, err := h.Hold(ctx, l.Order.Image)
		if err == nil {
			err = release()
		}
		if err != nil {
			return err
		}
	}
}

func (l looper) cell(ctx context.Context, h *isolation.Host, first bool) error {
	c, err := h.Open(ctx, l.Order)
	if err != nil {
		return err
	}
	if first {
		fmt.Println("ready")
	}
	line := "sleep 1000 >/dev/null 2>&1 & touch new"
	if l.Stay {
		line = l.Line + "\nsleep 1000 >/dev/null 2>&1 & sleep 1000"
	}
	if _, err := c.Run(ctx, isolation.Command{Argv: []string{"/bin/sh", "-c", line}, Env: testEnv, Dir: c.Places().Workspace, Timeout: time.Hour}); err != nil {
		return err
	}
	return c.Close()
}

// processesOf lists the processes that work for podgrades of a scratch: the
// workers and runtimes name it among their arguments, everything in a cell has
// mounts that come from there. Both can be read of any process.
func processesOf(scratch string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range files {
		arguments, _ := os.ReadFile(proc + "/cmdline")
		mounts, _ := os.ReadFile(proc + "/mountinfo")
		if bytes.Contains(arguments, []byte(scratch)) || bytes.Contains(mounts, []byte(scratch)) {
			program, _, _ := strings.Cut(string(arguments), "\x00")
			found = append(found, strings.TrimPrefix(proc, "/proc/")+" "+filepath.Base(program))
		}
	}
	return found
}

// named are the processes of a scratch that run a program, oldest first.
func named(scratch, program string) []*os.Process {
	var found []*os.Process
	for _, line := range processesOf(scratch) {
		number, name, _ := strings.Cut(line, " ")
		pid, err := strconv.Atoi(number)
		if process, findErr := os.FindProcess(pid); err == nil && findErr == nil && name == program {
			found = append(found, process)
		}
	}
	slices.SortFunc(found, func(a, b *os.Process) int { return a.Pid - b.Pid })
	return found
}
