// Command podgrade-libpod asks Podman's service what podgrade wants to know;
// podgrade starts it.
package main

import (
	"os"

	"podgrade/isolation/libpod/calls"
)

func main() { os.Exit(calls.Main(os.Args)) }
