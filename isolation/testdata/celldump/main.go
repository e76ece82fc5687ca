// Celldump prints what a command finds around it, one fact a line, in a fixed
// form: the tests compare what it prints in the cells of both engines. It runs
// in any image: static, and of the standard library and x/sys only.
//
// Facts that no two cells share (process numbers, inode and device numbers,
// times) are left out or turned into what is the same in every cell.
package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
)

// fact is one line of the dump, or several when it has lines of its own.
type fact struct {
	name  string
	value func() (string, error)
}

// firstUserNamespace is the kernel's own: no cell is in it.
const firstUserNamespace = "user:[4026531837]"

func main() {
	if namespace, err := os.Readlink("/proc/self/ns/user"); err != nil || namespace == firstUserNamespace {
		fmt.Fprintln(os.Stderr, "celldump tries what a cell must forbid: it runs in a cell only")
		os.Exit(2)
	}
	out := bufio.NewWriter(os.Stdout)
	for _, f := range slices.Concat(processFacts, identityFacts, kernelFacts, fileFacts) {
		value, err := f.value()
		if err != nil {
			value = "error: " + err.Error()
		}
		fmt.Fprintf(out, "%s: %s\n", f.name, value)
	}
	if err := out.Flush(); err != nil {
		os.Exit(1)
	}
}
