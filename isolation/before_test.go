package isolation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// What a task changed before its agent started is a layer of its own, and the
// cell goes on as if nothing had been.
func TestAStateLayerOfBeforeTheAgent(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
		t.Run(engine, func(t *testing.T) {
			o := executeOrder(t, as(t, ""))
			o.Engine = engine
			withDockerCapabilities(&o)
			c := openOn(t, host(t), o)
			if state, err := c.KeepBefore(ctx(t)); err != nil || state.DiffID != "" || state.Problem != "" {
				t.Fatalf("nothing changed, and it says %+v, %v", state, err)
			}
			c = openOn(t, host(t), executeOrderLike(t, o))
			want(t, c, changeRoot, "")
			before := sh(t, c, seenRoot).out
			state, err := c.KeepBefore(ctx(t))
			if err != nil || state.DiffID == "" || !host(t).HasState(state.DiffID) {
				t.Fatalf("%+v, %v", state, err)
			}
			if after := sh(t, c, seenRoot).out; after != before {
				t.Errorf("the cell saw\n%s\nand then\n%s", before, after)
			}
			want(t, c, "echo agent >/opt/agent; rm /opt/a /opt/pipe; echo x >>/opt/b", "")
			final := settle(t, c, isolation.Settle{KeepState: true}).State
			if final.DiffID == state.DiffID || final.DiffID == "" {
				t.Errorf("before %s, after %s", state.DiffID, final.DiffID)
			}
			g := graded(t, o, state.DiffID)
			g.BeforeAgent = true
			if seen := sh(t, openOn(t, host(t), g), seenRoot).out; seen != before {
				t.Errorf("before the agent there was\n%s\nthe grade sees\n%s", before, seen)
			}
			want(t, openOn(t, host(t), graded(t, o, final.DiffID)), "cat /opt/agent /opt/b; ls -d /opt/a /opt/pipe 2>/dev/null || true", "agent\na\nx\n")
		})
	}
}

// executeOrderLike is the order with another workspace.
func executeOrderLike(t testing.TB, o isolation.Order) isolation.Order {
	o.Workspace = executeOrder(t, o.Image).Workspace
	return o
}

// What is looked at and not kept has the name that it would have.
func TestAStateThatIsOnlyLookedAt(t *testing.T) {
	o := executeOrder(t, as(t, ""))
	c := openOn(t, host(t), o)
	want(t, c, "echo looked-at >/opt-file", "")
	before, err := c.KeepBefore(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	looked := settle(t, c, isolation.Settle{LookState: true}).State
	if looked.DiffID == "" || looked.DiffID != before.DiffID {
		t.Errorf("kept as %s, looked at as %s", before.DiffID, looked.DiffID)
	}
	c = openOn(t, host(t), executeOrderLike(t, o))
	want(t, c, "echo not kept >/opt-file", "")
	if looked := settle(t, c, isolation.Settle{LookState: true}).State; looked.DiffID == "" || host(t).HasState(looked.DiffID) {
		t.Errorf("%+v was kept, or has no name", looked)
	}
}

// While a layer is made nothing in the cell writes; afterwards what ran runs on,
// and what was stopped is still stopped. Not beside other tests: what they write to the
// disk keeps what runs here waiting for it.
func TestWhatRunsStandsStillWhileAStateIsKept(t *testing.T) {
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
		t.Run(engine, func(t *testing.T) {
			o := executeOrder(t, as(t, ""))
			o.Engine = engine
			c := openOn(t, host(t), o)
			// Two files that are only ever written one after the other.
			want(t, c, `mkdir /pair; (n=0; while :; do n=$((n+1)); echo $n >/pair/a; echo $n >/pair/b; done >/dev/null 2>&1 &)
(while :; do echo x >>/tmp/ticks; done >/dev/null 2>&1 & echo $! >/tmp/stopped); until test -s /tmp/stopped && test -s /tmp/ticks && test -s /pair/b; do sleep 0.1; done; kill -STOP $(cat /tmp/stopped); sleep 0.2`, "")
			state, err := c.KeepBefore(ctx(t))
			if err != nil || state.DiffID == "" {
				t.Fatalf("%+v, %v", state, err)
			}
			want(t, c, `x=$(cat /pair/a) y=$(stat -c %s /tmp/ticks); n=0; until test "$x" != "$(cat /pair/a)" || test $n = 100; do n=$((n+1)); sleep 0.2; done; test $n != 100 && echo on; test "$y" = "$(stat -c %s /tmp/ticks)" && echo stopped`, "on\nstopped\n")
			got := sh(t, openOn(t, host(t), graded(t, o, state.DiffID)), "cat /pair/a /pair/b").out
			var a, b int
			if n, err := fmt.Sscan(got, &a, &b); n == 2 && a != b && a != b+1 {
				t.Errorf("written while the layer was made: %q, %v", got, err)
			}
			settle(t, c, isolation.Settle{})
		})
	}
}

