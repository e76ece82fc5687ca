package isolation_test

import (
	"os"
	"path/filepath"
	"testing"

	"podgrade/isolation"
)

// A scratch directory may have any name: what options of mounts, lists and
// programs are separated by is in this one.
func TestTheScratchMayHaveAnyName(t *testing.T) {
	t.Parallel()
	i := as(t, "1000")
	o := options(t)
	o.Scratch = filepath.Join(o.Scratch, "a: b,c=d%e\\f\"g")
	must(t, os.MkdirAll(o.Scratch, 0o700))
	h := start(t, o)
	defer func() { must(t, h.Close()) }()
	overEngines(t, func(t *testing.T, engine string) {
		grade := order(t, i)
		grade.Engine, grade.TaskDir, grade.Reference = engine, t.TempDir(), t.TempDir()
		for _, view := range []string{isolation.ViewCopy, isolation.ViewOverlay} {
			grade.View = view
			c := openOn(t, h, grade)
			want(t, c, "cat hello.txt; echo more >> hello.txt; cat hello.txt", "hello\nhello\nmore\n")
			must(t, c.Close())
		}
		execute := order(t, i)
		execute.Engine, execute.Create, execute.Workspace = engine, true, t.TempDir()
		c := openOn(t, h, execute)
		want(t, c, "echo made > made; echo state > /tmp/state; cat made", "made\n")
		_, err := c.Settle(ctx(t), isolation.Settle{KeepState: true})
		must(t, err)
		must(t, c.Close())
	})
}
