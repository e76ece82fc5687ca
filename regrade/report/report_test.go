package report

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"podgrade/tasks/record"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file, or writes it under -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

// hostile is a string that every format has to defuse.
const hostile = "</failure><script>alert(1)</script> ]]> & \"q\" 'a' | ``` \x1b[31mred \u202egnp.exe \x00 \ufffe [x](http://e) <b>\n\r# head"

type row struct {
	variant, task string
	replicate     int
	status        record.Status
	score         string
	message       string
	suite         string
	criteria      string
}

// quoted is a string of JSON.
func quoted(s string) string { return string(record.Encode(s)) }

func (r row) text() string {
	return fmt.Sprintf(`{"task_id": %s, "variant_id": %s, "task_description": %s, "agent_type": "none", "iteration_count": 1,
"started_at": "2026-09-18T10:00:01", "duration_seconds": 2.5, "final_status": %q, "weighted_score": %s, "error_message": %s,
"success_criteria_results": [%s], "model_used": %s,
"iterations": [{"user_input": %s, "agent_output": %s, "commands": [{"tool_name": %s, "result_status": "success", "parameters": {"a": %s}, "result_summary": %s}]}],
"environment_info": {"limits_not_enforced": ["memory", %s], "note": %s},
"task_config": {"resolved": {"suite_id": %s, "row_id": "1", "success_criteria": [{"type": "file_exists", "description": "d", "suite_thresholds": {"mean": 0.9}}]}}}`,
		quoted(r.task), quoted(r.variant), quoted(r.message), r.status, r.score, quoted(r.message), r.criteria, quoted(r.message),
		quoted(r.message), quoted(r.message), quoted(r.message), quoted(r.message), quoted(r.message), quoted(r.message), quoted(r.message), quoted(r.suite))
}

// runOf writes a run directory with the rows and all its reports.
func runOf(t *testing.T, skipped []record.Skipped, rows ...row) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "2026-09-18_10-00-00")
	os.Mkdir(dir, 0o755)
	start := time.Date(2026, 9, 18, 10, 0, 0, 0, time.Local)
	s := &record.Summary{RunID: filepath.Base(dir), Start: start, End: start.Add(time.Minute + 7*time.Nanosecond), Framework: "0.1.0", Skipped: skipped}
	for _, r := range rows {
		parsed, err := record.Parse([]byte(r.text()))
		if err != nil {
			t.Fatal(err)
		}
		id := record.Identity{VariantID: r.variant, TaskID: r.task, Replicate: r.replicate}
		made, err := record.Create(dir, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := made.Write(record.TaskFile, []byte(r.text())); err != nil {
			t.Fatal(err)
		}
		made.Close()
		s.Rows = append(s.Rows, record.NewSummaryRow(parsed, r.replicate, "tasks/"+strings.ReplaceAll(r.task, "/", "_")+".yaml"))
	}
	if err := Write(dir, s, About{Description: "Two variants."}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func criterion(score float64, description, details string) string {
	return fmt.Sprintf(`{"criterion_type": "file_exists", "description": %s, "score": %v, "details": %s, "error": null, "gating": true, "pass_threshold": 0.9}`,
		quoted(description), score, quoted(details))
}

func plainRun(t *testing.T) string {
	return runOf(t, []record.Skipped{{Path: "tasks/old.yaml", Reason: "skip: true"}},
		row{"base", "a", 0, record.Success, "1.0", "", "", criterion(1, "It is there", "found")},
		row{"base", "a", 1, record.Failure, "0.5", "", "", criterion(0, "It is there", "no such file") + "," + criterion(1, "So is that", "")},
		row{"base", "s/1", 0, record.Failure, "0.0", "", "s", criterion(0, "d", "no such file")},
		row{"new", "a", 0, record.Error, "null", "the cell could not start", "", ""},
		row{"new", "b", 0, record.NotGraded, "null", "", "", ""})
}

func TestPages(t *testing.T) {
	dir := plainRun(t)
	for name, path := range map[string]string{
		"run.md": "run.md", "variant.md": "base/variant.md", "experiment.md": "experiment.md", "suite.md": "base/s/suite.md",
	} {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/"+name, text)
	}
	for _, path := range []string{"run.json", "base/variant.json", "new/variant.json", "experiment.json", "base/s/suite.json"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Error(err)
		}
	}
}

func TestAnExecuteHasNoSuites(t *testing.T) {
	dir := plainRun(t)
	s, _, err := record.Rebuild(dir)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := Write(to, s, About{Ungraded: true}); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(to, "*", "*", record.SuiteFile)); len(found) > 0 {
		t.Errorf("made %q", found)
	}
}

