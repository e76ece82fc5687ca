package isolation_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
)

// keptLayer puts what a store has of a layer into a scratch directory: a test of
// the store needs no cell.
func keptLayer(t *testing.T, scratch string, n int, bytes int64, age time.Duration) string {
	t.Helper()
	hex := strings.Repeat(strconv.Itoa(n), 64)
	dir := filepath.Join(scratch, "state", hex)
	if err := os.MkdirAll(filepath.Join(dir, "layer", "opt"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := `{"diff_id":"sha256:` + hex + `","entries":1,"bytes":` + strconv.FormatInt(bytes, 10) + `,"image":"i","made":"2026-01-01T00:00:00Z"}`
	info := filepath.Join(dir, "state.json")
	if err := os.WriteFile(info, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	used := time.Now().Add(-age)
	if err := os.Chtimes(info, used, used); err != nil {
		t.Fatal(err)
	}
	return "sha256:" + hex
}

func keptStates(t *testing.T, o isolation.Options) []string {
	t.Helper()
	states, err := isolation.States(o)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, s := range states {
		ids = append(ids, s.DiffID)
	}
	slices.Sort(ids)
	return ids
}

// Layers go by when they were last used, and only as many as must.
func TestStatesArePrunedByTheirLastUse(t *testing.T) {
	const hour = time.Hour
	for name, c := range map[string]struct {
		prune isolation.StatePrune
		left  []int
	}{
		"by age":                 {isolation.StatePrune{UnusedFor: 20 * hour, Most: -1}, []int{1, 2}},
		"by size":                {isolation.StatePrune{Most: 350}, []int{1, 2}},
		"to the last byte":       {isolation.StatePrune{Most: 600}, []int{1, 2, 3}},
		"by both":                {isolation.StatePrune{UnusedFor: 5 * hour, Most: 350}, []int{1}},
		"to nothing":             {isolation.StatePrune{Most: 0}, nil},
		"but for what was used":  {isolation.StatePrune{Most: 0, Since: time.Now().Add(-15 * hour)}, []int{1, 2}},
		"without bounds":         {isolation.StatePrune{Most: -1}, []int{1, 2, 3}},
		"only said in a dry run": {isolation.StatePrune{Most: 0, DryRun: true}, []int{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			ids := []string{
				keptLayer(t, o.Scratch, 1, 100, hour), keptLayer(t, o.Scratch, 2, 200, 10*hour), keptLayer(t, o.Scratch, 3, 300, 30*hour),
			}
			pruned, err := isolation.PruneStates(ctx(t), o, c.prune)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{}
			for _, n := range c.left {
				want = append(want, ids[n-1])
			}
			if got := keptStates(t, o); !slices.Equal(got, want) {
				t.Errorf("left are %q, want %q", got, want)
			}
			for _, p := range pruned {
				if p.Removed == c.prune.DryRun || p.Problem != "" {
					t.Errorf("%+v", p)
				}
			}
			if c.prune.DryRun && len(pruned) != 3 {
				t.Errorf("a dry run names %d", len(pruned))
			}
		})
	}
}

// A cell keeps its layer, and says which row used it and when.
func TestAUsedStateIsNotPruned(t *testing.T) {
	o := options(t)
	h := start(t, o)
	defer h.Close()
	e := executeOrder(t, as(t, ""))
	e.Row = filepath.Join(t.TempDir(), "row")
	c := openOn(t, h, e)
	want(t, c, "echo x >/opt/x", "")
	id := settle(t, c, isolation.Settle{KeepState: true}).State.DiffID
	info := filepath.Join(o.Scratch, "state", strings.TrimPrefix(id, "sha256:"), "state.json")
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(info, past, past); err != nil {
		t.Fatal(err)
	}
	g := graded(t, e, id)
	g.Row = e.Row + "2"
	grade := openOn(t, h, g)
	states, err := isolation.States(o)
	if err != nil || len(states) != 1 || !slices.Equal(states[0].Rows, []string{e.Row, g.Row}) || time.Since(states[0].Used) > time.Minute {
		t.Fatalf("%+v, %v", states, err)
	}
	all := isolation.StatePrune{Most: 0}
	if pruned, err := isolation.PruneStates(ctx(t), o, all); err != nil || len(pruned) != 0 {
		t.Errorf("%+v, %v", pruned, err)
	}
	if err := grade.Close(); err != nil {
		t.Fatal(err)
	}
	if pruned, err := isolation.PruneStates(ctx(t), o, all); err != nil || len(pruned) != 1 || !pruned[0].Removed || h.HasState(id) {
		t.Errorf("%+v, %v", pruned, err)
	}
	if c, err := h.Open(ctx(t), g); err == nil {
		c.Close()
		t.Error("a pruned state layer was used")
	} else if !strings.Contains(err.Error(), "podgrade import") || !strings.Contains(err.Error(), "execute the row again") {
		t.Error(err)
	}
}
