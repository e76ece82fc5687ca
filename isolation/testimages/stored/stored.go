// Package stored puts the test images into Podman's store once for a user, and
// not once for every test: to import an image takes a second of a processor,
// that of a Debian several, and to find one again a twentieth.
package stored

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// Put returns the image of this name and content in the host's store, which is
// imported when the store has it not, or has it under another name only.
func Put(ctx context.Context, host *isolation.Host, image testimages.Image) (oci.Pin, error) {
	note, err := noteOf(image)
	if err != nil {
		return oci.Pin{}, err
	}
	if pin, ok := find(ctx, host, note, image.Reference); ok {
		return pin, nil
	}
	tar := image.Open()
	defer tar.Close()
	pin, err := host.Import(ctx, tar, image.Reference, Config(image))
	if err != nil {
		return oci.Pin{}, err
	}
	return pin, write(note, pin)
}

// Config is an image's configuration as an import takes it.
func Config(image testimages.Image) isolation.ImageConfig {
	c := image.Config
	return isolation.ImageConfig{User: c.User, Env: c.Env, WorkingDir: c.WorkingDir, Volumes: c.Volumes, Labels: c.Labels}
}

// find returns the image that was noted, when the store still has it and its
// name leads to it.
func find(ctx context.Context, host *isolation.Host, note, reference string) (oci.Pin, bool) {
	text, err := os.ReadFile(note)
	if err != nil {
		return oci.Pin{}, false
	}
	var pin oci.Pin
	if json.Unmarshal(text, &pin) != nil || pin.ID == "" {
		return oci.Pin{}, false
	}
	found, err := host.ImageByPin(ctx, pin)
	if err != nil || !slices.Contains(found.References, reference) {
		return oci.Pin{}, false
	}
	return pin, true
}

// write replaces a note at once: other packages' tests write it too.
func write(note string, pin oci.Pin) error {
	text, err := json.Marshal(pin)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(note), ".note-")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), note)
	}
	return err
}

// keys are the notes of the images that this process asked for, by name.
var keys sync.Map

// noteOf is the file that says which image of the store this one is: it is
// named after all that makes the image.
func noteOf(image testimages.Image) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "podgrade-test", "images")
	if err := os.MkdirAll(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	name := fmt.Sprintf("%s %+v", image.Reference, image.Config)
	key, ok := keys.Load(name)
	if !ok {
		sum := sha256.New()
		fmt.Fprintln(sum, name)
		if err := image.WriteTar(sum); err != nil {
			return "", err
		}
		key = hex.EncodeToString(sum.Sum(nil))
		keys.Store(name, key)
	}
	return filepath.Join(dir, key.(string)), nil
}