// TestARebuildOfAWholeRunChangesNothing: the rows on the disk are those of the
// summary, so that the two ways to make it agree.
func TestARebuildOfAWholeRunChangesNothing(t *testing.T) {
	for _, dir := range []string{plainRun(t), hostileRun(t)} {
		var before [2][]byte
		for i, name := range []string{record.RunFile, record.RunPage} {
			before[i], _ = os.ReadFile(filepath.Join(dir, name))
		}
		s, dropped, err := record.Rebuild(dir)
		if err != nil || len(dropped) > 0 {
			t.Fatalf("%v, %v", dropped, err)
		}
		if err := WriteRun(dir, s); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{record.RunFile, record.RunPage} {
			after, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !bytes.Equal(after, before[i]) {
				t.Errorf("%s: %v, changed to\n%s", name, err, after)
			}
		}
	}
}

// TestARunWithoutRowsIsReported: all of its task files were skipped.
func TestARunWithoutRowsIsReported(t *testing.T) {
	dir := runOf(t, []record.Skipped{{Path: "a.yaml", Reason: "skip: true"}})
	for _, name := range []string{record.RunFile, record.RunPage, record.ExperimentFile, record.ExperimentPage} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if err := JUnit(io.Discard, dir); err != nil {
		t.Error(err)
	}
}

// TestALongMessageSaysWhereAllOfItIs: a summary cuts it, the page does not cut it
// once more.
func TestALongMessageSaysWhereAllOfItIs(t *testing.T) {
	long := strings.Repeat("why ", 99) + "at its end"
	for message, says := range map[string]bool{long: true, long[:390]: false} {
		dir := runOf(t, nil, row{"base", "a", 0, record.Error, "null", message, "", ""})
		text, err := os.ReadFile(filepath.Join(dir, record.RunPage))
		if err != nil {
			t.Fatal(err)
		}
		shown := strings.TrimSuffix(message, "at its end")
		if !strings.Contains(string(text), shown) || strings.Contains(string(text), "all of it in the row's ` task.log `") != says {
			t.Errorf("of %d characters:\n%s", len(message), text)
		}
	}
}

