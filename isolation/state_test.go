package isolation_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// changeRoot makes every kind of change outside of the workspace.
const changeRoot = `set -e
echo tool > /usr/local-tool && chmod 4755 /usr/local-tool
mkdir -p /opt/deep/er && echo x > /opt/deep/er/x && chmod 0 /opt/deep/er/x && chmod 0 /opt/deep
echo a > /opt/a && ln /opt/a /opt/b && ln -s /nowhere /opt/link && mkfifo /opt/pipe
mkdir /opt/theirs && echo x > /opt/theirs/x && chown -R 1000:50 /opt/theirs
rm /etc/group
rm -r /home/grader && mkdir /home/grader && echo new > /home/grader/new
echo more >> /etc/passwd
touch /opt/.wh.odd && touch "/opt/ä b" && touch /tmp/scratch && rm /tmp/scratch
touch -d 2001-02-03 /opt/a`

// seenRoot describes what changeRoot changed.
const seenRoot = `cd /; find opt usr etc home tmp usr/local-tool -xdev \( -path etc/hosts -o -path etc/hostname -o -path etc/resolv.conf \) -prune -o -type d -exec stat -c '%N %u:%g %a' {} + -o -exec stat -c '%N %u:%g %a %h %s' {} + 2>/dev/null | sort; tail -n 1 /etc/passwd; cat /opt/a /opt/b /home/grader/new; stat -c %Y /opt/a`

func graded(t testing.TB, o isolation.Order, state string) isolation.Order {
	o.Create, o.State, o.Plan.Phase = false, state, oci.Grade
	return o
}

// What an agent changed in its root file system is there in the grade, exactly.
func TestAStateLayerIsWhatTheAgentLeft(t *testing.T) {
	t.Parallel()
	for _, executed := range engines {
		t.Run("executed by "+executed, func(t *testing.T) { stateIsWhatTheAgentLeft(t, executed) })
	}
}

func stateIsWhatTheAgentLeft(t *testing.T, executed string) {
	o := executeOrder(t, as(t, ""))
	o.Engine = executed
	withDockerCapabilities(&o)
	c := openOn(t, host(t), o)
	want(t, c, changeRoot, "")
	before := sh(t, c, seenRoot).out
	settled := settle(t, c, isolation.Settle{KeepState: true})
	state := settled.State
	if !strings.HasPrefix(state.DiffID, "sha256:") || state.More != 0 || !host(t).HasState(state.DiffID) {
		t.Fatalf("%+v", state)
	}
	for _, path := range []string{"/usr/local-tool", "/opt/deep/er/x", "/opt/b", "/opt/link", "/opt/pipe", "/etc/passwd", "/home/grader/new", "/opt/.wh.odd"} {
		if !slices.Contains(state.Changed, path) {
			t.Errorf("%s is not among the changes %q", path, state.Changed)
		}
	}
	if !slices.Contains(state.Deleted, "/etc/group") {
		t.Errorf("deleted: %q", state.Deleted)
	}
	for _, path := range slices.Concat(state.Changed, state.Deleted) {
		if strings.HasPrefix(path, oci.WorkPath) || strings.HasPrefix(path, oci.ToolPath) || path == "/etc/hosts" || path == "/etc/resolv.conf" || strings.HasPrefix(path, "/tmp") {
			t.Errorf("among the changes: %s", path)
		}
	}
	o = graded(t, o, state.DiffID)
	for _, engine := range append(slices.Clone(engines), isolation.EngineBundle) { // a grade changes nothing in it
		o.Engine = engine
		grade := openOn(t, host(t), o)
		if after := sh(t, grade, seenRoot).out; after != before {
			t.Errorf("the agent saw\n%s\nthe grade by %s sees\n%s", before, engine, after)
		}
		want(t, grade, "rm /opt/a && echo y > /opt/b && rm -r /home/grader && id -u", "0\n")
		if err := grade.CheckImage(ctx(t)); err != nil {
			t.Error(err)
		}
	}
	o.State = ""
	want(t, openOn(t, host(t), o), "ls /opt/* /usr/local-tool 2>/dev/null; ls /etc/group", "/etc/group\n")
}

