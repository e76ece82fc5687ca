package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/tasks/record"
)

// writing is a criterion that changes its view of the workspace in every way,
// also in ones that are to harm whoever keeps that.
const writing = `success_criteria:
  - type: run_command
    description: it writes
    command: |
      set -e
      echo built >out.o && chmod 755 out.o
      echo more >>made
      rm doomed
      mkdir -p new/deep && echo x >new/deep/file
      printf '#!/bin/sh\n' >"$(printf 'a\nline')"
      mkfifo pipe
      ln -s /etc/passwd link
      ln -s ../../../../../../../../etc out
      mkdir closed && echo c >closed/file && chmod 000 closed
      : >"$(printf 'not\377text')"
      dd if=/dev/zero of=large bs=1M count=2 2>/dev/null
      dd if=/dev/zero of=huge bs=1 count=0 seek=1099511627776 2>/dev/null
`

// changed is an entry of the index, as far as tests look at it.
type changed struct {
	Path, What, Type, Mode, Target, File, SHA256 string
	Size, Kept                                   int64
}

func (s *scene) changes(index string) []changed {
	s.t.Helper()
	var list []changed
	if err := json.Unmarshal([]byte(s.text(index)), &list); err != nil {
		s.t.Fatal(err)
	}
	return list
}

func of(list []changed, path string) changed {
	at := slices.IndexFunc(list, func(c changed) bool { return c.Path == path })
	if at < 0 {
		return changed{}
	}
	return list[at]
}

// cellFacts is what cell.grade.json says of the changes.
func (s *scene) cellFacts() (facts struct {
	Changes struct {
		Created, Modified, Deleted, Kept int
		Index                            string `json:"index_sha256"`
		Problem                          string
	} `json:"workspace_changes"`
}) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.text(row+"/"+record.GradeCellFile)), &facts); err != nil {
		s.t.Fatal(err)
	}
	return facts
}

// archived are the files of an archive.
func archived(t *testing.T, text string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for in := tar.NewReader(strings.NewReader(text)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil || h.Typeflag != tar.TypeReg {
			t.Fatalf("%v %v", h, err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(content)
	}
}

// TestScenarioWrites: what criteria change in the workspace is kept beside the
// verdict, whatever view they had, and nothing of it reaches the workspace or
// leads anywhere.
func TestScenarioWrites(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]string{
		"a copy":             {"--engine", "bundle", "--workspace-view", "copy"},
		"an overlay":         {"--engine", "bundle", "--workspace-view", "overlay"},
		"the Podman engine":  {"--engine", "podman"},
		"graded on the host": {"--allow-host-grading"},
	} {
		t.Run(name, func(t *testing.T) {
			s := executed(t, "cat >made; echo d >doomed; mkdir sub; echo y >sub/y", writing)
			before := s.modes(row + "/artifacts")
			s.podgrade(0, slices.Concat([]string{"evaluate", row, trusting, "--keep-writes", "../kept"}, options)...)
			s.is(row, "SUCCESS", 1)
			if after := s.modes(row + "/artifacts"); after != before {
				t.Errorf("the workspace was\n%s\nand is\n%s", before, after)
			}
			list := s.changes(row + "/" + record.GradeChanges + "/index.json")
			for path, want := range map[string]string{
				"out.o": "created file 0755", "made": "modified file 0644", "doomed": "deleted file 0644",
				"new/deep/file": "created file 0644", "a\nline": "created file 0644", "pipe": "created other 0644",
				"link": "created link 0777", "closed": "created directory 0000", "closed/file": "created file 0644",
				"not\uFFFDtext": "created file 0644", "large": "created file 0644", "huge": "created file 0644",
			} {
				c := of(list, path)
				if got := fmt.Sprintf("%s %s %s", c.What, c.Type, c.Mode); got != want {
					t.Errorf("%q: %s, want %s", path, got, want)
				}
			}
			facts := s.cellFacts().Changes
			if facts.Created != 13 || facts.Modified != 1 || facts.Deleted != 1 || len(list) != 15 || facts.Problem != "" {
				t.Errorf("%+v, and %d listed", facts, len(list))
			}
			sum := sha256.Sum256([]byte(s.text(row + "/" + record.GradeChanges + "/index.json")))
			if facts.Index != hex.EncodeToString(sum[:]) {
				t.Errorf("the digest of the index is %x, and the record says %s", sum, facts.Index)
			}
			files := archived(t, s.text(row+"/"+record.GradeChanges+"/files.tar"))
			if files["out.o"] != "built\n" || files["made"] != "pmore\n" || files["closed/file"] != "c\n" || len(files) != facts.Kept || facts.Kept != 6 {
				t.Errorf("kept %d: %q", facts.Kept, files)
			}
			if c := of(list, "large"); c.File != "" || c.Size != 2<<20 {
				t.Errorf("a file above the bound of the row: %+v", c)
			}
			s.keptWrites("../kept/" + sceneRow)
			_, said := s.podgrade(2, "evaluate", row, trusting, "--keep-writes", "../kept")
			if !strings.Contains(said, "not empty") {
				t.Errorf("what was kept would be written over: %s", said)
			}
		})
	}
}

// keptWrites checks a row of --keep-writes.
func (s *scene) keptWrites(dir string) {
	s.t.Helper()
	list := s.changes(dir + "/index.json")
	if c := of(list, "large"); c.Kept != 2<<20 || c.File != "files/large" {
		s.t.Errorf("%+v", c)
	}
	if c := of(list, "huge"); c.File != "" || c.Size != 1<<40 {
		s.t.Errorf("a terabyte: %+v", c)
	}
	if text := s.text(dir + "/files/a\nline"); text != "#!/bin/sh\n" {
		s.t.Errorf("%q", text)
	}
	if info, err := os.Stat(s.path(dir + "/files/out.o")); err != nil || info.Mode().Perm() != 0o755 {
		s.t.Errorf("%v %v", info, err)
	}
	filepath.WalkDir(s.path(dir), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			s.t.Errorf("%s: %v %v", path, entry, err)
		}
		return nil
	})
}

