package main

import (
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
)

func trustCommand() *cli.Command {
	return &cli.Command{
		Name:         "trust",
		Usage:        "see what rows ask for, and who vouches for them",
		Subcommands:  []*cli.Command{trustShowCommand(), trustKeysCommand(), trustVerifyCommand()},
		OnUsageError: usageError,
		Action:       needsWord,
	}
}

const trustKeysHelp = `Prints the public key of this user's own signing key, as a policy file of
another user names it under trusted_keys. The key is made when there is none yet:
$XDG_CONFIG_HOME/podgrade/keys/ed25519, which nobody else may read.

Exit codes: 0 printed; 1 the key cannot be had; 2 the command line is wrong.`

func trustKeysCommand() *cli.Command {
	return &cli.Command{
		Name:         "keys",
		Usage:        "print this user's own public key",
		Description:  trustKeysHelp,
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usage(c, "trust keys takes no argument, and %s given", argumentsWere(c.NArg()))
			}
			keys := userKeys()
			key, err := keys.Public()
			if err != nil {
				return &regrade.Error{Kind: regrade.Infrastructure, Tried: "have a signing key", Why: err, Do: "make its directory one that only you can use, or name another by XDG_CONFIG_HOME"}
			}
			_, err = fmt.Fprintln(c.App.Writer, key)
			return err
		},
	}
}

// userKeys are the keys that rows are signed and checked with.
func userKeys() *policy.Keys {
	dir, err := policy.ConfigDir()
	if err != nil {
		return &policy.Keys{} // which says why it signs nothing
	}
	return &policy.Keys{Dir: filepath.Join(dir, "keys")}
}
