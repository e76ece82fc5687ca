package regrade_test

import (
	"encoding/json"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// An agent that bends what criteria are run with may get its SUCCESS, but never
// one without the stamp (design: State layers).
func TestReplacedToolsAreStamped(t *testing.T) {
	// The shell of busybox has its programs built in: of those that are replaced
	// here only the shell itself can give another answer.
	const shim = `printf '#!/bin/busybox sh\nexit 0\n'`
	for name, c := range map[string]struct {
		line, criterion string
		stamp           string // "": there is none
	}{
		"a program":                    {shim + ` >/tmp/f && chmod +x /tmp/f && mv -f /tmp/f /bin/false`, "true", "/bin/false"},
		"the shell":                    {shim + ` >/tmp/sh && chmod +x /tmp/sh && mv -f /tmp/sh /bin/sh`, "false", "/bin/sh"},
		"a program in front":           {"mkdir -p /usr/local/bin && " + shim + ` >/usr/local/bin/false && chmod +x /usr/local/bin/false`, "true", "/usr/local/bin/false"},
		"a program that is gone":       {"rm /bin/wc", "true", "/bin/wc"},
		"the directory of programs":    {"cp -a /bin /mine && rm -rf /mine/false && ln -s true /mine/false && /mine/busybox mv /bin /old && /mine/busybox ln -s mine /bin", "true", "/bin"},
		"what every program loads":     {"mkdir -p /etc && echo /tmp/evil.so >/etc/ld.so.preload", "true", "/etc/ld.so.preload"},
		"a program in the workspace":   {"mkdir -p node_modules/.bin && " + shim + " >node_modules/.bin/false && chmod +x node_modules/.bin/false", "true", "/work/workspace/node_modules/.bin/false"},
		"grep in the workspace":        {"mkdir -p node_modules/.bin && " + shim + " >node_modules/.bin/grep && chmod +x node_modules/.bin/grep", "true", "/work/workspace/node_modules/.bin/grep"},
		"a new program":                {"mkdir -p /usr/local/bin && " + shim + " >/usr/local/bin/mine && chmod +x /usr/local/bin/mine", "mine", ""},
		"a new program in workspace":   {"mkdir -p node_modules/.bin && " + shim + " >node_modules/.bin/mine && chmod +x node_modules/.bin/mine", "mine", ""},
		"a file that is no program":    {"mkdir -p /etc && echo x >/etc/mine", "test -e /etc/mine", ""},
		"nothing outside of workspace": {"echo x >file", "test -e file", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, isolation.EngineBundle, testimages.Busybox())
			text := "task_id: tools\ndescription: bends its tools\n" + agentOf(c.line) + sealedBusybox +
				"success_criteria:\n  - {type: run_command, command: \"" + c.criterion + "\", description: it ends well}\n"
			r := b.executes(load(t, write(t, text, nil), tasks.Request{}))
			if r.Status != record.NotGraded {
				t.Fatalf("executed as %s: %s", r.Status, r.Message)
			}
			verdict := r.grades()
			if verdict.Status != record.Success {
				t.Errorf("graded %s\n%s", verdict.Status, r.file(record.GradeLog))
			}
			stamp := stampOf(t, verdict, record.GradedWithReplacedTools)
			if stamp != c.stamp {
				t.Errorf("the stamp is %q, not %q", stamp, c.stamp)
			}
		})
	}
}

// In most distributions /bin is a link, and so are many programs: an agent that points
// one elsewhere touches no program of the image.
func TestReplacedLinksToToolsAreStamped(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Merged())
	const shim, image = `printf '#!/usr/bin/busybox sh\nexit 0\n' >/tmp/f; chmod 755 /tmp/f`, `sandbox: {driver: podman, docker: {image: "localhost/podgrade-test/merged:1"}}
`
	for name, c := range map[string]struct{ line, criterion, stamp string }{
		"the link of a directory":          {shim + `; mkdir /x; mv /tmp/f /x/sh; /usr/bin/busybox rm /bin; /usr/bin/busybox ln -s /x /bin`, "false", "/bin"},
		"a directory in place of a link":   {shim + `; /usr/bin/busybox rm /bin; /usr/bin/busybox mkdir /bin; /usr/bin/busybox mv /tmp/f /bin/sh`, "false", "/bin"},
		"a link between":                   {shim + `; ln -sf /tmp/f /etc/alternatives/check`, "check", "/etc/alternatives/check"},
		"the program at the end of links":  {shim + `; mv /tmp/f /opt/check/check`, "check", "/opt/check/check"},
		"a file beside it, of the agent's": {"touch /opt/check/mine /etc/alternatives/mine", "true", ""},
	} {
		text := "task_id: links\ndescription: bends a link\n" + agentOf(c.line) + image +
			"success_criteria:\n  - {type: run_command, command: \"" + c.criterion + "\", description: it ends well}\n"
		r := b.executes(load(t, write(t, text, nil), tasks.Request{}))
		verdict := r.grades()
		if stamp := stampOf(t, verdict, record.GradedWithReplacedTools); stamp != c.stamp || verdict.Status != record.Success {
			t.Errorf("%s: graded %s, the stamp is %q, not %q: %s", name, verdict.Status, stamp, c.stamp, r.file(record.GradeLog))
		}
	}
}

// stampOf is the text of a stamp, "" where it is not there.
func stampOf(t *testing.T, verdict *regrade.Verdict, name string) (text string) {
	t.Helper()
	for _, made := range verdict.Stamps {
		if made.Name == name {
			if err := json.Unmarshal(made.Value, &text); err != nil {
				t.Fatal(err)
			}
		}
	}
	return text
}
