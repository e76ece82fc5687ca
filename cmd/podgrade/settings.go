package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/regrade"
)

// settings is podgrade's configuration file.
type settings struct {
	DefaultImage string // image of rows that name none
	StateBudget  string // size that state layers may have together
}

// maxSettings caps what is read of the configuration file, in bytes.
const maxSettings = 64 << 10

// settingsFile is the path of the configuration file; "" when nothing says where
// it would be.
func settingsFile() string {
	dir, err := policy.ConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "config.yaml")
}

// readSettings reads the configuration file; one that is not there says
// nothing, and one that cannot be understood is an error.
func readSettings(name string) (settings, error) {
	var s settings
	if name == "" {
		return s, nil
	}
	wrong := func(err error) error {
		return &regrade.Error{Kind: regrade.User, Tried: "read the configuration file", On: name, Why: err, Do: "correct it, or remove it; its keys are " + defaultImageKey + " and " + stateBudgetKey}
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, wrong(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return s, wrong(err)
	}
	if !info.Mode().IsRegular() {
		return s, wrong(errors.New("it is no regular file"))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err == nil && len(text) > maxSettings {
		err = fmt.Errorf("it is larger than %d bytes", maxSettings)
	}
	if err != nil {
		return s, wrong(err)
	}
	var keys map[string]string
	if yaml.Unmarshal(text, &keys) != nil {
		return s, wrong(errors.New("it does not hold KEY: TEXT on each line"))
	}
	for key, value := range keys {
		switch key {
		case defaultImageKey:
			s.DefaultImage = value
		case stateBudgetKey:
			s.StateBudget = value
		default:
			return s, wrong(fmt.Errorf("%q is no key of it", key))
		}
	}
	return s, nil
}

// The keys of the configuration file.
const (
	defaultImageKey = "default_image"
	stateBudgetKey  = "state_budget"
)

// budgetVariable says what stateBudgetKey says, and comes before it.
const budgetVariable = "PODGRADE_STATE_BUDGET"

// maxSizeName is the option of state prune that comes before both.
const maxSizeName = "max-size"

func defaultImageFlag() cli.Flag {
	return &cli.StringFlag{Name: "default-image", EnvVars: []string{"PODGRADE_DEFAULT_IMAGE"},
		Usage: "the image of rows that name none, a `REFERENCE`; else default_image of the configuration file"}
}

// defaultImage is the image of rows that name none: the option's, else the
// variable's, else that of the configuration file. "" when none says one:
// what needs it is refused with what to do.
func defaultImage(c *cli.Context) (string, error) {
	if image := c.String("default-image"); image != "" { // by the option or by the variable
		return image, nil
	}
	s, err := readSettings(settingsFile())
	return s.DefaultImage, err
}

func pullFlag() cli.Flag {
	return &cli.StringFlag{Name: "pull", Value: string(isolation.PullNever),
		Usage: "images that Podman's store has not: never fetched, or missing: fetched from their registries", DefaultText: string(isolation.PullNever)}
}

// pulls tells whether images may be fetched from their registries.
func pulls(c *cli.Context) (bool, error) {
	policy := c.String("pull")
	if !slices.Contains(isolation.PullPolicies(), policy) {
		return false, usage(c, "--pull is one of %s, not %q", strings.Join(isolation.PullPolicies(), ", "), policy)
	}
	return policy == string(isolation.PullMissing), nil
}
