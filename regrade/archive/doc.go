// Package archive is the one file that rows travel in: what it holds, how it is
// written, and how it is read without believing anything in it.
//
// It is a tar archive of a fixed form: the manifest, the sum of the manifest,
// and then the parts in the order in which the manifest names them, each a
// plain file with a header that follows from its name and its size. So there is
// one text for each content, and no byte that nobody checks: whichever one is
// changed, the reader names the part that holds it. The parts oci-layout,
// index.json and blobs/ make the same file an OCI archive, which other programs
// read the images from.
package archive
