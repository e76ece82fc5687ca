// Package record reads and writes run directories: the record of a row
// (task.json), the summary of a run (run.json), and the names, statuses and
// stamps that stand in them.
//
// A record is untrusted input, and it belongs to someone else: it may come
// from another host, another version or another program. So it is kept as an
// ordered document whose untouched members are written back byte for byte,
// reading is bounded in size and depth, and no file is opened or replaced
// through a link (spec/run-record.md 1.4, 2.1).
package record
