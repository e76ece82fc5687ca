package regrade

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/policy"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// asks is what a row comes to that only asks for consent.
const asks = "nobody has accepted that:"

// unaccepted says what a hostile row comes to when nobody has accepted anything:
// a text of its one message, by the beginning of the row's name. Everything
// else asks for consent.
var unaccepted = map[string]string{
	"record: a link":                         "symbolic link",
	"record: a pipe":                         "named pipe",
	"record: a directory":                    "is a directory",
	"record: a socket":                       "is a socket",
	"record: two gigabytes":                  "the limit is",
	"record: a field of two gigabytes":       "the limit is",
	"record: a list":                         "an object should be here",
	"record: a string":                       "an object should be here",
	"record: null":                           "an object should be here",
	"record: empty":                          "not valid JSON",
	"record: half":                           "not valid JSON",
	"record: Python":                         "not valid JSON",
	"record: YAML":                           "not valid JSON",
	"record: more text":                      "more text after the value",
	"record: not UTF-8":                      "is not UTF-8",
	"record: a byte order mark":              "not valid JSON",
	"key twice":                              "stands twice",
	"lists in":                               "nested deeper",
	"objects in":                             "nested deeper",
	"weighted_score":                         "between 0 and 1",
	"iteration_count":                        "a whole number",
	"a status that nobody knows":             "none of the 9 known statuses",
	"mount:":                                 "sees nothing of this host",
	"image: \"\"":                            "names no image",
	"reference: of nobody":                   "cannot be used",
	"reference: with a NUL":                  "cannot be used",
	"reference: a device":                    "cannot be used",
	"sandbox.docker.network":                 "must be bridge",
	"sandbox.driver":                         "must be tempdir",
	"sandbox.limits.max_pids":                "must be an integer",
	"sandbox.limits.timeout":                 "must be an integer",
	"sandbox.podman.caps: \"[\\\"ALL\\\"]\"": "must be a capability",
	"sandbox.podman.user:":                   "must be USER",
	"sandbox.podman.read_only":               "cannot be written",
	"a criterion that nobody knows":          "success_criteria[0].type",
	"a judge that asks nothing":              "is missing",
	"a pattern that is none":                 "regular expression",
	"a weight that is no number":             "not valid JSON",
	"a weight beyond all floats":             "weight",
	"no criteria":                            "success_criteria",
	"criteria that are none":                 "success_criteria",
}

// accepted says the same of rows that are refused although all that they ask for
// was accepted. What is in neither list is graded then, in a double of a cell.
var accepted = map[string]string{
	"sandbox_path: absolute":      "outside of the row directory",
	"sandbox_path: with dots":     "outside of the row directory",
	"sandbox_path: the parent":    "outside of the row directory",
	"sandbox_path: the row":       "outside of the row directory",
	"sandbox_path: the root":      "outside of the row directory",
	"sandbox_path: by":            "outside of the row directory",
	"workspace: a link":           "outside of the row directory",
	"artifacts: a link out":       "outside of the row directory",
	"artifacts: its only child":   "outside of the row directory",
	"artifacts: a pipe":           "there is no directory artifacts",
	"artifacts: none":             "there is no directory artifacts",
	"task_id: a link of the row":  "outside of the row directory",
	"source_file: the secret":     "use the recorded task file",
	"source_file: passwords":      "use the recorded task file",
	"source_file: an environment": "use the recorded task file",
	"source_file: two gigabytes":  "it has more than",
	"reference: another":          "its digest is",
	"image: ":                     "no such image",
	"pin: ":                       "no such image",
	"platform: ":                  "another platform",
	"file: \"/etc":                "leads outside",
	"file: \"..":                  "leads outside",
	"file: \"a/":                  "leads outside",
	"file: \"answer":              "leads outside",
	"a threshold of nothing":      "gate_threshold",
	"a trajectory that is none":   "no list of turns",
}

// expected is the text for a row, by the longest beginning of its name; "":
// there is none.
func expected(texts map[string]string, name string) string {
	best := ""
	for start := range texts {
		if strings.HasPrefix(name, start) && len(start) > len(best) {
			best = start
		}
	}
	return texts[best]
}

// TestHostileRecords grades rows that somebody made to hurt who grades them:
// first nobody has accepted anything, then all of it. Nothing of this host is
// touched, each gives one clear message, and soon.
func TestHostileRecords(t *testing.T) {
	sentinels, err := fixture.NewSentinels(filepath.Join(t.TempDir(), "sentinels"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := fixture.WriteHostile(byod, t.TempDir(), sentinels)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 150 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, texts := range []map[string]string{unaccepted, accepted} {
		for start := range texts {
			if !slices.ContainsFunc(rows, func(h fixture.Hostile) bool { return strings.HasPrefix(h.Name, start) }) {
				t.Errorf("no row is called %s", start)
			}
		}
	}
	watch := watchOver(t, sentinels.Dir)
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			hostileUnaccepted(t, row, sentinels)
			if seen := watch(); len(seen) > 0 {
				t.Errorf("nobody has accepted anything, and it looked at %q", seen)
			}
			hostileAccepted(t, row, sentinels)
			for _, name := range watch() {
				if !strings.HasSuffix(name, "(read)") {
					t.Errorf("it changed %q", name)
				}
			}
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
				t.Errorf("a process was started: %d, %v", pid, err)
			}
		})
	}
}

