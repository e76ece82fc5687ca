package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
)

// viewFlag is --workspace-view, of every verb that grades.
func viewFlag() cli.Flag {
	return &cli.StringFlag{Name: "workspace-view", Value: isolation.ViewAuto,
		Usage: "how the cell sees the workspace: copy, overlay, bind (commands change the workspace itself), or auto: copy, overlay where it is large", DefaultText: isolation.ViewAuto}
}

// viewOf is the workspace view that was asked for.
func viewOf(c *cli.Context) (string, error) {
	view := c.String("workspace-view")
	if !slices.Contains(isolation.Views(), view) {
		return "", usage(c, "--workspace-view is one of %s, not %q", strings.Join(isolation.Views(), ", "), view)
	}
	return view, nil
}
