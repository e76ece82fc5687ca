// Package python gives the few semantics of Python that a task file is written
// against: what a text is, how a float or a JSON document reads, when two
// values are equal, what a regular expression matches, how a shell line
// splits. Each is proved against python3 by a differential test.
//
// Every input is untrusted: each function is bounded in memory and none
// panics.
package python
