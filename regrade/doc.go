// Package regrade is the life of a row: it lets an agent work on a task in a
// cell and records what it left, grades that, in another cell of the row's own
// image or on the host, and folds the verdict back into the record
// (spec/regrade.md 1).
package regrade
