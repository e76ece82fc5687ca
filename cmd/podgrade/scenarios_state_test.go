package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/tasks/record"
)

// What an agent leaves outside of its workspace, with the built program.

// withPodman adds the block sandbox.podman to a task.
func withPodman(task, block string) string {
	return strings.Replace(task, "sandbox: {driver", "sandbox: {podman: {"+block+"}, driver", 1)
}

// TestMassReport: pre_run links a place outside of the workspace to a file that
// the agent makes, and the criterion looks there (the shape of 3d-scan-calc).
func TestMassReport(t *testing.T) {
	t.Parallel()
	task := sceneTask(t, "echo 1 >mass_report.json", `pre_run:
  - {command: 'ln -s "$PWD/mass_report.json" /root/mass_report.json'}
success_criteria:
  - {type: run_command, command: "grep -q 1 /root/mass_report.json", description: the report is there}
`)
	s := newScene(t)
	s.write("task.yaml", task)
	s.podgrade(0, "run", "task.yaml", "--run-dir", "one")
	s.podgrade(0, "execute", "task.yaml", "--run-dir", "two")
	s.podgrade(0, "evaluate", "two/"+sceneRow, trusting)
	for _, run := range []string{"one/", "two/"} {
		if r := s.is(run+sceneRow, "SUCCESS", 1); len(r.stamps()) > 0 {
			t.Errorf("%s: stamps %v", run, r.stamps())
		}
	}
	s.write("none.yaml", withPodman(task, "state: none"))
	s.podgrade(1, "run", "none.yaml", "--run-dir", "three")
	if r := s.is("three/"+sceneRow, "FAILURE", 0); !slices.Equal(r.stamps(), []string{"graded_without_pre_run=1", "graded_without_state=1"}) {
		t.Errorf("stamps %v", r.stamps())
	}
}

// TestWhatAnAgentInstalls: execute and evaluate come to what run does, criterion
// by criterion, for all that an agent can change in its system: by both engines,
// with both users, and where the archive of a row was imported. Without the time that
// a soak has, one engine makes the cells of each user.
func TestWhatAnAgentInstalls(t *testing.T) {
	t.Parallel()
	const criteria = `success_criteria:
  - {type: run_command, command: "/usr/local/bin/busybox-mine echo works", expected_stdout: works, description: the installed program}
  - {type: run_command, command: "busybox-mine echo works", expected_stdout: works, description: found by its name}
  - {type: run_command, command: "cat /var/lib/mine/data /data/mine", expected_stdout: "lib\nvolume", description: what lies in /var/lib and in the volume}
  - {type: run_command, command: "stat -c %%n:%%u:%%g:%%a:%%y $(cat installed) | diff - owners.txt >&2 && wc -l <owners.txt", expected_stdout: "5", description: "owners, modes and times are the same"}
  - {type: run_command, command: "test ! -e /usr/lib/system.conf && ls /usr/lib/kept.conf", description: what was deleted is gone and nothing else}
  - {type: run_command, command: "%s", description: the users}
  - {type: run_command, command: "%s", description: the names of hosts}
`
	const left = "mkdir /var/lib/mine; echo lib >/var/lib/mine/data; echo volume >/data/mine; cp /bin/busybox /usr/local/bin/busybox-mine; rm /usr/lib/system.conf; "
	const noted = "echo /var/lib/mine /var/lib/mine/data /data/mine /usr/local/bin/busybox-mine /usr/lib >installed; stat -c %n:%u:%g:%a:%y $(cat installed) >owners.txt"
	soak := os.Getenv("PODGRADE_TEST_SOAK") != ""
	for _, c := range []struct{ user, engine, agent, users, hosts, replaced, imported string }{
		{"0", isolation.EngineBundle, "echo 'new:x:77:77::/:/bin/sh' >>/etc/passwd; chown new /var/lib/mine/data; echo 192.0.2.1 made.up >>/etc/hosts; ", "grep -q ^new: /etc/passwd && test $(stat -c %U /var/lib/mine/data) = new", "grep -q made.up /etc/hosts", "/etc/passwd,/usr/lib/system.conf", isolation.EnginePodman},
		{"1000", isolation.EnginePodman, "! echo x >>/etc/passwd; ! echo x >>/etc/hosts; ", "test $(id -u) = 1000 && test -O /var/lib/mine/data && test -O /usr/local/bin/busybox-mine", "! grep -q x$ /etc/hosts", "/usr/lib/system.conf", isolation.EngineBundle},
	} {
		builder, name := newScene(t), builtName(t, "installs-"+c.user)
		builder.write("context/Dockerfile", fmt.Sprintf("FROM %s\nRUN mkdir -p /data /usr/lib /usr/local/bin /var/lib && touch /usr/lib/system.conf /usr/lib/kept.conf && chmod 777 /data /usr/lib /usr/local/bin /var/lib\nVOLUME /data\nUSER %s\n", sceneImage(t), c.user))
		builder.podgrade(0, "images", "build", "--file", "context/Dockerfile", "--tag", name, "context")
		for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
			if !soak && engine != c.engine {
				continue
			}
			t.Run("user "+c.user+" by "+engine, func(t *testing.T) {
				s := newScene(t)
				s.write("tasks/t.yaml", strings.Replace(sceneTask(t, left+c.agent+noted, fmt.Sprintf(criteria, c.users, c.hosts)), sceneImage(t), name, 1))
				s.podgrade(0, "run", "tasks/t.yaml", "--run-dir", "one", "--engine", engine)
				s.podgrade(0, "execute", "tasks/t.yaml", "--run-dir", "two", "--engine", engine)
				if engine == isolation.EngineBundle {
					s.podgrade(0, "export", "two/"+sceneRow, "-o", "row.tar", "--allow-recorded-paths")
				}
				s.podgrade(0, "evaluate", "two/"+sceneRow, trusting, "--engine", engine)
				one, two := s.is("one/"+sceneRow, "SUCCESS", 1), s.read("two/"+sceneRow, record.TaskFile)
				if one.verdict() != two.verdict() || len(one.Results) != 7 {
					t.Errorf("run:\n%s\nevaluate:\n%s", one.verdict(), two.verdict())
				}
				if said := one.Info[record.StateNotCarried]; said != nil || one.Info[record.State] != record.StateKept || !slices.Equal(one.stamps(), []string{"graded_with_replaced_tools=" + c.replaced}) {
					t.Errorf("state %v, not carried: %v, stamps %v", one.Info[record.State], said, one.stamps())
				}
				if engine != isolation.EngineBundle {
					return
				}
				elsewhere := t.TempDir()
				t.Cleanup(func() { s.removesStates(elsewhere) })
				s.podgrade(0, "import", "row.tar", "-o", "three", "--scratch", elsewhere)
				s.podgrade(0, "evaluate", "three", trusting, "--engine", c.imported, "--scratch", elsewhere)
				if three := s.read("three/"+sceneRow, record.TaskFile); three.verdict() != one.verdict() {
					t.Errorf("run:\n%s\nimported:\n%s", one.verdict(), three.verdict())
				}
			})
		}
	}
}

