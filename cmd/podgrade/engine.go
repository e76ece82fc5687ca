package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
)

// engineFlag is --engine, of every verb that opens cells.
func engineFlag() cli.Flag {
	return &cli.StringFlag{Name: "engine", Value: isolation.EngineAuto,
		Usage: "what makes cells: bundle, podman, or auto: bundle where it works", DefaultText: isolation.EngineAuto}
}

// engineOf is the engine that was asked for.
func engineOf(c *cli.Context) (string, error) {
	engine := c.String("engine")
	if !slices.Contains(isolation.Engines(), engine) {
		return "", usage(c, "--engine is one of %s, not %q", strings.Join(isolation.Engines(), ", "), engine)
	}
	return engine, nil
}
