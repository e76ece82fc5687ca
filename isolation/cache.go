package isolation

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// What podgrades keep for each other in the user's cache is their own to read: mode
// 0600. It is written whole or not at all, and that it cannot be costs time only.

// replace writes a file of the cache.
func replace(path string, text []byte) {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-") // of mode 0600
	if err != nil {
		return
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
}

// removeOlder removes the files of a directory that are older than an age.
func removeOlder(dir string, age time.Duration) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > age {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
