package isolation

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"
)

// Docker, Podman and crane name the files of an image each in its own way.
func TestImageArchivesAreToldFromRootFileSystems(t *testing.T) {
	id := strings.Repeat("0a", 32)
	for _, test := range []struct {
		kind  archiveKind
		names []string
	}{
		{imageArchive, []string{id + ".json", id + "/layer.tar", id + "/VERSION", id + "/json", "manifest.json", "repositories"}},
		{imageArchive, []string{id + ".tar", id + ".json", "manifest.json"}},
		{imageArchive, []string{"sha256:" + id, id + ".tar.gz", "manifest.json"}}, // crane, ko, Bazel
		{imageArchive, []string{"oci-layout", "index.json", "blobs/sha256/" + id}},
		{rootFSArchive, []string{"manifest.json", "bin/sh"}},
		{rootFSArchive, []string{"sha256:" + id, id + ".tar.gz"}},
		{rootFSArchive, []string{"sha256:file", "manifest.json"}},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for _, name := range test.names {
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if kind, err := kindOfArchive(bytes.NewReader(archive.Bytes())); err != nil || kind != test.kind {
			t.Errorf("%q: kind %v, %v", test.names, kind, err)
		}
	}
}
