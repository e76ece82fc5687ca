package hostfacts

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of checks into the documentation")

const (
	page       = "../../docs/rootless-hosts.md"
	tableBegin = "<!-- checks: a test compares this table with the program -->\n"
	tableEnd   = "<!-- end of checks -->\n"
)

// table is what the documentation shows of the definitions.
func table() string {
	var b strings.Builder
	b.WriteString("\n| check | what is looked at | what it is for |\n| --- | --- | --- |\n")
	for _, c := range Checks() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.Name, c.Looks, c.Needed)
	}
	b.WriteString("\n")
	return b.String()
}

func TestThePageShowsTheChecks(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), tableBegin)
	shown, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table of checks", page)
	}
	if *update {
		text := before + tableBegin + table() + tableEnd + after
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		shown = table()
	}
	if shown != table() {
		t.Errorf("%s shows\n%s\nwant\n%s\n(-update writes it)", page, shown, table())
	}
}

// TestHeadingsExist: what a finding refers to is on the page.
func TestHeadingsExist(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, host := range hosts {
		for _, c := range Examine(recorded(t, strings.TrimSuffix(filepath.Base(host), ".json"))).Checks {
			if c.See == "" {
				continue
			}
			seen++
			if !strings.Contains(string(text), "\n## "+c.See+"\n") {
				t.Errorf("%s, %s: the page has no heading %q", host, c.Check, c.See)
			}
		}
	}
	if seen == 0 {
		t.Error("no finding refers to the page")
	}
}
