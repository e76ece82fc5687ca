package isolation_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
)

// halve makes of an image what a Podman leaves that is killed while it makes one: the
// image is in the list, and its manifest is not.
func halve(t *testing.T, id string) {
	t.Helper()
	images := filepath.Join(os.Getenv(dataVariable), "overlay-images")
	list := filepath.Join(images, "images.json")
	text, err := os.ReadFile(list)
	must(t, err)
	var entries []map[string]any
	must(t, json.Unmarshal(text, &entries))
	found := slices.IndexFunc(entries, func(e map[string]any) bool { return e["id"] == id })
	if found < 0 {
		t.Fatalf("no image %s in %s", id, text)
	}
	items := entries[found]["big-data-names"].([]any)
	entries[found]["big-data-names"] = slices.DeleteFunc(items, func(item any) bool { return item == "manifest" })
	for _, about := range []string{"big-data-sizes", "big-data-digests"} {
		delete(entries[found][about].(map[string]any), "manifest")
	}
	text, err = json.Marshal(entries)
	must(t, err)
	must(t, os.Remove(filepath.Join(images, id, "manifest")))
	must(t, os.WriteFile(list, text, 0o600))
}

// An image that a killed Podman left half made is in the way of what has a layer in
// common with it, and of every list: it is named with what removes it, and gc does,
// but for one that may be in the making, and nothing else.
func TestAHalfMadeImageIsNamedAndRemoved(t *testing.T) {
	h := ownStore(t)
	made := func(label string) (isolation.Image, error) {
		pin, err := h.Import(ctx(t), bytes.NewReader(make([]byte, 1024)), "localhost/podgrade-test/half:1", isolation.ImageConfig{Labels: map[string]string{"is": label}})
		if err != nil {
			return isolation.Image{}, err
		}
		return h.ImageByPin(ctx(t), pin)
	}
	first, err := made("first")
	must(t, err)
	podman(t, h, "manifest", "create", "localhost/podgrade-test/many:1")
	halve(t, first.Pin.ID)
	named := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, isolation.ErrHalfMade) || !strings.Contains(err.Error(), "podman rmi "+first.Pin.ID) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = made("second")
	named("an image of the same layer", err)
	_, err = h.Images(ctx(t), true)
	named("the list", err)

	o := options(t)
	o.Scratch = t.TempDir()
	sweep := func(dryRun bool, want ...string) {
		t.Helper()
		swept, err := isolation.Sweep(ctx(t), o, dryRun)
		must(t, err)
		var got []string
		for _, l := range swept.Left {
			if l.Kind != isolation.LeftoverImage || l.Removed == dryRun || l.Problem != "" || l.Made.IsZero() {
				t.Errorf("%+v", l)
			}
			got = append(got, l.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("swept %v, want %v", got, want)
		}
	}
	sweep(false) // it may be in the making
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(filepath.Join(os.Getenv(dataVariable), "overlay-images", first.Pin.ID), old, old))
	sweep(true, first.Pin.ID)
	sweep(false, first.Pin.ID)
	sweep(false)
	third, err := made("third")
	must(t, err)
	// One that was found, and was made whole before it was removed, has the same id.
	if err := h.RemoveHalfMade(ctx(t), third.Pin.ID); err == nil || !strings.Contains(err.Error(), "not half made any more") {
		t.Error(err)
	}
	if _, err := h.Image(ctx(t), third.Pin.ID); err != nil {
		t.Error(err)
	}
	if list, err := h.Images(ctx(t), true); err != nil || len(list) < 2 {
		t.Errorf("%+v, %v", list, err)
	}
}
