package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func newRow(t *testing.T) (string, *Row) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "default", "add-footer", "07")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	row, err := OpenRow(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { row.Close() })
	return dir, row
}

func TestRowReplicate(t *testing.T) {
	if _, row := newRow(t); row.Replicate() != 7 {
		t.Errorf("replicate %d", row.Replicate())
	}
	for name, want := range map[string]int{"00": 0, "123": 123, "x": 0, "-1": 0, "99999999999999999999": 0} {
		if got := (&Row{Dir: "/run/" + name}).Replicate(); got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestReadRefusesWhatIsNoPlainFile(t *testing.T) {
	data, _ := minimal(t)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, data, 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		make func(path string) error
	}{
		{"link out", func(p string) error { return os.Symlink(victim, p) }},
		{"link inside", func(p string) error { return os.Symlink("other.json", p) }},
		{"named pipe", func(p string) error { return syscall.Mkfifo(p, 0o644) }},
		{"directory", func(p string) error { return os.Mkdir(p, 0o755) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir, row := newRow(t)
			if err := os.WriteFile(filepath.Join(dir, "other.json"), data, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := test.make(filepath.Join(dir, TaskFile)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := row.Read(); !errors.Is(err, ErrNotPlain) {
				t.Errorf("read: %v", err)
			}
			if err := row.Write(TaskFile, []byte("{}")); !errors.Is(err, ErrNotPlain) {
				t.Errorf("write: %v", err)
			}
		})
	}
	if now, _ := os.ReadFile(victim); string(now) != string(data) {
		t.Error("a file outside of the row was changed")
	}
}

func TestReadNothing(t *testing.T) {
	_, row := newRow(t)
	if _, _, err := row.Read(); !errors.Is(err, ErrNoRecord) {
		t.Errorf("no record: %v", err)
	}
}

func TestReadRefusesTooMuch(t *testing.T) {
	dir, row := newRow(t)
	file, err := os.Create(filepath.Join(dir, TaskFile))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(MaxRecord + 1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := row.Read(); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("read: %v", err)
	}
}

func TestWriteReplacesWhole(t *testing.T) {
	dir, row := newRow(t)
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	// A leftover of a crash, and a trap under a name that could be ours.
	os.WriteFile(filepath.Join(dir, TaskFile+".tmp"), []byte("litter"), 0o600)
	os.Symlink("/etc/passwd", filepath.Join(dir, TaskFile+".1.tmp"))
	for _, text := range []string{"first", "second"} {
		if err := row.Write(TaskFile, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, TaskFile))
		if err != nil || string(got) != text {
			t.Errorf("got %q, %v", got, err)
		}
	}
	info, _ := os.Stat(filepath.Join(dir, TaskFile))
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 {
		t.Errorf("%d entries are left", len(entries))
	}
}

// TestAPrivateRecordStaysPrivate: a grade must not show a record, or what tells
// of it, to those who could not read it.
func TestAPrivateRecordStaysPrivate(t *testing.T) {
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	for _, mode := range []os.FileMode{0o600, 0o640, 0o644, 0o664} {
		dir, row := newRow(t)
		path := filepath.Join(dir, TaskFile)
		if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(row.Write(TaskFile, []byte("new")), row.KeepExecuted([]byte("old")), row.Write(GradeCellFile, nil)); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]os.FileMode{TaskFile: mode, ExecuteFile: mode & 0o644, GradeCellFile: mode & 0o644} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != want {
				t.Errorf("record of mode %v: %s has %v", mode, name, info.Mode().Perm())
			}
		}
	}
}

