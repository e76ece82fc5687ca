// Package regrade is the life of a row after its agent: it grades what the
// agent left, in a cell of the row's own image or on the host, and folds the
// verdict back into the record (spec/regrade.md 1).
package regrade