// hostileUnaccepted: it is refused, and all is as it was.
func hostileUnaccepted(t *testing.T, h fixture.Hostile, s fixture.Sentinels) {
	t.Helper()
	before := whatLies(h.Dir)
	_, fake, notice, err := gradeHostile(t, h, s, policy.Answer{})
	want := expected(unaccepted, h.Name)
	if want == "" {
		want = asks
	}
	code := ExitUsage
	if strings.HasPrefix(h.Name, "a pattern that is none") { // the author's error
		code = ExitFailed
	}
	if err == nil || ExitCode(err) != code || !strings.Contains(err.Error(), want) {
		t.Errorf("exit code %d, want %d with %q: %v", ExitCode(err), code, want, err)
	}
	clearMessage(t, err, notice, s)
	if fake.started > 0 || len(fake.looked)+len(fake.orders) > 0 {
		t.Error("engines were started")
	}
	if after := whatLies(h.Dir); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// hostileAccepted: what was accepted is used and nothing else, and what may never
// be is refused all the same.
func hostileAccepted(t *testing.T, h fixture.Hostile, s fixture.Sentinels) {
	t.Helper()
	g, fake, notice, err := gradeHostile(t, h, s, policy.Answer{RecordedCommands: true})
	want := expected(accepted, h.Name)
	if refused := expected(unaccepted, h.Name); refused != "" {
		want = refused
	}
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("accepted: %v, want %q", err, want)
	}
	clearMessage(t, err, notice, s)
	if g == nil {
		if fake.started > 0 {
			t.Error("engines were started")
		}
		return
	}
	for _, used := range overstepped(g.accepted.Grants(), fake, h.Dir, map[string]string{"CANARY": s.Secret, "LD_PRELOAD": "/lib/evil.so"}) {
		t.Errorf("no grant lists that it %s", used)
	}
}

// gradeHostile grades a row within its time.
func gradeHostile(t *testing.T, h fixture.Hostile, s fixture.Sentinels, answer policy.Answer) (*grading, *fakeEngines, string, error) {
	t.Helper()
	host := map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/home/caller", "CANARY": s.Secret, "LD_PRELOAD": "/lib/evil.so"}
	fake := newFake()
	var notice bytes.Buffer
	o := Options{
		Answer: answer, Start: fake.start, Notice: &notice, Version: "9.9.9", Keys: newKeys(t),
		Lookup: func(name string) (string, bool) { value, ok := host[name]; return value, ok },
	}
	row, err := record.OpenRow(h.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	before := cpuTime(t)
	g, err := prepare(row, o)
	if err == nil {
		_, err = g.grade(context.Background())
	}
	const most = 3 * time.Second // of processor time: others may load the machine
	if took := cpuTime(t) - before; took > most {
		t.Errorf("it took %v", took)
	}
	return g, fake, notice.String(), err
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// clearMessage: one, of a length that somebody reads, with nothing in it that a
// terminal would act upon, and no secret.
func clearMessage(t *testing.T, err error, notice string, s fixture.Sentinels) {
	t.Helper()
	text := notice
	if err != nil {
		message := err.Error()
		if message == "" || strings.HasPrefix(message, "\n") || strings.Contains(message, "goroutine") || strings.Contains(message, "Go value") {
			t.Errorf("no clear message: %q", message)
		}
		text += message
	}
	if len(text) > 128<<10 {
		t.Errorf("%d bytes of text", len(text))
	}
	if at := strings.IndexFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u200b'
	}); at >= 0 {
		t.Errorf("raw text: %q", text[at:min(at+100, len(text))])
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "SUCCESS") {
			t.Errorf("a line of the record's own: %q", line)
		}
	}
	if strings.Contains(text, s.Secret) {
		t.Error("it tells the secret")
	}
}

// whatLies is what lies in a row directory, with content and times.
func whatLies(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err == nil {
			info, _ := entry.Info()
			b.WriteString(strings.Join([]string{name, info.Mode().String(), info.ModTime().String(), "\n"}, " "))
		}
		return nil
	})
	return b.String()
}

// watchOver tells what has happened to the files of a directory since it was
// asked last.
func watchOver(t *testing.T, dir string) func() []string {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_ALL_EVENTS); err != nil {
		t.Fatal(err)
	}
	seen := func() []string {
		var names []string
		buffer := make([]byte, 64<<10)
		for {
			n, err := unix.Read(fd, buffer)
			if err != nil || n <= 0 {
				return names
			}
			for at := 0; at+unix.SizeofInotifyEvent <= n; {
				mask := uint32(buffer[at+4]) | uint32(buffer[at+5])<<8 | uint32(buffer[at+6])<<16 | uint32(buffer[at+7])<<24
				length := int(buffer[at+12]) | int(buffer[at+13])<<8
				name := string(bytes.TrimRight(buffer[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+length], "\x00"))
				if name == "" {
					name = "the directory"
				}
				if mask&(unix.IN_ACCESS|unix.IN_OPEN|unix.IN_CLOSE_NOWRITE) != 0 {
					name += " (read)"
				}
				names = append(names, name)
				at += unix.SizeofInotifyEvent + length
			}
		}
	}
	// The watch itself is watched: what it cannot see proves nothing.
	for _, change := range []func() error{
		func() error { _, err := os.ReadFile(filepath.Join(dir, fixture.SecretFile)); return err },
		func() error { return os.WriteFile(filepath.Join(dir, fixture.Trap), nil, 0o644) },
		func() error { return os.Remove(filepath.Join(dir, fixture.Trap)) },
	} {
		if err := change(); err != nil || len(seen()) == 0 {
			t.Fatalf("the watch sees nothing: %v", err)
		}
	}
	return seen
}