// TestLockFollowsTheName: who waited for a file that was replaced meanwhile
// must not hold the lock of a file that nobody sees any more.
func TestLockFollowsTheName(t *testing.T) {
	_, row := newRow(t)
	if err := row.Write(TaskFile, []byte("0")); err != nil {
		t.Fatal(err)
	}
	const n = 8
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			unlock, err := row.Lock()
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			data, err := readPlain(row.root, TaskFile, 100)
			if err != nil {
				t.Error(err)
				return
			}
			count, _ := strconv.Atoi(string(data))
			time.Sleep(5 * time.Millisecond)
			if err := row.Write(TaskFile, []byte(strconv.Itoa(count+1))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if data, _ := readPlain(row.root, TaskFile, 100); string(data) != strconv.Itoa(n) {
		t.Errorf("%s of %d writes were kept", data, n)
	}
}

func TestLockTakesNoLinks(t *testing.T) {
	dir, row := newRow(t)
	os.Symlink("elsewhere", filepath.Join(dir, TaskFile))
	if _, err := row.Lock(); !errors.Is(err, ErrNotPlain) {
		t.Errorf("%v", err)
	}
}

func TestDraftDropLeavesNothing(t *testing.T) {
	dir, row := newRow(t)
	draft, err := row.Draft(GradeLog)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(draft, "half")
	draft.Drop()
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
}

func TestKeepExecutedOnce(t *testing.T) {
	dir, row := newRow(t)
	for _, text := range []string{"ungraded", "graded"} {
		if err := row.KeepExecuted([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(dir, ExecuteFile)); string(got) != "ungraded" {
		t.Errorf("kept %q", got)
	}
	os.Remove(filepath.Join(dir, ExecuteFile))
	os.Symlink("elsewhere", filepath.Join(dir, ExecuteFile))
	if err := row.KeepExecuted([]byte("x")); !errors.Is(err, ErrNotPlain) {
		t.Errorf("through a link: %v", err)
	}
}

// The record that is replaced keeps its bytes under the second name, without a
// write. What is not what the grade has read is written.
func TestKeepExecutedIsASecondNameOfTheRecord(t *testing.T) {
	for _, before := range []string{"ungraded", "as it was read"} {
		dir, row := newRow(t)
		if err := row.Write(TaskFile, []byte("ungraded")); err != nil {
			t.Fatal(err)
		}
		record, err := os.Stat(filepath.Join(dir, TaskFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(row.KeepExecuted([]byte(before)), row.Write(TaskFile, []byte("graded"))); err != nil {
			t.Fatal(err)
		}
		kept, err := os.Stat(filepath.Join(dir, ExecuteFile))
		if err != nil || os.SameFile(kept, record) != (before == "ungraded") {
			t.Errorf("%q: the same file: %v, %v", before, os.SameFile(kept, record), err)
		}
		for name, want := range map[string]string{ExecuteFile: before, TaskFile: "graded"} {
			if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
				t.Errorf("%s holds %q, want %q", name, got, want)
			}
		}
	}
}

// Another program may have left the record without waiting for the disk: before it is
// replaced, its bytes are there.
func TestKeptRecordIsOnTheDisk(t *testing.T) {
	dir, row := newRow(t)
	if err := os.WriteFile(filepath.Join(dir, TaskFile), []byte("ungraded"), 0o644); err != nil {
		t.Fatal(err)
	}
	var synced []string
	before := fsync
	fsync = func(file *os.File) error {
		synced = append(synced, filepath.Base(file.Name()))
		return before(file)
	}
	defer func() { fsync = before }()
	if err := row.KeepExecuted([]byte("ungraded")); err != nil {
		t.Fatal(err)
	}
	if len(synced) != 1 || synced[0] != ExecuteFile {
		t.Errorf("on the disk: %v", synced)
	}
}

// A name that was put is there at once, and its draft is not.
func TestPutLeavesNoDraft(t *testing.T) {
	dir, row := newRow(t)
	for _, name := range []string{GradeCellFile, GradeEnvelope} {
		draft, err := row.Prepare(name, []byte(name))
		if err == nil {
			err = draft.Put()
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != name {
			t.Errorf("%s holds %q", name, got)
		}
	}
	if err := row.Sync(); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("left: %v", entries)
	}
}

func runDir(t *testing.T, rows string) (run, row string) {
	t.Helper()
	run = t.TempDir()
	row = filepath.Join(run, "default", "add-footer", "00")
	if err := os.MkdirAll(row, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "{\n  \"run_id\": \"r\",\n  \"tasks_run\": 9,\n  \"task_results\": [\n    " + rows + "\n  ],\n  \"other\": NaN\n}"
	if err := os.WriteFile(filepath.Join(run, RunFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return run, row
}

const twoRows = `{
      "task_id": "add-footer",
      "replicate_index": 0,
      "status": "NOT_GRADED",
      "weighted_score": null,
      "graded_on_host": true,
      "tags": ["a"]
    },
    {"task_id":"other","variant_id":"default","replicate_index":0,"status":"TIMEOUT","weighted_score":null}`

func TestRefreshRun(t *testing.T) {
	run, rowDir := runDir(t, twoRows)
	// A summary of another program, nearer to the row, does not count.
	os.WriteFile(filepath.Join(filepath.Dir(rowDir), RunFile), []byte(`{"mine":1}`), 0o644)
	owner, err := OwningRun(rowDir)
	if err != nil || owner != run {
		t.Fatalf("owner %q, %v", owner, err)
	}
	_, r := minimal(t)
	score := 1.0
	r.Status, r.Score = Success, &score
	ClearGradeStamps(r.Environment)
	r.Environment.Set(GradedWithUnpinnedImage, "byod:1")
	if err := RefreshRun(run, UpdateOf(Identity{"default", "add-footer", 0}, r)); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(filepath.Join(run, RunFile))
	got, err := ParseObject(data)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		runTasks: "2", runSucceeded: "1", runFailed: "1", runErrored: "0", runUngraded: "0",
		runMeasured: "1", runGraded: "2", runPassRate: "0.5", runErrorShare: "0.0", "other": "NaN",
	} {
		if string(got.Value(name)) != want {
			t.Errorf("%s: %s, want %s", name, got.Value(name), want)
		}
	}
	rows, _ := got.Value(runRows).Elements()
	first, _ := rows[0].Object()
	if names := strings.Join(first.Names(), " "); names != "task_id replicate_index status weighted_score tags "+GradedWithUnpinnedImage {
		t.Errorf("row: %s", names)
	}
	if !strings.Contains(string(data), `{"task_id":"other","variant_id":"default","replicate_index":0,"status":"TIMEOUT","weighted_score":null}`) {
		t.Error("a row that was not touched was changed")
	}
}

func TestRefreshRunRatesOfUngradedRuns(t *testing.T) {
	t.Run("D-24: a run without a verdict has no rate", func(t *testing.T) {
		run, _ := runDir(t, twoRows)
		_, r := minimal(t)
		if err := RefreshRun(run, UpdateOf(Identity{"default", "add-footer", 0}, r)); err != nil {
			t.Fatal(err)
		}
		data, _ := os.ReadFile(filepath.Join(run, RunFile))
		got, _ := ParseObject(data)
		if !got.Value(runPassRate).IsNull() || string(got.Value(runUngraded)) != "1" {
			t.Errorf("pass_rate %s, ungraded %s", got.Value(runPassRate), got.Value(runUngraded))
		}
	})
}

func TestRefreshRunRefuses(t *testing.T) {
	run, row := runDir(t, twoRows)
	_, r := minimal(t)
	before, _ := os.ReadFile(filepath.Join(run, RunFile))
	if err := RefreshRun(run, UpdateOf(Identity{"default", "add-footer", 1}, r)); !errors.Is(err, ErrNotListed) {
		t.Errorf("another replicate: %v", err)
	}
	if now, _ := os.ReadFile(filepath.Join(run, RunFile)); string(now) != string(before) {
		t.Error("the summary was changed")
	}
	os.Rename(filepath.Join(run, RunFile), filepath.Join(run, "kept"))
	os.Symlink("kept", filepath.Join(run, RunFile))
	if err := RefreshRun(run, UpdateOf(Identity{"default", "add-footer", 0}, r)); !errors.Is(err, ErrNotPlain) {
		t.Errorf("through a link: %v", err)
	}
	if _, err := OwningRun(row); !errors.Is(err, ErrNoRun) || !errors.Is(err, ErrNotPlain) || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("owner through a link: %v", err)
	}
	os.Remove(filepath.Join(run, RunFile))
	if _, err := OwningRun(row); err != ErrNoRun {
		t.Errorf("no owner: %v", err)
	}
}

func TestRefreshRunTogether(t *testing.T) {
	const n = 8
	var rows []string
	for i := range n {
		rows = append(rows, fmt.Sprintf(`{"task_id":"t%d","replicate_index":0,"status":"NOT_GRADED","weighted_score":null}`, i))
	}
	run, _ := runDir(t, strings.Join(rows, ",\n    "))
	var wg sync.WaitGroup
	for i := range n {
		_, r := minimal(t)
		r.Status = Success
		wg.Go(func() {
			if err := RefreshRun(run, UpdateOf(Identity{"default", fmt.Sprintf("t%d", i), 0}, r)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	data, _ := os.ReadFile(filepath.Join(run, RunFile))
	got, _ := ParseObject(data)
	if string(got.Value(runSucceeded)) != fmt.Sprint(n) {
		t.Errorf("%s of %d rows were kept", got.Value(runSucceeded), n)
	}
}
