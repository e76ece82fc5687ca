package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/tasks/record"
)

// TestAThousandRowsTakeTheMemoryOfTheirLines: no more than a few records and the
// lines of all rows take (design: Speed). How long it takes is what make bench says.
func TestAThousandRowsTakeTheMemoryOfTheirLines(t *testing.T) {
	run := manyRecords(t, 1000)
	few := manyRecords(t, 100)
	for _, args := range [][]string{{"aggregate"}, {"report", "-o", filepath.Join(t.TempDir(), record.RunPage)}, {"report", "-f", formatJUnit}} {
		kib, less := memoryOf(t, append(args, run)...), memoryOf(t, append(args, few)...)
		t.Logf("%s: %d KiB; of a tenth of the rows %d KiB", strings.Join(args, " "), kib, less)
		// 900 rows more, whose lines have some 2.5 KiB, and whose records 20: to hold
		// those would be 36 MiB.
		if kib-less > 14<<10 {
			t.Errorf("%s took %d KiB, and of a tenth of the rows %d KiB", args[0], kib, less)
		}
	}
}

// manyRecords is a run of rows whose records hold some 20 KiB each.
func manyRecords(t *testing.T, rows int) string {
	t.Helper()
	run := filepath.Join(t.TempDir(), "run")
	printed := strings.Repeat("output of the agent\n", 1000)
	for i := range rows {
		id := record.Identity{VariantID: "default", TaskID: fmt.Sprintf("task-%04d", i)}
		start := time.Date(2026, 9, 18, 10, 0, i, 0, time.Local)
		made, err := record.New(record.Execution{
			TaskID: id.TaskID, AgentType: "command", Started: start, Completed: start.Add(time.Second), Duration: time.Second,
			Status: record.Timeout, Iterations: 1, ErrorMessage: "the task timed out",
			Turns: []record.Turn{{Iteration: 1, UserInput: "Do it.", AgentOutput: printed, Timestamp: record.TimeOf(start)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(run, filepath.FromSlash(id.String()))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, record.TaskFile), made.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// measures runs a program, drops what it prints, and prints its memory in KiB. A
// program that the test itself starts counts the test's memory as its own: the kernel
// takes over the largest of before exec.
const measures = `import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)`

// memoryOf runs the built program, and is the KiB that it took. How much the
// collector of garbage lets lie, as it does on a busy host, is no part of that: it
// collects often, and nothing goes on beside it.
func memoryOf(t *testing.T, args ...string) (kib int64) {
	t.Helper()
	cmd := exec.Command("python3", append([]string{"-c", measures, filepath.Join(buildDir(t), "bin", "podgrade")}, args...)...)
	cmd.Env = append(os.Environ(), "GOGC=25", "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	if _, err := fmt.Sscan(string(out), &kib); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return kib
}