// TestScenarioWritesElsewhere: the view bind tells nothing, a check keeps only
// what it is asked to, and what a record is called leads nowhere.
func TestScenarioWritesElsewhere(t *testing.T) {
	const criteria = `success_criteria:
  - {type: run_command, command: "echo x >written", description: it writes}
`
	s := executed(t, "cat >made", criteria)
	index := row + "/" + record.GradeChanges + "/index.json"
	s.podgrade(0, "evaluate", row, trusting)
	first := s.text(index)
	before := s.text(rowRecord)
	s.podgrade(0, "evaluate", row, trusting, "--check", "--keep-writes", "../kept")
	if text := s.text("../kept/" + sceneRow + "/files/written"); text != "x\n" {
		t.Errorf("%q", text)
	}
	if s.text(index) != first || s.text(rowRecord) != before {
		t.Error("a check wrote to the row")
	}
	for _, at := range []string{row + "/artifacts/t/kept", "kept"} { // in the evidence, and beside the task file
		s.podgrade(2, "evaluate", row, trusting, "--keep-writes", at)
		if _, err := os.Lstat(s.path(at)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", at, err)
		}
	}
	s.podgrade(2, "evaluate", row, trusting, "--workspace-view", "bind", "--keep-writes", "other")
	s.podgrade(0, "evaluate", row, trusting, "--workspace-view", "bind")
	if facts := s.cellFacts().Changes; !strings.Contains(facts.Problem, "the workspace itself") || facts.Created != 0 {
		t.Errorf("%+v", facts)
	}
	if _, err := os.Lstat(s.path(row + "/" + record.GradeChanges)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what an earlier grade kept is there still: %v", err)
	}
	if !bytes.Contains([]byte(s.text(row+"/artifacts/t/written")), []byte("x")) {
		t.Error("under bind the workspace is written to")
	}
}

// TestScenarioWritesInTheImage: the workspace of a working_dir is in the cell's
// own root, on the state layer or laid over the image.
func TestScenarioWritesInTheImage(t *testing.T) {
	t.Parallel()
	for _, engine := range bothEngines {
		t.Run(engine, func(t *testing.T) {
			s := newScene(t)
			task := sceneTask(t, "mkdir -p node_modules && echo n >node_modules/n; echo o >old; cat >made", `success_criteria:
  - {type: run_command, command: "echo x >written; rm old; echo more >>made; mkdir -p node_modules; echo n >node_modules/other; pwd", expected_stdout: /opt/w, description: it writes}
`)
			s.write("task.yaml", strings.Replace(task, "network: none", "network: none, working_dir: /opt/w", 1))
			s.podgrade(0, "execute", "task.yaml", "--run-dir", "r", "--engine", engine)
			for _, view := range []string{isolation.ViewState, isolation.ViewCapture} {
				if view == isolation.ViewCapture {
					if err := os.Remove(s.path(row + "/" + record.ExecuteEnvelope)); err != nil { // which vouches for the layer
						t.Fatal(err)
					}
					s.edit(rowRecord, `"podgrade_state": "kept"`, `"podgrade_state": "dropped"`)
					s.edit(rowRecord, `"podgrade_state_diff_id": "sha256:`, `"no_diff_id": "sha256:`)
				}
				s.podgrade(0, "evaluate", row, trusting, "--engine", engine)
				if got := s.read(row, record.TaskFile).Info[record.WorkspaceView]; got != view {
					t.Errorf("the view is %v, not %s", got, view)
				}
				var got []string
				for _, c := range s.changes(row + "/" + record.GradeChanges + "/index.json") {
					got = append(got, c.What+" "+c.Path)
				}
				if want := "modified made, deleted old, created written"; strings.Join(got, ", ") != want {
					t.Errorf("%s: %q, want %s", view, got, want)
				}
			}
		})
	}
}