// A row that worked inside its image is graded on the state of before its agent
// with what was captured laid over.
func TestACaptureIsLaidOverTheStateOfBefore(t *testing.T) {
	t.Parallel()
	o := workOrder(t, "grader")
	capture := t.TempDir()
	c := openOn(t, host(t), o)
	want(t, c, "echo task >task.txt; echo old >changed.txt; mkdir -p /tmp/task && echo fixture >/tmp/task/f", "")
	state, err := c.KeepBefore(ctx(t))
	if err != nil || state.DiffID == "" {
		t.Fatalf("%+v, %v", state, err)
	}
	want(t, c, "echo agent >agent.txt; echo new >changed.txt; echo lost >/tmp/task/agent", "")
	settle(t, c, isolation.Settle{Capture: capture})
	g := o
	g.Create, g.Workspace, g.State, g.BeforeAgent, g.Plan.Phase = false, capture, state.DiffID, true, oci.Grade
	grade := openOn(t, host(t), g)
	want(t, grade, "cat task.txt agent.txt changed.txt /tmp/task/f; ls /tmp/task", "task\nagent\nnew\nfixture\nf\n")
	if kind := grade.Made().View.Kind; kind != isolation.ViewCapture {
		t.Errorf("the view is %s", kind)
	}
}

// change is a line of the table of docs/state-layers.md.
type change struct {
	name, do string
	see      string // what describes it
	rooted   bool   // an ordinary user cannot make it
	not      string // what is said not to be carried; "": it is carried
}

var changes = []change{
	{name: "a volume", do: "echo x >/data/f", see: "stat -c '%u:%g %a' /data /data/f; cat /data/f"},
	{name: "/tmp", do: "echo x >/tmp/f; mkdir -m 700 /tmp/d", see: "stat -c '%u:%g %a' /tmp/f /tmp/d"},
	{name: "/var/lib", do: "mkdir /var/lib/x; echo x >/var/lib/x/y", see: "stat -c '%u:%g %a %s' /var/lib/x /var/lib/x/y"},
	{name: "a hard link", do: "echo x >/opt/a; ln /opt/a /opt/b", see: "stat -c '%u:%g %h' /opt/a /opt/b; test /opt/a -ef /opt/b && echo one"},
	{name: "a deletion", do: "rm /opt/doomed", see: "ls /opt/doomed 2>&1 || true"},
	{name: "an opaque directory", do: "rm -r /opt/old && mkdir /opt/old && echo x >/opt/old/new", see: "ls /opt/old; stat -c %u:%g /opt/old"},
	{name: "a set-user-id program", do: "cp /bin/busybox /opt/s && chmod 4755 /opt/s", see: "stat -c '%u:%g %a' /opt/s"},
	{name: "a named pipe", do: "mkfifo /opt/p", see: "stat -c '%F %u:%g' /opt/p"},
	{name: "a user", do: "echo 'new:x:77:77::/:/bin/sh' >>/etc/passwd", see: "tail -n 1 /etc/passwd", rooted: true},
	{name: "a static program", do: "mkdir -p /usr/local/bin && cp /bin/busybox /usr/local/bin/busybox-mine", see: "/usr/local/bin/busybox-mine echo works", rooted: true},
	{name: "another owner", do: "echo x >/opt/o && chown 4:5 /opt/o", see: "stat -c %u:%g /opt/o", rooted: true},
	{name: "a device", do: "mknod /opt/null c 1 3 2>/dev/null; test ! -e /opt/null", see: "ls /opt/null 2>&1 || true", rooted: true},
	{name: "a device of no number", do: "mknod /opt/zero c 0 0 2>/dev/null; test ! -e /opt/zero", see: "ls /opt/zero 2>&1 || true", rooted: true},
	{name: "a line of /etc/hosts", do: "echo 192.0.2.1 made.up >>/etc/hosts; chown 4:5 /etc/hosts; chmod 640 /etc/hosts", see: "chown 0:0 /etc/hosts; cat /etc/hosts; chown 4:5 /etc/hosts; stat -c '%u:%g %a %s %Y' /etc/hosts", rooted: true},
	{name: "another name of a host", do: "echo other >/etc/hostname", see: "true", rooted: true, not: "/etc/hostname: every cell has its own"},
}