// An agent that leaves only its workspace, and what it made and removed again,
// changes no state.
func TestNothingIsKeptWhenNothingChanged(t *testing.T) {
	for _, user := range []string{"", "1000", "65532:65532", "podman"} {
		o := executeOrder(t, as(t, strings.TrimPrefix(user, "podman")))
		if user == "podman" {
			o.Engine = isolation.EnginePodman
		}
		c := openOn(t, host(t), o)
		want(t, c, "echo x > x; touch /tmp/x; rm /tmp/x; touch "+oci.TaskDirPath+"/x; rm "+oci.TaskDirPath+"/x", "")
		if state := settle(t, c, isolation.Settle{KeepState: true}).State; state.DiffID != "" || len(state.Changed) > 0 {
			t.Errorf("user %q: %+v", user, state)
		}
	}
}

// The same changes have the same name; a file more has another.
func TestADiffIDNamesTheChanges(t *testing.T) {
	id := func(line string) string {
		c := openOn(t, host(t), executeOrder(t, as(t, "")))
		want(t, c, "mkdir /opt/x && echo 1 > /opt/x/1 && "+line+" && touch -d @1000000000 /opt /opt/x /opt/x/*", "")
		return settle(t, c, isolation.Settle{KeepState: true}).State.DiffID
	}
	first := id("true")
	if again := id("echo 2 > /opt/x/2 && rm /opt/x/2"); again != first {
		t.Errorf("%s and %s", first, again)
	}
	if other := id("chmod 600 /opt/x/1"); other == first {
		t.Error("another mode has the same name")
	}
}

// What an ordinary user leaves in its home and in /tmp is kept with its owner.
func TestAUsersStateIsItsOwn(t *testing.T) {
	for _, user := range []string{"1000", "grader", "4242"} {
		o := executeOrder(t, as(t, user))
		c := openOn(t, host(t), o)
		home := c.Made().Home
		want(t, c, "echo x > "+home+"/x; mkdir -m 0 /tmp/closed; mkdir "+home+"/d && chmod 700 "+home+"/d", "")
		state := settle(t, c, isolation.Settle{KeepState: true}).State
		grade := openOn(t, host(t), graded(t, o, state.DiffID))
		want(t, grade, "cat "+home+"/x; test -O /tmp/closed && test -O "+home+"/d && stat -c %a /tmp/closed "+home+"/d", "x\n0\n700\n")
		if grade.Made().Home != home {
			t.Errorf("HOME is %s, was %s", grade.Made().Home, home)
		}
	}
}

// The users of the image are those of the pinned image, whatever the agent did
// to its files.
func TestAStateLayerNamesNoUsers(t *testing.T) {
	t.Parallel()
	i := built(t, "localhost/podgrade-test/built:open-passwd", "RUN chmod 666 /etc/passwd\nUSER grader\n", map[string]string{})
	o := executeOrder(t, i)
	c := openOn(t, host(t), o)
	want(t, c, "sed -i 's/^grader:x:1000/grader:x:0/' /etc/passwd 2>/dev/null || { sed 's/^grader:x:1000/grader:x:0/' /etc/passwd > /tmp/p; cat /tmp/p > /etc/passwd; rm /tmp/p; }; grep -c '^grader:x:0' /etc/passwd; id -u", "1\n1000\n")
	isolation.EndBy(c)
	want(t, c, "id -u", "1000\n")
	state := settle(t, c, isolation.Settle{KeepState: true}).State
	want(t, openOn(t, host(t), graded(t, o, state.DiffID)), "id -u; grep -c '^grader:x:0' /etc/passwd", "1000\n1\n")
}

