// Command podgrade-worker is the bundle engine's worker; podgrade starts it.
package main

import (
	"os"

	"podgrade/isolation/worker"
)

func main() { os.Exit(worker.Main(os.Args)) }
