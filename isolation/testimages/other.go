package testimages

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Empty is an image with no program at all: no shell, no libc, one text file.
// Only criteria about files can be graded in it.
func Empty() Image {
	return Image{
		Reference: "localhost/podgrade-test/empty:1",
		write: func(a *archive) error {
			return a.file("hello.txt", 0o644, []byte("hello\n"))
		},
	}
}

// Bare is an image that holds one static program, at "/" and its base name,
// and nothing else: no shell, no libc, no /etc/passwd.
func Bare(program string) Image {
	name := filepath.Base(program)
	return Image{
		Reference: "localhost/podgrade-test/bare:" + name,
		write: func(a *archive) error {
			if err := checkStatic(program); err != nil {
				return err
			}
			content, err := os.ReadFile(program)
			if err != nil {
				return err
			}
			return a.file(name, 0o755, content)
		},
	}
}

// ManyFiles is Busybox with count small files, a hundred to a directory below
// /many: an image whose removal takes long enough to be caught half-way.
func ManyFiles(count int) Image {
	return Image{
		Reference: fmt.Sprintf("localhost/podgrade-test/many:%d", count),
		write: func(a *archive) error {
			if err := writeBusybox(a); err != nil {
				return err
			}
			if err := a.dir(0o755, 0, "many"); err != nil {
				return err
			}
			return writeMany(a, count)
		},
	}
}

func writeMany(a *archive, count int) error {
	for n := range count {
		dir := fmt.Sprintf("many/%04d", n/100)
		if n%100 == 0 {
			if err := a.dir(0o755, 0, dir); err != nil {
				return err
			}
		}
		if err := a.file(fmt.Sprintf("%s/%02d", dir, n%100), 0o644, fmt.Appendf(nil, "%d\n", n)); err != nil {
			return err
		}
	}
	return nil
}

// The places where .ci/prepare keeps the Debian tree: root's, and one below
// the cache directory of an ordinary user.
const (
	debianTree     = "/var/cache/podgrade-test/debian.tar"
	debianUserTree = "podgrade-test/debian.tar"
)

// DebianPath returns where the Debian tree lies on this machine.
func DebianPath() (string, error) {
	candidates := []string{debianTree}
	if cache, err := os.UserCacheDir(); err == nil {
		candidates = append(candidates, filepath.Join(cache, debianUserTree))
	}
	for _, p := range candidates {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("no Debian tree at %s: run .ci/prepare, which makes it once", strings.Join(candidates, " or "))
}

// Debian is a small Debian: glibc, dash as /bin/sh, bash, coreutils, GNU tar,
// grep, sed and python3-minimal, unpacked and not configured, with the users
// of the busybox images.
func Debian() Image {
	return Image{
		Reference: "localhost/podgrade-test/debian:1",
		Config:    Config{Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
		write:     writeDebian,
	}
}

func writeDebian(a *archive) error {
	tree, err := DebianPath()
	if err != nil {
		return err
	}
	f, err := os.Open(tree)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := a.copyFrom(f, wantedOfDebian); err != nil {
		return fmt.Errorf("reading %s: %w", tree, err)
	}
	if err := a.dir(0o755, GraderUID, "home/grader"); err != nil {
		return err
	}
	if err := a.file("etc/passwd", 0o644, []byte(passwd)); err != nil {
		return err
	}
	return a.file("etc/group", 0o644, []byte(group))
}

// wantedOfDebian leaves out devices, which nobody can import rootless, what
// names the machine that the tree was made on, and what only package
// management reads.
func wantedOfDebian(h *tar.Header) bool {
	if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
		return false
	}
	name := path.Clean("/" + h.Name)
	if slices.Contains([]string{"/etc/hostname", "/etc/resolv.conf", "/etc/fstab", "/etc/passwd", "/etc/group"}, name) {
		return false
	}
	for _, dir := range []string{"/etc/apt/", "/var/lib/apt/", "/var/lib/dpkg/", "/var/cache/", "/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/"} {
		if strings.HasPrefix(name, dir) {
			return false
		}
	}
	return true
}
