package testimages_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation/testimages"
)

// entries reads an archive into its headers, by name without a final slash.
func entries(t *testing.T, image testimages.Image) map[string]*tar.Header {
	t.Helper()
	stream := image.Open()
	defer stream.Close()
	found := map[string]*tar.Header{}
	for r := tar.NewReader(stream); ; {
		h, err := r.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
		if found[name] != nil && h.Typeflag != tar.TypeDir {
			t.Errorf("%s has %s twice", image.Reference, name)
		}
		found[name] = h
	}
}

func TestImagesHoldWhatTheirNamesSay(t *testing.T) {
	for _, c := range []struct {
		image   testimages.Image
		want    []string
		without []string
	}{
		{testimages.Busybox(), []string{"bin/busybox", "bin/sh", "etc/passwd", "etc/group", "tmp", "home/grader"}, []string{"opt/byod_marker"}},
		{testimages.BYOD(), []string{"bin/sh", "opt/byod_marker"}, nil},
		{testimages.Empty(), []string{"hello.txt"}, []string{"bin", "bin/sh", "etc/passwd"}},
		{testimages.Bare(testimages.BusyboxPath), []string{"busybox"}, []string{"bin/sh", "etc"}},
		{testimages.ManyFiles(250), []string{"many/0000/00", "many/0002/49"}, []string{"many/0002/50"}},
		{testimages.Workbench(), []string{"usr/bin/git", "usr/bin/python3", "bin/dash"}, nil},
		{testimages.Debian(), []string{"usr/bin/python3", "etc/passwd", "home/grader"}, []string{"dev/zero", "etc/hostname", "etc/resolv.conf"}},
	} {
		t.Run(c.image.Reference, func(t *testing.T) {
			found := entries(t, c.image)
			for _, name := range c.want {
				if found[name] == nil {
					t.Errorf("%s is not there", name)
				}
			}
			for _, name := range c.without {
				if found[name] != nil {
					t.Errorf("%s is there", name)
				}
			}
			for name, h := range found {
				if h.ModTime.Unix() != 0 || h.Uname != "" {
					t.Errorf("%s depends on the machine: time %v, owner %q", name, h.ModTime, h.Uname)
				}
				if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
					t.Errorf("%s is a device, which cannot be imported rootless", name)
				}
			}
		})
	}
}

func TestArchivesAreTheSameEachTime(t *testing.T) {
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := testimages.BYOD().WriteTar(w); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of one image differ")
	}
}

func TestBusyboxAsKeepsTheUser(t *testing.T) {
	for user, reference := range map[string]string{
		"1000":                "localhost/podgrade-test/busybox-as:1000",
		"65532:65532":         "localhost/podgrade-test/busybox-as:65532-65532",
		testimages.GraderName: "localhost/podgrade-test/busybox-as:grader",
	} {
		image := testimages.BusyboxAs(user)
		if image.Config.User != user || image.Reference != reference {
			t.Errorf("BusyboxAs(%q) is %s of user %q, want %s", user, image.Reference, image.Config.User, reference)
		}
	}
}

func TestBareRefusesWhatIsNoStaticProgram(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{script, "/bin/ls", script + ".missing"} {
		if err := testimages.Bare(program).WriteTar(io.Discard); err == nil {
			t.Errorf("an image of %s was made", program)
		}
	}
}

func TestAnErrorReachesTheReader(t *testing.T) {
	stream := testimages.Bare("/nonexistent").Open()
	defer stream.Close()
	if _, err := io.ReadAll(stream); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("reading a broken image gave %v", err)
	}
}