func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	if err := JUnit(&b, plainRun(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/junit.xml", b.Bytes())
	countsAgree(t, b.Bytes())
}

// A row whose grade failed, and rows that a run did not come to, are no success to who
// reads only this.
func TestJUnitOfWhatIsNotWhole(t *testing.T) {
	dir := runOf(t, nil, row{"base", "a", 0, record.NotGraded, "null", "", "", ""}, row{"base", "b", 0, record.NotGraded, "null", "its grade failed", "", ""})
	s, err := record.ReadSummary(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Environment = record.NewObject()
	s.Environment.Set(record.RowsNotRun, 2)
	if err := Write(dir, s, About{}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := JUnit(&b, dir); err != nil {
		t.Fatal(err)
	}
	countsAgree(t, b.Bytes())
	for _, words := range []string{`tests="3" failures="0" errors="2" skipped="1"`, `<error message="executed, not graded: its grade failed">`, `<error message="2 more rows of the run were not run">`} {
		if !strings.Contains(b.String(), words) {
			t.Errorf("%s is not in:\n%s", words, b.String())
		}
	}
	if page := string(RunPage(s)); !strings.Contains(page, "| more rows, not run | 2 |") {
		t.Error(page)
	}
}

// countsAgree compares the counts of each suite with its cases.
func countsAgree(t *testing.T, text []byte) {
	t.Helper()
	var suites struct {
		Tests  int `xml:"tests,attr"`
		Suites []struct {
			Name                             string `xml:"name,attr"`
			Tests, Failures, Errors, Skipped int
			Attrs                            []xml.Attr `xml:",any,attr"`
			Cases                            []struct {
				Failure, Error, Skipped *struct{}
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(lowered(text), &suites); err != nil {
		t.Fatal(err)
	}
	all := 0
	for _, suite := range suites.Suites {
		got := map[string]int{"tests": len(suite.Cases)}
		for _, c := range suite.Cases {
			if c.Failure != nil {
				got["failures"]++
			}
			if c.Error != nil {
				got["errors"]++
			}
			if c.Skipped != nil {
				got["skipped"]++
			}
		}
		for _, attr := range suite.Attrs {
			if n, counted := got[attr.Name.Local]; counted && attr.Value != fmt.Sprint(n) {
				t.Errorf("suite %s says %s=%s, and has %d", suite.Name, attr.Name.Local, attr.Value, n)
			}
		}
		all += len(suite.Cases)
	}
	if all != suites.Tests || all == 0 {
		t.Errorf("%d cases, the root says %d", all, suites.Tests)
	}
}

// lowered makes the elements' names those of the struct fields.
func lowered(text []byte) []byte {
	return regexp.MustCompile(`<(/?)(failure|error|skipped)\b`).ReplaceAllFunc(text, func(m []byte) []byte {
		name := bytes.TrimLeft(m, "</")
		return bytes.Replace(m, name, append(bytes.ToUpper(name[:1]), name[1:]...), 1)
	})
}

// hostileRun is one whose every string tries to be more than text.
func hostileRun(t *testing.T) string {
	name := strings.NewReplacer("/", "", "\x00", "").Replace(hostile)
	return runOf(t, []record.Skipped{{Path: hostile, Reason: hostile}},
		row{name, name, 0, record.Failure, "0.5", hostile, "", criterion(0, hostile, hostile)},
		row{name, "t", 0, record.Error, "null", hostile, "", ""})
}

func TestNoStringOfARecordBecomesMarkup(t *testing.T) {
	dir := hostileRun(t)
	s, err := record.ReadSummary(dir)
	if err != nil {
		t.Fatal(err)
	}
	var junit, html bytes.Buffer
	if err := JUnit(&junit, dir); err != nil {
		t.Fatal(err)
	}
	countsAgree(t, junit.Bytes())
	dirs, err := record.RowDirs(dir)
	if err != nil || len(dirs) != 2 {
		t.Fatalf("%q, %v", dirs, err)
	}
	for _, each := range dirs {
		opened, err := record.OpenRowDir(dir, each)
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := opened.Read()
		if err != nil {
			t.Fatal(err)
		}
		if err := RowPage(&html, r, record.Identity{VariantID: r.VariantID, TaskID: r.TaskID}); err != nil {
			t.Fatal(err)
		}
		opened.Close()
	}
	for name, text := range map[string]string{
		"run.md": string(RunPage(s)), "experiment.md": string(ExperimentPage(s.Experiment(hostile, hostile))),
		"junit": junit.String(), "html": html.String(),
	} {
		for _, r := range text {
			if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == '\u202e' || r == '\ufffe' || r == '\ufffd' {
				t.Errorf("%s holds the character %U", name, r)
			}
		}
		if name != "run.md" && name != "experiment.md" {
			if strings.Contains(text, "<script") || strings.Contains(text, "<b>") {
				t.Errorf("%s holds markup of the record", name)
			}
			continue
		}
		outsideOfCode(t, name, text)
	}
}

// outsideOfCode takes the code spans away as a reader of Markdown does, and
// looks whether something of the record is left.
func outsideOfCode(t *testing.T, name, text string) {
	t.Helper()
	for _, line := range strings.Split(text, "\n") {
		for {
			open := regexp.MustCompile("`+").FindStringIndex(line)
			if open == nil {
				break
			}
			fence := line[open[0]:open[1]]
			closing := -1
			for _, run := range regexp.MustCompile("`+").FindAllStringIndex(line[open[1]:], -1) {
				if run[1]-run[0] == len(fence) {
					closing = open[1] + run[1]
					break
				}
			}
			if closing < 0 {
				t.Errorf("%s: a code span is not closed: %s", name, line)
				break
			}
			line = line[:open[0]] + line[closing:]
		}
		if strings.ContainsAny(line, "<[&\\") || strings.Contains(line, "alert") {
			t.Errorf("%s: outside of code: %s", name, line)
		}
	}
}

func TestARowPageShowsTheRow(t *testing.T) {
	dir := plainRun(t)
	opened, err := record.OpenBelow(dir, record.Identity{VariantID: "base", TaskID: "a", Replicate: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	r, _, err := opened.Read()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := RowPage(&b, r, record.Identity{VariantID: "base", TaskID: "a", Replicate: 1}); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/row.html", b.Bytes())
}

// TestJUnitReadsNoRecordElsewhere: a row's id is a path that a stranger wrote.
func TestJUnitReadsNoRecordElsewhere(t *testing.T) {
	outside := t.TempDir()
	secret := row{"v", "x", 0, record.Failure, "0.0", "", "", criterion(0, "SECRET", "SECRET")}
	os.WriteFile(filepath.Join(outside, record.TaskFile), []byte(secret.text()), 0o644)
	dir := t.TempDir()
	os.MkdirAll(filepath.Join(dir, "v", "l"), 0o755)
	os.Symlink(outside, filepath.Join(dir, "v", "l", "00"))
	up := strings.Repeat("../", 20) + outside
	summary := fmt.Sprintf(`{"run_id": "r", "task_results": [
		{"variant_id": "v", "task_id": "l", "replicate_index": 0, "status": "FAILURE"},
		{"variant_id": "v", "task_id": %q, "replicate_index": 0, "status": "FAILURE"},
		{"variant_id": "..", "task_id": "x", "replicate_index": 0, "status": "FAILURE"},
		{"variant_id": "v", "task_id": "odd", "replicate_index": -3, "status": "WHAT", "duration": NaN}]}`, up)
	os.WriteFile(filepath.Join(dir, record.RunFile), []byte(summary), 0o644)
	var b bytes.Buffer
	if err := JUnit(&b, dir); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "SECRET") {
		t.Error("a record outside of the run was read")
	}
	if !strings.Contains(b.String(), `errors="1"`) {
		t.Errorf("an unknown status is no error:\n%s", &b)
	}
	countsAgree(t, b.Bytes())
}

func TestRefreshWritesNoNewPage(t *testing.T) {
	dir := plainRun(t)
	page := filepath.Join(dir, record.RunPage)
	os.WriteFile(page, []byte("old"), 0o644)
	if err := Refresh(dir); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(page)
	golden(t, "testdata/run.md", text)
	os.Remove(page)
	if err := Refresh(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(page); err == nil {
		t.Error("a run without the page got one")
	}
}

func FuzzMarkdown(f *testing.F) {
	f.Add(hostile)
	f.Add("a`b``")
	f.Fuzz(func(t *testing.T, s string) { outsideOfCode(t, "code", code(s)) })
}

func FuzzReports(f *testing.F) {
	f.Add([]byte(row{"v", "t", 0, record.Failure, "0.5", hostile, "s", criterion(0, hostile, hostile)}.text()))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := record.Parse(data)
		if err != nil {
			return
		}
		if err := RowPage(io.Discard, r, record.Identity{VariantID: r.VariantID, TaskID: r.TaskID}); err != nil {
			t.Fatal(err)
		}
		s := &record.Summary{Rows: []*record.SummaryRow{record.NewSummaryRow(r, 0, "")}}
		RunPage(s)
		var b bytes.Buffer
		if err := writeJUnit(&b, s, rowSuites(t.TempDir(), s)); err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
			t.Fatalf("no XML: %v\n%s", err, &b)
		}
	})
}

// BenchmarkThousandRows rebuilds and reports a run of 1,000 rows (design:
// Speed). A record has some 20 KiB, most of it what a tool printed.
func BenchmarkThousandRows(b *testing.B) {
	dir := b.TempDir()
	long := strings.Repeat("output of the agent\n", 1000)
	for i := range 1000 {
		r := row{"v", fmt.Sprintf("t%04d", i), 0, record.Failure, "0.5", "it failed", "", criterion(0, "d", "e")}
		text := strings.Replace(r.text(), `"result_summary": "it failed"`, `"result_summary": `+quoted(long), 1)
		dir := filepath.Join(dir, r.variant, r.task, "00")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, record.TaskFile), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		s, _, err := record.Rebuild(dir)
		if err != nil || len(s.Rows) != 1000 {
			b.Fatalf("%v", err)
		}
		if err := Write(dir, s, About{}); err != nil {
			b.Fatal(err)
		}
		if err := JUnit(io.Discard, dir); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(peak(b)), "peak-KiB")
	}
}

// peak is the most memory that this process ever had, in KiB.
func peak(b *testing.B) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	var kib int
	for line := range strings.Lines(string(status)) {
		fmt.Sscanf(line, "VmHWM: %d kB", &kib)
	}
	return kib
}