// TestLiveGrade: a server that the agent left running answers where the task
// asks for a live grade, and only there.
func TestLiveGrade(t *testing.T) {
	t.Parallel()
	task := sceneTask(t, "(while :; do echo served | nc -l -p 8099; done >/dev/null 2>&1 &) ; sleep 0.3; echo made >made", `post_run:
  - {command: "ls made"}
success_criteria:
  - {type: run_command, command: "touch began; sleep 1", description: it takes its time}
  - {type: run_command, command: "nc -w 5 127.0.0.1 8099 </dev/null", expected_stdout: served, description: the server answers}
  - {type: run_command, command: "grep -q 'task_id: t' $TASK_DIR/live.yaml", description: the task directory is there}
  - {type: command_executed, tool_name: Bash, command_pattern: "nothing", min_count: 0, description: the trajectory is there, weight: 0}
`)
	s := newScene(t)
	s.write("live.yaml", withPodman(task, "grade: live"))
	s.podgrade(0, "run", "live.yaml", "--run-dir", "of-podman", "--engine", "podman")
	r := s.is("of-podman/"+sceneRow, "SUCCESS", 1)
	if !slices.Equal(r.stamps(), []string{"graded_live=true"}) || r.Info[record.Engine] != "podman" || len(r.PostRun) != 1 || r.PostRun[0]["stdout"] != "made\n" {
		t.Errorf("with the Podman engine: stamps %v, engine %v, post_run %v", r.stamps(), r.Info[record.Engine], r.PostRun)
	}
	s.podgrade(0, "run", "live.yaml", "--run-dir", "one")
	r = s.is("one/"+sceneRow, "SUCCESS", 1)
	if !slices.Equal(r.stamps(), []string{"graded_live=true"}) || r.Info[record.WorkspaceView] != "live" {
		t.Errorf("stamps %v, view %v", r.stamps(), r.Info[record.WorkspaceView])
	}
	if len(r.PostRun) != 1 || r.PostRun[0]["stdout"] != "made\n" {
		t.Errorf("post_run %v", r.PostRun)
	}
	// The grade is not of the run's time.
	began, err := os.Stat(filepath.Join(s.dir, "one", sceneRow, record.ArtifactsDir, "t/began"))
	if err != nil {
		t.Fatal(err)
	}
	started, err := time.ParseInLocation("2006-01-02T15:04:05", strings.SplitN(r.Started, ".", 2)[0], time.Local)
	took, notNumber := r.Duration.Float64()
	if err != nil || notNumber != nil || started.Add(time.Duration(took*float64(time.Second))).After(began.ModTime()) {
		t.Errorf("started %v, took %v, and the first criterion began %v (%v)", r.Started, r.Duration, began.ModTime(), err)
	}
	if whole, _ := r.Info[record.GradingDuration].(json.Number).Float64(); whole < 1 {
		t.Errorf("the grade took %v", r.Info[record.GradingDuration])
	}
	if _, err := os.Stat(filepath.Join(s.dir, "one", sceneRow, record.ArtifactsDir, "t/made")); err != nil {
		t.Error(err)
	}
	if log, err := os.ReadFile(filepath.Join(s.dir, "one", sceneRow, record.GradeLog)); err != nil || !strings.Contains(string(log), "served") {
		t.Errorf("the log of the grade: %q, %v", log, err)
	}
	// Executed alone, the cell is closed before anybody asks.
	s.podgrade(0, "execute", "live.yaml", "--run-dir", "two")
	s.podgrade(1, "evaluate", "two/"+sceneRow, trusting)
	r = s.is("two/"+sceneRow, "FAILURE", 2.0/3)
	if stamps := r.stamps(); len(stamps) != 1 || !strings.HasPrefix(stamps[0], "graded_without_processes=") || !strings.Contains(stamps[0], "nc tcp") || !strings.Contains(stamps[0], "/8099") {
		t.Errorf("stamps %v", stamps)
	}
	// And a live row that is graded again is graded fresh.
	s.podgrade(1, "evaluate", "one/"+sceneRow, trusting)
	if stamps := s.is("one/"+sceneRow, "FAILURE", 2.0/3).stamps(); len(stamps) != 1 || !strings.HasPrefix(stamps[0], "graded_without_processes=") {
		t.Errorf("stamps %v", stamps)
	}
	s.write("answer/key", "42\n")
	s.write("reference.yaml", withPodman(task+"reference: {directory: answer}\n", "grade: live"))
	if _, stderr := s.podgrade(2, "run", "reference.yaml", "--run-dir", "three"); !strings.Contains(stderr, "reference") {
		t.Errorf("%s", stderr)
	}
}

