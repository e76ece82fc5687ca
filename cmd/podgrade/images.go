package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/regrade"
)

const imagesHelp = `Makes images in Podman's store without a registry: nothing is pulled, and the
steps of a build have no network.

import takes a tar archive of a root file system, which becomes an image of one
layer, or an image archive: what docker save or podman save wrote, or an OCI
archive. Its images keep the names that the archive gives them; REFERENCE is one
more name where it holds one image.`

func imagesCommand() *cli.Command {
	return &cli.Command{
		Name:        "images",
		Usage:       "list, import and build images, without a registry",
		Description: imagesHelp,
		Subcommands: []*cli.Command{
			{
				Name: "ls", Usage: "list the images of Podman's store that have a name",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "those without a name too, which takes Podman long"},
					&cli.BoolFlag{Name: "json", Usage: "print JSON"},
					scratchFlag(),
				},
				OnUsageError: usageError, Action: listImages,
			},
			{
				Name: "import", Usage: "make images of an archive", ArgsUsage: "TAR [REFERENCE]",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "user", Usage: "the image's `USER`"},
					&cli.StringSliceFlag{Name: "env", Usage: "a variable of the image, `NAME=VALUE`"},
					&cli.StringFlag{Name: "platform", Usage: "`OS/ARCH[/VARIANT]` instead of this machine's"},
					maxSizeFlag("TAR"),
					scratchFlag(),
				},
				OnUsageError: usageError, Action: importImage,
			},
			{
				Name: "build", Usage: "build a Containerfile on images that are in the store", ArgsUsage: "CONTEXT",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "file", Usage: "the `CONTAINERFILE`; needed"},
					&cli.StringFlag{Name: "tag", Usage: "the image's `REFERENCE`; needed"},
					scratchFlag(),
				},
				OnUsageError: usageError, Action: buildImage,
			},
			{
				Name: "show", Usage: "show what pins an image", ArgsUsage: "REFERENCE",
				Flags:        []cli.Flag{scratchFlag()},
				OnUsageError: usageError, Action: showImage,
			},
		},
		Action: needsWord,
	}
}

func importImage(c *cli.Context) error {
	if c.NArg() != 1 && c.NArg() != 2 {
		return usage(c, "images import takes a tar archive and a reference, and %s given", argumentsWere(c.NArg()))
	}
	most, err := maxSize(c)
	if err != nil {
		return err
	}
	tar, err := openToRead(c.Context, c.Args().First())
	if errors.Is(err, context.Canceled) {
		return err
	}
	if err != nil {
		return &regrade.Error{Kind: regrade.User, Tried: "import an image", Why: err, Do: "name a tar archive"}
	}
	defer tar.Close()
	if err := isolation.CheckArchive(tar); err != nil {
		return &regrade.Error{Kind: regrade.User, Tried: "import an image", On: tar.Name(), Why: err, Do: "name a tar archive"}
	}
	return withHost(c, func(ctx context.Context, host *isolation.Host) error {
		pins, err := host.ImportFile(ctx, tar, most, c.Args().Get(1), isolation.ImageConfig{
			User: c.String("user"), Env: c.StringSlice("env"), Platform: c.String("platform"),
		})
		for _, pin := range pins {
			printPin(c, pin, nil)
		}
		return err
	})
}

func buildImage(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage(c, "images build takes one context directory, and %s given", argumentsWere(c.NArg()))
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
		return usage(c, "images show takes one reference, and %s given", argumentsWere(c.NArg()))
	}
	return withHost(c, func(ctx context.Context, host *isolation.Host) error {
		image, err := host.Image(ctx, c.Args().First())
		return printPin(c, image.Pin, err)
	})
}

func listImages(c *cli.Context) error {
	if c.NArg() != 0 {
		return usage(c, "images ls takes no arguments, and %s given", argumentsWere(c.NArg()))
	}
	return withHost(c, func(ctx context.Context, host *isolation.Host) error {
		images, err := host.Images(ctx, c.Bool("all"))
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			return printJSON(c.App.Writer, images)
		}
		return printImages(c.App.Writer, images)
	})
}

// printImages prints a line for each name of an image.
func printImages(w io.Writer, images []isolation.Listed) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REFERENCE\tID\tPLATFORM\tSIZE\tMADE")
	for _, image := range images {
		names := image.References
		if len(names) == 0 {
			names = []string{"(no name)"}
		}
		for _, name := range names {
			fmt.Fprintf(t, "%s\t%.12s\t%s\t%.1f MB\t%s\n", policy.Neutral(name), policy.Neutral(image.Pin.ID),
				policy.Neutral(image.Pin.Platform), float64(image.Bytes)/1e6, image.Made.Format(time.DateOnly))
		}
	}
	return t.Flush()
}

// withHost starts podgrade's place on this machine for one piece of work.
func withHost(c *cli.Context, do func(context.Context, *isolation.Host) error) error {
	host, err := isolation.Start(c.Context, isolation.Options{Scratch: c.String("scratch"), Log: policy.NeutralWriter(c.App.ErrWriter)})
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
