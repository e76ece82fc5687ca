package policy

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Prefixes of keys as text.
const (
	publicPrefix  = "ed25519:"
	privatePrefix = "ed25519-private:"
)

// KeyText is a public key as text.
func KeyText(key ed25519.PublicKey) string {
	return publicPrefix + base64.StdEncoding.EncodeToString(key)
}

// ParseKey reads a public key, ed25519:BASE64.
func ParseKey(text string) (ed25519.PublicKey, error) {
	encoded, found := strings.CutPrefix(text, publicPrefix)
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !found || err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is no public key: it should be %s and %d bytes in base64", Clip(text, 100), publicPrefix, ed25519.PublicKeySize)
	}
	return key, nil
}

// Keys hold the key that rows are signed with, this user's own. Many rows may
// use them at once.
type Keys struct {
	// Dir holds the key, and what was signed with it; it is made with the key.
	Dir string

	mu    sync.Mutex
	own   ed25519.PrivateKey
	notes ledger
}

// Public is this user's own public key as text. The key is made when there is
// none yet.
func (k *Keys) Public() (string, error) {
	key, err := k.private(true)
	if err != nil {
		return "", err
	}
	return KeyText(key.Public().(ed25519.PublicKey)), nil
}

// private is this user's own key; nil when there is none and none is to be
// made.
func (k *Keys) private(create bool) (ed25519.PrivateKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.own != nil {
		return k.own, nil
	}
	if k.Dir == "" {
		return nil, errors.New("neither XDG_CONFIG_HOME nor HOME nor the password database says where the signing key is")
	}
	removeDrafts(k.Dir)
	key, err := readKey(k.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return nil, nil
		}
		if err = makeKey(k.Dir); err == nil {
			key, err = readKey(k.Dir)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the signing key in %s: %w", k.Dir, err)
	}
	k.own = key
	return key, nil
}

// keyFile is the name of the key in its directory.
const keyFile = "ed25519"

// mostKeyFile bounds what is read of it, in bytes.
const mostKeyFile = 4 << 10

// openKeyDir opens the directory of the key, and refuses one that others may
// look into: they could read the key, or put theirs in its place.
func openKeyDir(dir string) (*os.Root, error) {
	named, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !named.IsDir() {
		return nil, errors.New("its directory is none")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	opened, err := root.Stat(".")
	if err == nil && !os.SameFile(named, opened) {
		err = errors.New("its directory changed while it was opened")
	}
	if err == nil {
		err = private(opened, "its directory", "chmod 700 it")
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// private refuses what is not this user's own, or what others may use.
func private(info fs.FileInfo, what, do string) error {
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", what)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s has mode %#o, so that others may use the key: make a new one, or %s when nobody has", what, mode, do)
	}
	return nil
}

// readKey reads the key; fs.ErrNotExist when there is none.
func readKey(dir string) (ed25519.PrivateKey, error) {
	root, err := openKeyDir(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	named, err := root.Lstat(keyFile)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", keyFile)
	}
	file, err := root.OpenFile(keyFile, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	opened, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(named, opened) {
		return nil, fmt.Errorf("%s changed while it was opened", keyFile)
	}
	if err := private(opened, keyFile, "chmod 600 it"); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, mostKeyFile))
	if err != nil {
		return nil, err
	}
	return parsePrivate(string(text))
}

// parsePrivate finds the one line that is no comment.
func parsePrivate(text string) (ed25519.PrivateKey, error) {
	var seed []byte
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		encoded, found := strings.CutPrefix(line, privatePrefix)
		decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if !found || err != nil || len(decoded) != ed25519.SeedSize || seed != nil {
			return nil, fmt.Errorf("%s does not hold one line of %s and %d bytes in base64", keyFile, privatePrefix, ed25519.SeedSize)
		}
		seed = decoded
	}
	if seed == nil {
		return nil, fmt.Errorf("%s holds no key", keyFile)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// makeKey makes the key, all of it or nothing. When another podgrade makes one
// at the same time, whichever comes first is the key.
func makeKey(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := openKeyDir(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("# The key that podgrade signs the rows of this user with.\n# Whoever has it can sign as this user. Its public key:\n# %s\n%s%s\n",
		KeyText(public), privatePrefix, base64.StdEncoding.EncodeToString(key.Seed()))
	var random [8]byte
	rand.Read(random[:])
	draft := keyFile + "." + hex.EncodeToString(random[:]) + draftEnd
	defer root.Remove(draft)
	if err := writeKey(root, draft, text); err != nil {
		return err
	}
	if err := placeKey(root, draft); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(root)
}

// linkKey makes a hard link; replaced by a test.
var linkKey = (*os.Root).Link

// placeKey gives the draft the name of the key, and never replaces a key: by a
// hard link, or on a file system without those by a rename.
func placeKey(root *os.Root, draft string) error {
	err := linkKey(root, draft, keyFile)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, opening := root.Open(".")
	if opening != nil {
		return err
	}
	defer dir.Close()
	switch renaming := unix.Renameat2(int(dir.Fd()), draft, int(dir.Fd()), keyFile, unix.RENAME_NOREPLACE); renaming {
	case nil:
		return nil
	case unix.EEXIST:
		return fs.ErrExist
	default:
		return fmt.Errorf("%w; and it could not be renamed: %w", err, renaming)
	}
}

// draftEnd ends the name of a key that is being made.
const draftEnd = ".tmp"

// draftAge is how old a draft is before whoever made it must be gone: to make a
// key takes no second.
const draftAge = time.Minute

// removeDrafts removes what a podgrade that was killed has left while it made the
// key: it is a private key too. What cannot be removed is left, as a key that
// cannot be used is.
func removeDrafts(dir string) {
	root, err := openKeyDir(dir)
	if err != nil {
		return
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	for _, entry := range entries {
		random, front := strings.CutPrefix(entry.Name(), keyFile+".")
		random, end := strings.CutSuffix(random, draftEnd)
		if _, err := hex.DecodeString(random); err != nil || !front || !end {
			continue
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > draftAge {
			root.Remove(entry.Name())
		}
	}
}

func writeKey(root *os.Root, name, text string) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncDir(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
