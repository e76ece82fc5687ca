// Package report makes of a run what people and other programs read: pages in
// Markdown and HTML, and JUnit.
//
// Every string of a run may come from a stranger's record. In Markdown it
// stands in a code span, in HTML and XML it is escaped, and nowhere does it
// bring a control character, an escape sequence or markup of its own
// (design: Promises, 15).
package report
