package main

import (
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// overrides is the value of -D and of --set, which may be given many times.
// Both flags fill one list: the library would copy a value between the names
// of one flag, and so set it twice.
type overrides struct {
	list  *[]tasks.Override
	texts *[]string // as they were given
}

// Set takes one PATH=VALUE.
func (o overrides) Set(text string) error {
	override, err := tasks.ParseOverride(text)
	if err == nil {
		*o.list, *o.texts = append(*o.list, override), append(*o.texts, text)
	}
	return err
}

// String is empty: there is no default.
func (o overrides) String() string { return "" }

// selection is what the options say about rows: which, and with what layers.
type selection struct {
	overrides []tasks.Override
	texts     []string // of the overrides
}

// flags are the options of every verb that takes task files (spec/cli.md 2.1).
func (s *selection) flags() []cli.Flag {
	return append(s.layerFlags(),
		&cli.StringFlag{Name: "tags", Aliases: []string{"t"}, Usage: "take tasks with any of these `TAGS`, separated by commas"},
		&cli.StringFlag{Name: "exclude-tags", Usage: "then leave out tasks with any of these `TAGS`"},
		&cli.BoolFlag{Name: "include-skipped", Usage: "take tasks with skip: true too"},
		&cli.StringFlag{Name: "split", Usage: "take rows of a dataset that are labelled with `NAME`"},
		&cli.IntFlag{Name: "sample", Usage: "take `N` rows of each dataset, always the same ones", DefaultText: "all"},
		&cli.IntFlag{Name: "sample-per-stratum", Usage: "take at most `N` rows of each stratum of a dataset", DefaultText: "all"},
		&cli.IntFlag{Name: "repeats", Usage: "make `N` replicates of each row", DefaultText: "what the experiment says, else 1"},
		defaultImageFlag(),
		pullFlag(),
	)
}

// layerFlags are the options that make layers of a task.
func (s *selection) layerFlags() []cli.Flag {
	values := overrides{&s.overrides, &s.texts}
	return []cli.Flag{
		&cli.StringFlag{Name: "experiment", Aliases: []string{"e"}, Usage: "the experiment's `FILE`, or its name in experiments"},
		&cli.GenericFlag{Name: "D", Value: values, Usage: "set a key of every task, `PATH=VALUE`; may be given again"},
		&cli.GenericFlag{Name: "set", Value: values, Usage: "the same as -D, `PATH=VALUE`"},
		&cli.StringFlag{Name: "type", Aliases: []string{"T"}, Usage: "the `KIND` of agent, as -D agent.type"},
		&cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "the agent's `MODEL`, as -D agent.model"},
		&cli.StringFlag{Name: "driver", Usage: "the `DRIVER`, as -D sandbox.driver"},
	}
}

// request makes what the core is asked for.
func (s *selection) request(c *cli.Context) (tasks.Request, error) {
	for _, name := range []string{"sample", "sample-per-stratum", "repeats"} {
		if c.IsSet(name) && c.Int(name) < 1 {
			return tasks.Request{}, usage(c, "--%s must be at least 1, not %d", name, c.Int(name))
		}
	}
	experiment, err := regrade.LoadExperiment(criteria.NewLoader(os.LookupEnv), c.String("experiment"))
	if err != nil {
		return tasks.Request{}, err
	}
	return tasks.Request{
		Layers: tasks.Layers{
			Experiment: experiment, Overrides: s.overrides,
			Type: c.String("type"), Model: c.String("model"), Driver: c.String("driver"),
		},
		Selection:      tasks.Selection{Split: c.String("split"), Sample: c.Int("sample"), PerStratum: c.Int("sample-per-stratum")},
		Repeats:        c.Int("repeats"),
		Tags:           words(c.String("tags")),
		ExcludeTags:    words(c.String("exclude-tags")),
		IncludeSkipped: c.Bool("include-skipped"),
	}, nil
}

// words splits at commas; blanks around a word, and empty words, do not count.
func words(text string) []string {
	var list []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}
