package isolation_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
)

// changeMuch makes changes outside of the workspace with files that are large
// enough to be shared, of every kind.
const changeMuch = changeRoot + `
mkdir -p /opt/big/closed && cp /bin/busybox /opt/big/busybox && chmod 6755 /opt/big/busybox && ln /opt/big/busybox /opt/big/closed/linked
cp /bin/busybox /opt/big/closed/mode0 && chown 1000:50 /opt/big/closed/mode0 && chmod 0 /opt/big/closed/mode0 && chown 1000:1000 /opt/big/closed
dd if=/bin/busybox of=/opt/big/sparse bs=4096 seek=100 count=20 2>/dev/null
cp /bin/busybox /home/grader/tool && cp /bin/busybox /opt/big/tool`

// seenMuch describes what changeMuch changed, with times.
const seenMuch = seenRoot + `
cd /opt/big && stat -c '%N %u:%g %a %s %Y' . closed /home/grader
stat -c '%N %u:%g %a %h %s %Y' busybox sparse tool closed/linked closed/mode0 /home/grader/tool
test busybox -ef closed/linked && echo one; sha256sum busybox sparse tool closed/linked /home/grader/tool`

// What a layer shares with another one is in the grade as the agent left it: by
// both engines, on layers that either made, also when the other one is gone.
func TestASharedStateLayerIsWhatTheAgentLeft(t *testing.T) {
	t.Parallel()
	for _, executed := range engines {
		t.Run("executed by "+executed, func(t *testing.T) {
			o := options(t)
			h := start(t, o)
			defer h.Close()
			e := executeOrder(t, as(t, ""))
			e.Engine = executed
			withDockerCapabilities(&e)
			leave := func(more string) (string, isolation.StateLayer) {
				c := openOn(t, h, executeOrderLike(t, e))
				want(t, c, changeMuch+more, "")
				before := sh(t, c, seenMuch).out
				return before, settle(t, c, isolation.Settle{KeepState: true}).State
			}
			_, first := leave("\ntouch -d 2002-02-02 /opt/big/tool")
			before, second := leave("\necho own >>/opt/big/tool")
			var shared int64
			kept, err := isolation.States(o)
			if err != nil || len(kept) != 2 || first.DiffID == second.DiffID {
				t.Fatalf("%+v, %v", kept, err)
			}
			for _, s := range kept {
				shared += s.SharedBytes
			}
			if shared < 2<<20 {
				t.Errorf("%d bytes are shared", shared)
			}
			grades := func(when string, engines ...string) {
				for _, engine := range engines {
					g := graded(t, e, second.DiffID)
					g.Engine = engine
					grade := openOn(t, h, g)
					if after := sh(t, grade, seenMuch).out; after != before {
						t.Errorf("%s: the agent saw\n%s\nthe grade by %s sees\n%s", when, before, engine, after)
					}
					want(t, grade, "rm /opt/big/busybox && echo y >/opt/big/tool && rm -r /home/grader; id -u", "0\n")
					if err := errors.Join(grade.CheckImage(ctx(t)), grade.Close()); err != nil {
						t.Error(err)
					}
				}
			}
			grades("with the other layer", isolation.EngineBundle)
			if err := isolation.RemoveState(ctx(t), o, first.DiffID); err != nil {
				t.Fatal(err)
			}
			grades("without it", engines...)
			if err := isolation.RemoveState(ctx(t), o, second.DiffID); err != nil {
				t.Fatal(err)
			}
			for _, left := range []string{"state", "state-bytes"} {
				if _, err := os.Lstat(filepath.Join(o.Scratch, left)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is still there: %v", left, err)
				}
			}
		})
	}
}

// A row is not judged without the bytes that its layer shares.
func TestASharedStateLayerWithoutItsBytesIsRefused(t *testing.T) {
	o := options(t)
	h := start(t, o)
	defer h.Close()
	e := executeOrder(t, as(t, ""))
	for _, at := range []string{"2001-01-01", "2002-02-02"} {
		c := openOn(t, h, executeOrderLike(t, e))
		want(t, c, "cp /bin/busybox /opt/tool && touch -d "+at+" /opt/tool", "")
		settle(t, c, isolation.Settle{KeepState: true})
	}
	kept, err := isolation.States(o)
	if err != nil || len(kept) != 2 || kept[1].SharedBytes == 0 {
		t.Fatalf("%+v, %v", kept, err)
	}
	if err := os.WriteFile(filepath.Join(kept[0].Path, "layer", "opt", "tool"), []byte("damaged"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, engine := range engines {
		g := graded(t, e, kept[1].DiffID)
		g.Engine = engine
		c, err := h.Open(ctx(t), g)
		if err == nil {
			c.Close()
			t.Fatalf("%s: a grade on damaged bytes started", engine)
		}
		var fault *isolation.Fault
		if !errors.As(err, &fault) || fault.Kind != isolation.Infrastructure || fault.Do == "" || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "opt/tool") {
			t.Errorf("%s: %v", engine, err)
		}
	}
}