// TestWhatIsCarried: each kind of change is there in the grade by either engine,
// with its owner, or is said not to be carried.
func TestWhatIsCarried(t *testing.T) {
	t.Parallel()
	const image = "RUN mkdir -p /data /opt/old /run /var/lib && echo old >/opt/old/was && echo doomed >/opt/doomed && chmod 777 /data /opt /opt/old /run /var/lib && chown -R %[1]s:%[1]s /opt\nVOLUME /data\nUSER %[1]s\n"
	for _, user := range []string{"0", "1000"} {
		t.Run("user "+user, func(t *testing.T) {
			o := executeOrder(t, built(t, "localhost/podgrade-test/built:carried-"+user, fmt.Sprintf(image, user), map[string]string{}))
			if user == "0" {
				withDockerCapabilities(&o)
			}
			cell := openOn(t, host(t), o)
			seen, not := map[string]string{}, []string{}
			for _, c := range changes {
				if c.rooted && user != "0" {
					continue
				}
				if got := sh(t, cell, c.do); got.Code != 0 {
					t.Fatalf("%s: exit code %d: %s", c.name, got.Code, got.out)
				}
				seen[c.name] = sh(t, cell, c.see).out
				if c.not != "" {
					not = append(not, c.not)
				}
			}
			state := settle(t, cell, isolation.Settle{KeepState: true}).State
			if slices.Sort(not); !slices.Equal(state.NotCarried, not) {
				t.Errorf("not carried: %q, want %q", state.NotCarried, not)
			}
			if carries := slices.Contains(state.Changed, "/etc/hosts"); carries != (user == "0") {
				t.Errorf("changed: %q", state.Changed)
			}
			g := graded(t, o, state.DiffID)
			grade := openOn(t, host(t), g)
			g.Engine = isolation.EnginePodman
			contained := openOn(t, host(t), g)
			for _, c := range changes {
				before, made := seen[c.name]
				for _, place := range []isolation.Cell{grade, contained} {
					if after := sh(t, place, c.see).out; made && after != before {
						t.Errorf("%s: the agent saw\n%s\nthe grade by %s sees\n%s", c.name, before, place.Made().Engine, after)
					}
				}
			}
		})
	}
}

// What was written into /etc/hosts is there when a command has ended its cell, in
// the layer of before the agent, and where the image has none and /etc is new.
func TestAnEditOfHostsIsKept(t *testing.T) {
	t.Parallel()
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			o := executeOrder(t, built(t, "localhost/podgrade-test/built:no-hosts", "RUN rm -f /etc/hosts; rmdir /etc 2>/dev/null || true\n", map[string]string{}))
			o.Engine = engine
			withDockerCapabilities(&o)
			c := openOn(t, host(t), o)
			want(t, c, "echo 192.0.2.1 before >>/etc/hosts", "")
			before, err := c.KeepBefore(ctx(t))
			if err != nil || !slices.Equal(before.Changed, []string{"/etc/hosts"}) {
				t.Fatalf("%+v, %v", before, err)
			}
			want(t, c, "echo 192.0.2.2 after >>/etc/hosts", "")
			if engine == isolation.EngineBundle {
				isolation.EndBy(c)
			}
			want(t, c, "grep -c 192.0.2 /etc/hosts", "2\n")
			after := settle(t, c, isolation.Settle{KeepState: true}).State
			for id, want := range map[string]string{before.DiffID: "before\n", after.DiffID: "before\nafter\n"} {
				g := graded(t, o, id)
				grade := openOn(t, host(t), g)
				if got := sh(t, grade, "grep 192.0.2 /etc/hosts | cut -d' ' -f2").out; got != want {
					t.Errorf("the grade sees %q, want %q", got, want)
				}
				if engine == isolation.EngineBundle {
					isolation.EndBy(grade)
					if got := sh(t, grade, "grep 192.0.2 /etc/hosts | cut -d' ' -f2").out; got != want {
						t.Errorf("made again it sees %q, want %q", got, want)
					}
				}
			}
			large := openOn(t, host(t), executeOrderLike(t, o))
			want(t, large, "head -c 1100000 /dev/zero >>/etc/hosts", "")
			if state := settle(t, large, isolation.Settle{KeepState: true}).State; len(state.NotCarried) != 1 || !strings.HasPrefix(state.NotCarried[0], "/etc/hosts: it is too large") {
				t.Errorf("not carried: %q", state.NotCarried)
			}
		})
	}
}

// A socket is nobody's when its process has ended.
func TestASocketIsSaidNotToBeCarried(t *testing.T) {
	t.Parallel()
	o := executeOrder(t, image(t, testimages.Debian()))
	c := openOn(t, host(t), o)
	if got := run(t, c, time.Minute, "/usr/bin/python3", "-c", `import socket; socket.socket(socket.AF_UNIX).bind("/run/s")`); got.Code != 0 {
		t.Fatal(got.out)
	}
	state := settle(t, c, isolation.Settle{KeepState: true}).State
	if len(state.NotCarried) != 1 || !strings.HasPrefix(state.NotCarried[0], "/run/s: a socket") {
		t.Errorf("not carried: %q", state.NotCarried)
	}
}
