// Package testimages makes the images that tests and the demo run cells on,
// as root file system archives, with no registry: from the static busybox of
// this machine, from a Debian tree that .ci/prepare keeps, or from nothing.
//
// The same inputs give the same bytes (sorted names, owner 0, time 0), so that
// an image imported twice has the same layer twice.
package testimages

import (
	"fmt"
	"io"
)

// Config is the part of an image's configuration that tests choose. It is
// given to whatever imports the archive.
type Config struct {
	User       string // "", name, uid or uid:gid
	Env        []string
	WorkingDir string
	Volumes    []string
	Labels     map[string]string
}

// Image is one image of the tests: a name, a configuration, and a root file
// system that is written when it is asked for.
type Image struct {
	// Reference is the name that tests import it under. It starts with
	// "localhost/", so nothing can be asked of a registry for it.
	Reference string
	Config    Config

	write func(*archive) error
}

// WithConfig returns the same root file system under another name and
// configuration.
func (i Image) WithConfig(reference string, config Config) Image {
	i.Reference, i.Config = reference, config
	return i
}

// WriteTar writes the root file system to w as a tar archive.
func (i Image) WriteTar(w io.Writer) error {
	a := newArchive(w)
	if err := i.write(a); err != nil {
		return fmt.Errorf("making the test image %s: %w", i.Reference, err)
	}
	if err := a.close(); err != nil {
		return fmt.Errorf("making the test image %s: %w", i.Reference, err)
	}
	return nil
}

// Open returns the archive as a stream. An error of WriteTar is what the
// stream's Read returns. The caller closes it, whether it was read to the end
// or not.
func (i Image) Open() io.ReadCloser {
	r, w := io.Pipe()
	go func() { w.CloseWithError(i.WriteTar(w)) }()
	return r
}
