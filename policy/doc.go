// Package policy decides what a row may have beyond the seal of its cell.
//
// A record is untrusted: it would otherwise choose what runs on this machine,
// in which image, with which of the caller's variables and files. Grants lists
// all of that, one value each, before anything has happened; Consent turns the
// list into an Accepted, or into a Refusal. Only an Accepted opens a cell, and
// only this package can make one, so no other package needs to read a
// grantable field of a recorded task (design: Trust).
package policy