// TestCleanRoom: whether a verdict hangs on what the agent changed in the system
// is shown, and a stamp that it does not deserve goes.
func TestCleanRoom(t *testing.T) {
	t.Parallel()
	const replaces = "cp /bin/busybox /tmp/f; mv -f /tmp/f /bin/wc; touch made; "
	const preRun = "pre_run:\n  - {command: \"mkdir -p /opt/given && echo fixture >/opt/given/f\"}\n"
	const made = "success_criteria:\n  - {type: run_command, command: \"test -e made\", description: it was made}\n"
	for name, c := range map[string]struct {
		agent, more, podman string
		code                int
		result, says        string
		stamps              []string
	}{
		"the verdict is the same": {agent: replaces, more: made, result: record.CleanRoomSame, says: "the same verdict"},
		"a program of the workspace stays stamped": {
			agent: replaces + "mkdir -p node_modules/.bin; cp /bin/busybox node_modules/.bin/grep", more: made,
			result: record.CleanRoomSame, says: "the same verdict", stamps: []string{"graded_with_replaced_tools=/work/workspace/node_modules/.bin/grep"},
		},
		"the verdict hangs on the system": {
			agent: replaces + "touch /opt/answer", more: "success_criteria:\n  - {type: run_command, command: \"test -e /opt/answer\", description: it was put there}\n",
			code: 1, result: record.CleanRoomOther, says: "depends on what the agent changed", stamps: []string{"graded_with_replaced_tools=/bin/wc"},
		},
		"what pre_run left is there": {
			agent: replaces, podman: "state: both", more: preRun + "success_criteria:\n  - {type: run_command, command: \"test -e made && cat /opt/given/f\", description: both}\n",
			result: record.CleanRoomSame, says: "with what pre_run left",
		},
		"what pre_run left was not kept": {
			agent: replaces, more: preRun + "success_criteria:\n  - {type: run_command, command: \"test -e made && cat /opt/given/f\", description: both}\n",
			code: 1, result: record.CleanRoomOther, says: "without what pre_run did", stamps: []string{"graded_with_replaced_tools=/bin/wc"},
		},
		"the agent changed nothing there": {agent: "touch made", more: made, result: record.CleanRoomSame, says: "the same verdict"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			task := sceneTask(t, c.agent, c.more)
			if c.podman != "" {
				task = withPodman(task, c.podman)
			}
			s.write("task.yaml", task)
			s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
			stdout, _ := s.podgrade(c.code, "evaluate", "r/"+sceneRow, trusting, "--clean-room")
			r := s.is("r/"+sceneRow, "SUCCESS", 1)
			if r.Info[record.CleanRoom] != c.result || !strings.Contains(stdout, c.says) || !slices.Equal(r.stamps(), c.stamps) {
				t.Errorf("%v, stamps %v\n%s", r.Info[record.CleanRoom], r.stamps(), stdout)
			}
			if c.code == 0 {
				return
			}
			if r.Info[record.CleanRoomStatus] != "FAILURE" {
				t.Errorf("in the clean room: %v", r.Info[record.CleanRoomStatus])
			}
			// The next grade says nothing of the room.
			s.podgrade(0, "evaluate", "r/"+sceneRow, trusting)
			if r := s.read("r/"+sceneRow, record.TaskFile); r.Info[record.CleanRoom] != nil || r.Info[record.CleanRoomStatus] != nil {
				t.Errorf("%v", r.Info)
			}
		})
	}
}

