// Package criteria judges one row: one file a criterion, and the gate over
// their results. A criterion sees the place where it is graded only through
// Cell, so each is tested without a container.
//
// Check ends in one of three ways. It gives a Result for every criterion,
// which may say that it failed. Or an *AuthorError: the task asks for what
// cannot be checked, and the row is an ERROR. Or an *InfrastructureError: the
// place was lost or a judge cannot be reached, nothing is known about the row,
// and it can be graded again. A criterion's own trouble (a missing file, text
// that is not UTF-8, a directory instead of a file) is a Result with score 0.0
// and its error set, in the form "<Python exception>: <message>" that records
// of the compatible system have.
//
// Rules come from spec/task-file.md 7 and 9 and spec/run-record.md 2.3 to 2.5;
// comments name the section.
package criteria
