package isolation_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// importFile imports a file on a host.
func importFile(t *testing.T, h *isolation.Host, file, name string, config isolation.ImageConfig) ([]oci.Pin, error) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return h.ImportFile(ctx(t), f, 0, name, config)
}

// What docker save writes, and an OCI archive, come back as the image that
// they were made of, under its own name and under the one that is given.
func TestImageArchivesComeBackAsTheImagesTheyWere(t *testing.T) {
	from := ownStore(t)
	i := importOn(t, from, testimages.BusyboxAs("1000"))
	dir := t.TempDir()
	files := map[string]string{}
	for _, format := range []string{"docker-archive", "oci-archive"} {
		files[format] = filepath.Join(dir, format+".tar")
		if _, err := from.RunPodman(ctx(t), "save", "--format", format, "--output", files[format], i.Pin.Reference); err != nil {
			t.Fatal(err)
		}
	}
	files["compressed"] = filepath.Join(dir, "compressed.tar.gz")
	compress(t, files["docker-archive"], files["compressed"])
	for format, file := range files {
		t.Run(format, func(t *testing.T) {
			h := ownStore(t)
			if _, err := importFile(t, h, file, "", isolation.ImageConfig{User: "0"}); faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), "a configuration of its own") {
				t.Errorf("with a user: %v", err)
			}
			pins, err := importFile(t, h, file, "localhost/again:1", isolation.ImageConfig{})
			if err != nil || len(pins) != 1 {
				t.Fatalf("%v, %v", pins, err)
			}
			if pins[0].ID != i.Pin.ID || pins[0].Reference != "localhost/again:1" {
				t.Errorf("it came back as %s, and was %s", pins[0], i.Pin)
			}
			for _, name := range []string{"localhost/again:1", i.Pin.Reference} {
				if found, err := h.Image(ctx(t), name); err != nil || found.User != "1000" {
					t.Errorf("%s: %+v, %v", name, found, err)
				}
			}
			listed, err := h.Images(ctx(t), false)
			if err != nil || len(listed) != 1 || listed[0].Pin.ID != i.Pin.ID || listed[0].Bytes == 0 || listed[0].Made.IsZero() {
				t.Fatalf("the list is %+v, %v", listed, err)
			}
			if names := listed[0].References; !slices.Contains(names, "localhost/again:1") || !slices.Contains(names, i.Pin.Reference) {
				t.Errorf("its names are %q", names)
			}
		})
	}
}

