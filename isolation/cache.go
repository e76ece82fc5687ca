package isolation

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// What podgrades keep for each other in the user's cache is their own to read: mode
// 0600. It is written whole or not at all, and that it cannot be costs time only.

// readOwn reads a file of the cache, that is not older than an age and not larger than
// max bytes; none where it is not as replace leaves it.
func readOwn(path string, age time.Duration, max int64) ([]byte, bool) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 || info.Size() > max ||
		time.Since(info.ModTime()) > age || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return nil, false
	}
	text, err := io.ReadAll(io.LimitReader(file, max))
	return text, err == nil
}

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
