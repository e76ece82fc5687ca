package worker

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"syscall"
	"time"

	"podgrade/isolation/tree"
)

// mostDigests bounds the entries of the cache, and mostDigest the bytes of one.
const (
	mostDigests = 1000
	mostDigest  = 64 << 10
)

// digest is what is in the tree. A large one that has not changed since it was
// looked at last is not read again: a digest by its fingerprint lies in the
// caller's cache, outside of every run. It is there for speed alone, and only
// where the fingerprint is sound.
func (v *viewing) digest() (tree.Report, error) {
	if v.Digests == "" {
		return tree.Digest(v.ctx, v.source, v.Options)
	}
	before, err := tree.FingerprintOf(v.ctx, v.source, v.Options)
	if err != nil {
		return tree.Report{}, err
	}
	sound, _ := before.Sound(time.Now())
	if !sound {
		return tree.Digest(v.ctx, v.source, v.Options)
	}
	cache := digests{v.Digests}
	if report, found := cache.get(before.Key); found {
		return report, nil
	}
	report, err := tree.Digest(v.ctx, v.source, v.Options)
	if err != nil {
		return report, err
	}
	// What was changed while it was read has a digest of no tree.
	if after, err := tree.FingerprintOf(v.ctx, v.source, v.Options); err == nil && after.Key == before.Key {
		cache.put(before.Key, report)
	}
	return report, nil
}

// digests is the directory of the cache. It is best effort: what cannot be read
// is not there, what cannot be written is left out.
type digests struct{ dir string }

// open opens the directory, which must be the caller's alone.
func (d digests) open() (*os.Root, bool) {
	named, err := os.Lstat(d.dir)
	if err != nil || !named.IsDir() || !isOursAlone(named) {
		return nil, false
	}
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return nil, false
	}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(named, opened) {
		root.Close()
		return nil, false
	}
	return root, true
}

func isOursAlone(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && info.Mode().Perm()&0o077 == 0
}

func (d digests) get(key string) (report tree.Report, found bool) {
	root, ok := d.open()
	if !ok {
		return report, false
	}
	defer root.Close()
	info, err := root.Lstat(key)
	if err != nil || !info.Mode().IsRegular() || !isOursAlone(info) || info.Size() > mostDigest {
		return report, false
	}
	file, err := root.Open(key)
	if err != nil {
		return report, false
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostDigest))
	if err != nil || json.Unmarshal(text, &report) != nil {
		return tree.Report{}, false
	}
	sum, err := hex.DecodeString(report.Digest)
	return report, err == nil && len(sum) == 32
}

func (d digests) put(key string, report tree.Report) {
	if os.MkdirAll(d.dir, 0o700) != nil {
		return
	}
	root, ok := d.open()
	if !ok {
		return
	}
	defer root.Close()
	d.bound(root)
	text, err := json.Marshal(report)
	if err != nil || len(text) > mostDigest {
		return
	}
	var random [8]byte
	rand.Read(random[:])
	draft := key + "." + hex.EncodeToString(random[:])
	if root.WriteFile(draft, text, 0o600) != nil || root.Rename(draft, key) != nil {
		root.Remove(draft)
	}
}

// bound empties a cache that has become large: all of it is soon made again.
func (d digests) bound(root *os.Root) {
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(mostDigests + 1)
	if len(names) <= mostDigests {
		return
	}
	for _, name := range names {
		root.Remove(name)
	}
}
