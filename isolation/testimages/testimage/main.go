// Command testimage writes the root file system of one of the test images to
// standard output as a tar archive, for scripts.
//
//	testimage busybox|byod|empty|debian|grader|many|toolbox|workbench >FILE
package main

import (
	"bufio"
	"fmt"
	"os"

	"podgrade/isolation/testimages"
)

var images = map[string]func() testimages.Image{
	"busybox":   testimages.Busybox,
	"byod":      testimages.BYOD,
	"empty":     testimages.Empty,
	"debian":    testimages.Debian,
	"grader":    func() testimages.Image { return testimages.BusyboxAs("grader") },
	"many":      func() testimages.Image { return testimages.ManyFiles(40000) },
	"toolbox":   testimages.Toolbox,
	"workbench": testimages.Workbench,
}

func main() {
	if len(os.Args) != 2 || images[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: testimage busybox|byod|empty|debian|grader|many|toolbox|workbench >FILE")
		os.Exit(2)
	}
	if err := write(images[os.Args[1]]()); err != nil {
		fmt.Fprintln(os.Stderr, "testimage:", err)
		os.Exit(1)
	}
}

func write(image testimages.Image) error {
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	if err := image.WriteTar(out); err != nil {
		return err
	}
	return out.Flush()
}
