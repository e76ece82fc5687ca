package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/regrade"
)

const imagesHelp = `Makes images in Podman's store without a registry: nothing is pulled, and the
steps of a build have no network.`

func imagesCommand() *cli.Command {
	return &cli.Command{
		Name:        "images",
		Usage:       "import and build images without a registry",
		Description: imagesHelp,
		Subcommands: []*cli.Command{
			{
				Name: "import", Usage: "make an image of a root file system in a tar archive", ArgsUsage: "TAR REFERENCE",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "user", Usage: "the image's `USER`"},
					&cli.StringSliceFlag{Name: "env", Usage: "a variable of the image, `NAME=VALUE`"},
					&cli.StringFlag{Name: "platform", Usage: "`OS/ARCH[/VARIANT]` instead of this machine's"},
				},
				OnUsageError: usageError, Action: importImage,
			},
			{
				Name: "build", Usage: "build a Containerfile on images that are in the store", ArgsUsage: "CONTEXT",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "file", Usage: "the `CONTAINERFILE`; needed"},
					&cli.StringFlag{Name: "tag", Usage: "the image's `REFERENCE`; needed"},
				},
				OnUsageError: usageError, Action: buildImage,
			},
			{
				Name: "show", Usage: "show what pins an image", ArgsUsage: "REFERENCE",
				OnUsageError: usageError, Action: showImage,
			},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return cli.ShowSubcommandHelp(c)
			}
			return usage(c, "%q is no command of images", c.Args().First())
		},
	}
}

func importImage(c *cli.Context) error {
	if c.NArg() != 2 {
		return usage(c, "images import takes a tar archive and a reference, and %d arguments were given", c.NArg())
	}
	tar, err := os.Open(c.Args().First())
	if err != nil {
		return &regrade.Error{Kind: regrade.User, Tried: "import an image", Why: err, Do: "name a tar archive"}
	}
	defer tar.Close()
	if info, err := tar.Stat(); err == nil && info.IsDir() {
		return &regrade.Error{Kind: regrade.User, Tried: "import an image", On: tar.Name(), Why: errors.New("it is a directory"), Do: "name a tar archive"}
	}
	return withHost(c, func(ctx context.Context, host *isolation.Host) error {
		pin, err := host.Import(ctx, tar, c.Args().Get(1), isolation.ImageConfig{
			User: c.String("user"), Env: c.StringSlice("env"), Platform: c.String("platform"),
		})
		return printPin(c, pin, err)
	})
}

func buildImage(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage(c, "images build takes one context directory, and %d arguments were given", c.NArg())
	}
	for _, needed := range []string{"file", "tag"} {
		if c.String(needed) == "" {
			return usage(c, "images build needs --%s", needed)
		}
	}
	return withHost(c, func(ctx context.Context, host *isolation.Host) error {
		pin, err := host.Build(ctx, isolation.BuildOrder{
			Containerfile: c.String("file"), ContextDir: c.Args().First(), Reference: c.String("tag"),
			Output: policy.NeutralWriter(c.App.ErrWriter),
		})
		return printPin(c, pin, err)
	})
}

func showImage(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage(c, "images show takes one reference, and %d arguments were given", c.NArg())
	}
	return withHost(c, func(ctx context.Context, host *isolation.Host) error {
		image, err := host.Image(ctx, c.Args().First())
		return printPin(c, image.Pin, err)
	})
}

// withHost starts podgrade's place on this machine for one piece of work.
func withHost(c *cli.Context, do func(context.Context, *isolation.Host) error) error {
	host, err := isolation.Start(c.Context, isolation.Options{Log: policy.NeutralWriter(c.App.ErrWriter)})
	if err != nil {
		return err
	}
	return errors.Join(do(c.Context, host), host.Close())
}

func printPin(c *cli.Context, pin oci.Pin, err error) error {
	if err != nil {
		return err
	}
	for _, line := range []struct{ name, value string }{
		{"reference", pin.Reference}, {"id", pin.ID}, {"digest", pin.Digest}, {"platform", pin.Platform},
	} {
		fmt.Fprintf(c.App.Writer, "%-10s %s\n", line.name, policy.Neutral(line.value))
	}
	return nil
}