func compress(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err = z.Write(content)
	if err := errors.Join(err, z.Close(), os.WriteFile(to, out.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// A root file system may come through a pipe, compressed, and needs a name.
func TestARootFileSystemComesThroughAPipe(t *testing.T) {
	h := host(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	go func() {
		z := gzip.NewWriter(write)
		testimages.Busybox().WriteTar(z)
		z.Close()
		write.Close()
	}()
	pins, err := h.ImportFile(ctx(t), read, 0, "localhost/podgrade-test/piped:1", isolation.ImageConfig{User: "grader", Env: []string{"A=b c=d"}})
	if err != nil || len(pins) != 1 {
		t.Fatalf("%v, %v", pins, err)
	}
	found, err := h.ImageByPin(ctx(t), pins[0])
	if err != nil || found.User != "grader" || !slices.Contains(found.Env, "A=b c=d") {
		t.Fatalf("%+v, %v", found, err)
	}
	want(t, openOn(t, h, order(t, found)), "id -un", "grader\n")
}

// What makes no sense is refused before Podman is asked, in our words.
func TestAnImportThatMakesNoSenseIsRefused(t *testing.T) {
	h := host(t)
	dir := t.TempDir()
	rootfs, text, broken := filepath.Join(dir, "rootfs.tar"), filepath.Join(dir, "text"), filepath.Join(dir, "broken.tar")
	var whole bytes.Buffer
	if err := testimages.Busybox().WriteTar(&whole); err != nil {
		t.Fatal(err)
	}
	manifest := new(bytes.Buffer)
	w := tar.NewWriter(manifest)
	err := errors.Join(w.WriteHeader(&tar.Header{Name: "manifest.json", Size: 4, Mode: 0o644}), func() error { _, err := io.WriteString(w, "[{]}"); return err }(), w.Close())
	archive := filepath.Join(dir, "archive.tar")
	if err := errors.Join(err, os.WriteFile(rootfs, whole.Bytes(), 0o600), os.WriteFile(text, []byte("no archive at all, but some text\n"), 0o600),
		os.WriteFile(broken, append(slices.Clone(manifest.Bytes()[:1024]), bytes.Repeat([]byte("x"), 1024)...), 0o600), os.WriteFile(archive, manifest.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	const name = "localhost/podgrade-test/senseless:1"
	for _, test := range []struct {
		file, name string
		config     isolation.ImageConfig
		says       string
		kind       isolation.FaultKind
	}{
		{rootfs, name, isolation.ImageConfig{Platform: "amd64"}, "linux/ARCH", isolation.Refusal},
		{rootfs, name, isolation.ImageConfig{Platform: "windows/amd64"}, "linux/ARCH", isolation.Refusal},
		{rootfs, name, isolation.ImageConfig{Platform: "linux/pdp11"}, "no such platform", isolation.Refusal},
		{rootfs, name, isolation.ImageConfig{Env: []string{"NOTHING"}}, "NAME=VALUE", isolation.Refusal},
		{rootfs, name, isolation.ImageConfig{Env: []string{"1=2"}}, "NAME=VALUE", isolation.Refusal},
		{rootfs, name, isolation.ImageConfig{Env: []string{"A=b\nUSER root"}}, "one line", isolation.Refusal},
		{rootfs, name, isolation.ImageConfig{User: "a b"}, "no user", isolation.Refusal},
		{rootfs, name, isolation.ImageConfig{User: "0:0:0"}, "no user", isolation.Refusal},
		{rootfs, name, isolation.ImageConfig{User: "-1"}, "no user", isolation.Refusal},
		{rootfs, "", isolation.ImageConfig{}, "names no image", isolation.Refusal},
		{rootfs, "Upper/Case", isolation.ImageConfig{}, "name an image", isolation.Refusal},
		{rootfs, "localhost/x@sha256:" + strings.Repeat("0", 64), isolation.ImageConfig{}, "found out, not given", isolation.Refusal},
		{text, name, isolation.ImageConfig{}, "no tar archive", isolation.Refusal},
		{broken, name, isolation.ImageConfig{}, "is damaged after", isolation.Refusal},
		{archive, name, isolation.ImageConfig{}, "podman said", isolation.Infrastructure},
	} {
		pins, err := importFile(t, h, test.file, test.name, test.config)
		if err == nil {
			t.Errorf("%s as %q with %+v: %v", test.file, test.name, test.config, pins)
		} else if !strings.Contains(err.Error(), test.says) || faultKind(err) != test.kind || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s as %q with %+v: kind %v: %v", test.file, test.name, test.config, faultKind(err), err)
		}
	}
	if _, err := h.Image(ctx(t), name); !errors.Is(err, isolation.ErrNoImage) {
		t.Errorf("an image came of it: %v", err)
	}
}

// What a build lacks is named by the path that was given.
func TestABuildNamesWhatItLacks(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "Containerfile")
	if err := os.WriteFile(file, []byte("FROM localhost/podgrade-test/nowhere:1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(dir, "long")
	if err := os.WriteFile(long, []byte("FROM scratch\nENV A="+strings.Repeat("x", 64<<10)+"\nENV B=lost\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const reference = "localhost/podgrade-test/lacking:1"
	for _, test := range []struct {
		order isolation.BuildOrder
		says  []string
		kind  isolation.FaultKind
	}{
		{isolation.BuildOrder{Containerfile: "not/here", ContextDir: dir, Reference: reference}, []string{"from the Containerfile not/here: no such file"}, isolation.Refusal},
		{isolation.BuildOrder{Containerfile: dir, ContextDir: dir, Reference: reference}, []string{dir, "no regular file"}, isolation.Refusal},
		{isolation.BuildOrder{Containerfile: long, ContextDir: dir, Reference: reference}, []string{long, "line 2 has 65536 bytes or more", "backslash"}, isolation.Refusal},
		{isolation.BuildOrder{Containerfile: file, ContextDir: dir + "/none", Reference: reference}, []string{dir + "/none: no such file"}, isolation.Refusal},
		{isolation.BuildOrder{Containerfile: file, ContextDir: file, Reference: reference}, []string{file, "no directory"}, isolation.Refusal},
		{isolation.BuildOrder{Containerfile: file, ContextDir: dir, Reference: "A B"}, []string{"name an image A B"}, isolation.Refusal},
		{isolation.BuildOrder{Containerfile: file, ContextDir: dir, Reference: reference}, []string{"localhost/podgrade-test/nowhere:1", "podgrade images ls"}, isolation.Infrastructure},
	} {
		_, err := host(t).Build(ctx(t), test.order)
		if err == nil {
			t.Errorf("%+v was built", test.order)
			continue
		}
		for _, words := range test.says {
			if !strings.Contains(err.Error(), words) || faultKind(err) != test.kind {
				t.Errorf("kind %v: %v", faultKind(err), err)
			}
		}
	}
	// A Containerfile that lies outside of the context is read from where it is.
	if err := os.WriteFile(file, []byte("FROM "+as(t, "").Pin.Reference+"\nCOPY hello /hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	context := t.TempDir()
	if err := os.WriteFile(filepath.Join(context, "hello"), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := host(t).Build(ctx(t), isolation.BuildOrder{Containerfile: file, ContextDir: context, Reference: reference}); err != nil {
		t.Error(err)
	}
}

// A step of a build has loopback and no other interface, and no route.
func TestStepsOfABuildHaveNoNetwork(t *testing.T) {
	i := built(t, "localhost/podgrade-test/built:network", "RUN sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' ' >/net; wc -l </proc/net/route >>/net\n", map[string]string{})
	want(t, open(t, i, nil), "cat /net", "lo\n1\n")
}
