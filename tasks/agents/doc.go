// Package agents knows the programs that work on a task: how a turn of each is
// started, and what its output says. It starts nothing itself: the execute
// phase does, in the row's cell.
//
// A new agent is a file with a type that implements Agent, and a line in
// builtin.
package agents
