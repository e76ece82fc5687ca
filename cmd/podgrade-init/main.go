// Command podgrade-init is PID 1 of every cell, and under other names stands in
// for recorded commands. It is started by an engine, never by hand; package
// supervisor says what it does.
package main

import (
	"os"

	"podgrade/isolation/supervisor"
)

func main() {
	os.Exit(supervisor.Main(os.Args))
}
