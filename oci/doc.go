// Package oci holds the pure part of a cell: what it needs (Plan), the OCI
// runtime specification that follows from it (Spec), the identity of its image
// (Pin), and the comparison of a started cell with that specification (Verify).
//
// Nothing in this package starts a process or touches a file, so that every
// rule about what a cell may be can be read, and tested, without a container.
package oci
