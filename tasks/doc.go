// Package tasks reads task files: it turns YAML, or the resolved task of a
// record, into typed values, merges the layers that a row is made of, expands
// datasets, and explains every mistake with file, line and column.
//
// A Task is what was asked. Load gives the task of one file; Resolve merges the
// default experiment, the experiment, the file, the variant and the command
// line into rows; FromRecord gives the task of a record. The package starts
// nothing and reads only the files that it is told to read.
//
// The rules are those of spec/task-file.md; comments name its sections as
// "task-file 1.2".
//
// The fields of the types carry two struct tags. json is the key in the file
// and in the record. task holds what the decoder, the layer merge, the -D paths
// and the JSON Schema all need to know, separated by commas:
//
//	required        the key must be written
//	default=V       what a missing key means
//	null            null is allowed and means the zero value
//	min=N max=N     bounds of a number, or of the length of a list
//	above=N         exclusive lower bound
//	finite          neither NaN nor infinite
//	nonblank        not empty once trimmed
//	enum=a|b        the allowed values
//	append          a later layer adds to the list, it does not replace it
//	alias=KEY       a second spelling of the key
//	kinds=a|b       the key exists only for these values of the block's type key
package tasks