func TestAMissingStateLayerIsRefused(t *testing.T) {
	o := order(t, as(t, ""))
	o.State = "sha256:" + strings.Repeat("0", 64)
	c, err := host(t).Open(ctx(t), o)
	if err == nil {
		c.Close()
		t.Fatal("a grade without its state layer started")
	}
	var fault *isolation.Fault
	if !errors.Is(err, isolation.ErrNoState) || !errors.As(err, &fault) || fault.Kind != isolation.Refusal || !strings.Contains(err.Error(), o.State) {
		t.Error(err)
	}
	for _, bad := range []string{"", "sha256:", "../" + strings.Repeat("0", 64), "sha256:" + strings.Repeat("0", 63) + "/"} {
		if host(t).HasState(bad) {
			t.Errorf("there is a state layer %q", bad)
		}
	}
}

// A state layer outlives its run and gc, and is removed by name.
func TestStateLayersAreKeptUntilTheyAreRemoved(t *testing.T) {
	o := options(t)
	h := start(t, o)
	e := executeOrder(t, as(t, ""))
	withDockerCapabilities(&e)
	c := openOn(t, h, e)
	want(t, c, "mkdir /opt/theirs && chown 1000 /opt/theirs && chmod 700 /opt/theirs", "")
	id := settle(t, c, isolation.Settle{KeepState: true}).State.DiffID
	if err := errors.Join(c.Close(), h.Close()); err != nil {
		t.Fatal(err)
	}
	if swept, err := isolation.Sweep(ctx(t), o, false); err != nil || len(swept.Left) > 0 {
		t.Errorf("%+v, %v", swept, err)
	}
	all, err := isolation.States(o)
	if err != nil || len(all) != 1 || all[0].DiffID != id || all[0].Image == "" {
		t.Fatalf("%+v, %v", all, err)
	}
	h = start(t, o)
	defer h.Close()
	grade := openOn(t, h, graded(t, e, id))
	want(t, grade, "stat -c %u /opt/theirs", "1000\n")
	// A removal that was ended half way is gone on with.
	if err := os.Remove(filepath.Join(all[0].Path, "state.json")); err != nil {
		t.Fatal(err)
	}
	if again, err := isolation.States(o); err != nil || len(again) != 1 || again[0].DiffID != id || !again[0].Made.IsZero() || h.HasState(id) {
		t.Errorf("%+v, %v", again, err)
	}
	if err := isolation.RemoveState(ctx(t), o, id); err != nil {
		t.Fatal(err)
	}
	if err := grade.CheckImage(ctx(t)); !errors.Is(err, isolation.ErrNoImage) {
		t.Errorf("its layer was removed, and the check says %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.Scratch, "state")); !errors.Is(err, os.ErrNotExist) || h.HasState(id) {
		t.Errorf("it is still there: %v", err)
	}
	if err := isolation.RemoveState(ctx(t), o, id); !errors.Is(err, isolation.ErrNoState) {
		t.Errorf("removing it again: %v", err)
	}
}

// Capabilities of files stay, in the workspace and outside of it.
func TestFileCapabilitiesStay(t *testing.T) {
	const set = `import os
for f in ("/usr/tool", "tool"):
    open(f, "w").close(); os.chmod(f, 0o755)
    os.setxattr(f, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))`
	const get = `import os
for f in ("/usr/tool", "tool"): print(os.getxattr(f, "security.capability").hex())`
	o := executeOrder(t, image(t, testimages.Debian()))
	withDockerCapabilities(&o)
	c := openOn(t, host(t), o)
	if got := run(t, c, time.Minute, "/usr/bin/python3", "-c", set); got.Code != 0 {
		t.Fatal(got.out)
	}
	before := run(t, c, time.Minute, "/usr/bin/python3", "-c", get).out
	started := time.Now()
	settled := settle(t, c, isolation.Settle{KeepState: true})
	t.Logf("settled in %v", time.Since(started))
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
		g := graded(t, o, settled.State.DiffID)
		g.Engine = engine
		if after := run(t, openOn(t, host(t), g), time.Minute, "/usr/bin/python3", "-c", get).out; after != before || !strings.Contains(after, "0002") {
			t.Errorf("%s: set\n%s\nfound\n%s", engine, before, after)
		}
	}
}
