package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
	"podgrade/isolation/tree"
)

// The stages that read and write archives of trees, in the worker's namespaces:
// there owners of the caller's subordinate ids can be read and given.
const (
	// StagePack writes the tree at standard input to standard output. Its argument
	// are tree.PackOptions as JSON; what it packed it says on standard error.
	StagePack = "pack"
	// StagePackLayer does the same with a kept state layer; its argument are
	// PackLayer as JSON.
	StagePackLayer = "pack-layer"
	// StageUnpack reads an archive from standard input and makes the tree in the
	// directory at standard output. Its argument are tree.UnpackOptions as JSON.
	StageUnpack = "unpack"
)

// ExitNoSpace is how a stage ends for which a disk had no room.
const ExitNoSpace = 3

// stageBuffer makes few writes of many small ones.
const stageBuffer = 256 << 10

// PackLayer says which layer is packed.
type PackLayer struct {
	State string `json:"state"` // the directory of its state
}

func pack[Options any](args []string, how func(ctx context.Context, to *bufio.Writer, dir int, o Options) (tree.Packed, error)) error {
	var o Options
	if err := stageOptions(args, &o); err != nil {
		return err
	}
	dir, err := openHere(0)
	if err != nil {
		return fmt.Errorf("open the tree: %w", err)
	}
	defer unix.Close(dir)
	count := &counting{to: os.Stdout}
	out := bufio.NewWriterSize(count, stageBuffer)
	packed, err := how(context.Background(), out, dir, o)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stderr).Encode(PackSaid{Packed: packed, Written: count.written})
}

// PackSaid is what the stages that pack say on standard error.
type PackSaid struct {
	tree.Packed
	Written int64 `json:"written"` // bytes of the archive
}

type counting struct {
	to      *os.File
	written int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.written += int64(n)
	return n, err
}

func packTree(ctx context.Context, to *bufio.Writer, dir int, o tree.PackOptions) (tree.Packed, error) {
	return tree.Pack(ctx, to, dir, o)
}

func packLayer(ctx context.Context, to *bufio.Writer, dir int, o PackLayer) (tree.Packed, error) {
	hollow, err := states.HollowOf(o.State)
	if err != nil {
		return tree.Packed{}, err
	}
	layer, err := tree.WriteLayer(ctx, to, dir, tree.LayerOptions{Hollow: hollow})
	return tree.Packed{Entries: layer.Entries, Bytes: layer.Bytes}, err
}

func unpack(args []string) error {
	var o tree.UnpackOptions
	if err := stageOptions(args, &o); err != nil {
		return err
	}
	dir, err := openHere(1)
	if err != nil {
		return fmt.Errorf("open the directory: %w", err)
	}
	defer unix.Close(dir)
	from := bufio.NewReaderSize(os.Stdin, stageBuffer)
	if err := tree.Unpack(context.Background(), from, dir, o); err != nil {
		return err
	}
	// Whoever gives the archive sums it up to its end.
	if _, err := io.Copy(io.Discard, from); err != nil {
		return err
	}
	return unix.Syncfs(dir)
}

func stageOptions(args []string, o any) error {
	if len(args) != 1 {
		return errors.New("this stage takes its options")
	}
	return json.Unmarshal([]byte(args[0]), o)
}