// credential is the value of a credential that the agent is given.
const credential = "canary-7f3a9c51e2"

// TestScenarioCredential is D-93: a credential that the agent had is nowhere
// afterwards, unless it wrote it down itself.
func TestScenarioCredential(t *testing.T) {
	t.Setenv("PODGRADE_TEST_CANARY", credential)
	scratch := t.TempDir() // not below the task directory, of which the cell has a copy
	task := func(agent string) string {
		return strings.Replace(sceneTask(t, agent, "success_criteria:\n  - {type: run_command, command: \"test -e /opt/mine/f\", description: it was installed}\n"),
			"network: none", "network: none, env_passthrough_extra: [PODGRADE_TEST_CANARY]", 1)
	}
	const installs = `test "$PODGRADE_TEST_CANARY" = ` + "canary-7f3a9c'51e2'" + ` && mkdir -p /opt/mine && echo x >/opt/mine/f`
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
		t.Run("D-93: "+engine+": no layer, image, record, log or page holds a credential", func(t *testing.T) {
			s := newScene(t)
			s.write("task.yaml", task(installs))
			t.Cleanup(func() { s.removesStates(scratch) })
			s.podgrade(0, "run", "task.yaml", "--run-dir", "r", "--engine", engine, "--scratch", scratch)
			s.podgrade(0, "report", "r", "-f", "html")
			if r := s.read("r/"+sceneRow, record.TaskFile); r.Info[record.State] != record.StateKept || r.Info[record.Variables] != "PODGRADE_TEST_CANARY" {
				t.Errorf("%v, variables %v", r.Info[record.State], r.Info[record.Variables])
			}
			if found := s.holding(credential, scratch); len(found) > 0 {
				t.Errorf("it is in %q", found)
			}
			said := podman(t, "image", "inspect", sceneImage(t)) + podman(t, "history", "--no-trunc", "--format", "json", sceneImage(t))
			if strings.Contains(said, credential) || !strings.Contains(said, "podgrade-test/busybox") {
				t.Errorf("it is in what podman says of the image: %.300s", said)
			}
		})
	}
	t.Run("D-93: one that the agent writes down is found, so the search bites", func(t *testing.T) {
		s := newScene(t)
		s.write("task.yaml", task(installs+` && echo "$PODGRADE_TEST_CANARY" >/opt/mine/leak && echo "$PODGRADE_TEST_CANARY" >leak`))
		t.Cleanup(func() { s.removesStates(scratch) })
		s.podgrade(0, "run", "task.yaml", "--run-dir", "r", "--scratch", scratch)
		if found := s.holding(credential, scratch); len(found) != 2 {
			t.Errorf("found in %q", found)
		}
	})
}

// holding are the files of the scene, and of its scratch, that hold a word.
func (s *scene) holding(word, scratch string) (found []string) {
	s.t.Helper()
	for _, dir := range []string{s.dir, scratch} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(word)) {
				found = append(found, path)
			}
			return err
		})
		if err != nil {
			s.t.Error(err)
		}
	}
	return found
}

// removesStates removes the state layers of a scratch directory.
func (s *scene) removesStates(scratch string) {
	for _, state := range s.states(scratch) {
		s.podgrade(0, "state", "rm", "--yes", "--scratch", scratch, state.DiffID)
	}
}

func (s *scene) states(scratch string) (states []isolation.State) {
	s.t.Helper()
	out, _ := s.podgrade(0, "state", "ls", "--json", "--scratch", scratch)
	if err := json.Unmarshal([]byte(out), &states); err != nil {
		s.t.Fatal(err)
	}
	return states
}
