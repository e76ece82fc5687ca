package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// compatibilityRow is a line of a table of docs/compatibility.md.
type compatibilityRow struct {
	verbs, options []string
	here, says     string
}

// compatibility reads the tables of options.
func compatibility(t *testing.T) (rows []compatibilityRow) {
	t.Helper()
	text, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`(-[^`]*)`")
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !strings.Contains(cells[1], "`-") {
			continue
		}
		row := compatibilityRow{verbs: strings.Split(strings.TrimSpace(cells[0]), ", "), here: strings.TrimSpace(cells[2]), says: strings.TrimSpace(cells[3])}
		for _, found := range quoted.FindAllStringSubmatch(cells[1], -1) {
			row.options = append(row.options, found[1])
		}
		rows = append(rows, row)
	}
	return rows
}

// TestOptionsOfCoderEval walks the page: what it calls there is there under each
// of its names, and what it calls refused is refused in the page's words, before
// anything is looked at.
func TestOptionsOfCoderEval(t *testing.T) {
	rows := compatibility(t)
	t.Chdir(t.TempDir())
	walked := 0
	for _, row := range rows {
		for _, verb := range row.verbs {
			command := findCommand(newApp(&bytes.Buffer{}, &bytes.Buffer{}).Commands, verb)
			if command == nil {
				t.Errorf("there is no verb %s", verb)
				continue
			}
			for _, option := range row.options {
				walked++
				walkOption(t, command, row, option)
			}
		}
	}
	if walked < 80 {
		t.Errorf("the page lists %d options", walked)
	}
	if left, _ := os.ReadDir("."); len(left) > 0 {
		t.Errorf("something was made: %v", left)
	}
}

func walkOption(t *testing.T, command *cli.Command, row compatibilityRow, option string) {
	t.Helper()
	at := slices.IndexFunc(command.Flags, func(flag cli.Flag) bool { return slices.Contains(flag.Names(), strings.TrimLeft(option, "-")) })
	shown := at >= 0
	if shown {
		if visible, ok := command.Flags[at].(cli.VisibleFlag); ok {
			shown = visible.IsVisible()
		}
	}
	switch row.here {
	case "yes", "accepted":
		if !shown {
			t.Errorf("%s %s: the page says that it is there", command.Name, option)
		}
		if row.here == "accepted" && row.says == "" {
			t.Errorf("%s %s: the page does not say why it changes nothing", command.Name, option)
		}
	case "refused":
		words, _, _ := strings.Cut(row.says, ";")
		var stderr bytes.Buffer
		code := run(t.Context(), []string{"podgrade", command.Name, option + "=value", "nothing"}, &bytes.Buffer{}, &stderr)
		if code != 2 || words == "" || !strings.Contains(stderr.String(), words) || shown {
			t.Errorf("%s %s: exit code %d, shown in help: %v, %q is not in:\n%s", command.Name, option, code, shown, words, &stderr)
		}
	default:
		t.Errorf("%s %s: %q is none of yes, accepted and refused", command.Name, option, row.here)
	}
}

func TestVerbsOfCoderEval(t *testing.T) {
	commands := newApp(&bytes.Buffer{}, &bytes.Buffer{}).Commands
	for _, verb := range []string{"run", "execute", "evaluate", "plan", "report", "aggregate"} {
		if findCommand(commands, verb) == nil {
			t.Errorf("there is no verb %s", verb)
		}
	}
	for _, verb := range []string{"_run-task-internal", "harbor"} {
		var stderr bytes.Buffer
		if code := run(t.Context(), []string{"podgrade", verb}, &bytes.Buffer{}, &stderr); code != 2 || !strings.Contains(stderr.String(), "is no command") {
			t.Errorf("%s: exit code %d: %s", verb, code, &stderr)
		}
	}
	// The one value of a refused option that means what podgrade does anyway.
	t.Chdir(t.TempDir())
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"podgrade", "run", "-b", "direct", "nothing.yaml"}, &bytes.Buffer{}, &stderr); code != 1 || strings.Contains(stderr.String(), "backend") {
		t.Errorf("--backend direct: exit code %d: %s", code, &stderr)
	}
}
