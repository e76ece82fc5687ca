package isolation_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
)

// Paths travel to the worker, the runtime and Podman in JSON: one that is not UTF-8
// is refused in words, and nothing of a run is made.
func TestAScratchThatIsNotUTF8IsRefused(t *testing.T) {
	o := options(t)
	o.Scratch = filepath.Join(o.Scratch, "a\xffb")
	for what, err := range map[string]error{"CheckHost": isolation.CheckHost(o), "Start": startError(t, o)} {
		if err == nil || !strings.Contains(err.Error(), "its path is not UTF-8") || !strings.Contains(err.Error(), "--scratch") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(o.Scratch); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
}

// So is a cell of a directory with such a name: nobody else's may be shown instead,
// and one that is to be hidden may not stay in sight.
func TestADirectoryThatIsNotUTF8IsShownToNoCell(t *testing.T) {
	h, i := host(t), as(t, "")
	odd := filepath.Join(t.TempDir(), "a\xffb")
	must(t, os.Mkdir(odd, 0o700))
	for what, change := range map[string]func(*isolation.Order){
		"workspace": func(o *isolation.Order) { o.Workspace = odd },
		"task":      func(o *isolation.Order) { o.TaskDir = odd },
		"reference": func(o *isolation.Order) { o.Reference = odd },
		"row":       func(o *isolation.Order) { o.Row = odd },
		"hidden":    func(o *isolation.Order) { o.Hidden = []string{odd} },
	} {
		o := order(t, i)
		change(&o)
		for where, open := range map[string]func() (isolation.Cell, error){
			"cell": func() (isolation.Cell, error) { return h.Open(ctx(t), o) },
			"host": func() (isolation.Cell, error) { return h.OpenOnHost(ctx(t), o) },
		} {
			c, err := open()
			if err == nil {
				c.Close()
			}
			if err == nil || faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), `a\xffb": its path is not UTF-8`) {
				t.Errorf("%s, %s: %v", what, where, err)
			}
		}
	}
}
