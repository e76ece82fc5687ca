package policy

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// ConfigDir is where this user's policy file, signing key and settings are:
// podgrade in XDG_CONFIG_HOME, else in .config of the home directory, which the
// password database says where HOME does not, as in a service.
func ConfigDir() (string, error) {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := homeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".config")
	}
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("%q, where the settings of this user should be, is not absolute", dir)
	}
	return filepath.Join(dir, "podgrade"), nil
}

// userByID looks into the password database; replaced by a test.
var userByID = user.LookupId

func homeDir() (string, error) {
	if home := os.Getenv("HOME"); home != "" {
		return home, nil
	}
	known, err := userByID(strconv.Itoa(os.Geteuid()))
	if err != nil || known.HomeDir == "" {
		return "", errors.New("neither XDG_CONFIG_HOME nor HOME nor the password database says where the settings of this user are")
	}
	return known.HomeDir, nil
}
