package isolation_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/protocol"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// built makes an image from the busybox one by a Containerfile whose context
// holds the given files.
func built(t testing.TB, reference, containerfile string, files map[string]string) isolation.Image {
	t.Helper()
	from := as(t, "").Pin.Reference
	dir := t.TempDir()
	files["Containerfile"] = "FROM " + from + "\n" + containerfile
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pin, err := host(t).Build(ctx(t), isolation.BuildOrder{Containerfile: filepath.Join(dir, "Containerfile"), ContextDir: dir, Reference: reference})
	if err != nil {
		t.Fatal(err)
	}
	found, err := host(t).ImageByPin(ctx(t), pin)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A named user without a group has those of the image's own files.
func TestANamedUserHasItsGroups(t *testing.T) {
	i := built(t, "localhost/podgrade-test/built:groups", "COPY group /etc/group\nUSER grader\n", map[string]string{
		"group": "root:x:0:\ngrader:x:1000:\nstaff:x:50:nonroot,grader\naudio:x:29:grader\n",
	})
	c := open(t, i, nil)
	want(t, c, "echo $(id -un) $(id -u) $(id -g) $(id -G | tr ' ' '\\n' | sort -n)", "grader 1000 1000 29 50 1000\n")
	want(t, c, "touch x; chgrp staff x && stat -c %G x", "staff\n")
	if len(i.Layers) != 2 {
		t.Errorf("the image has the layers %q", i.Layers)
	}
}

func TestEveryUserOfAnImageCanWork(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ user, ids string }{
		{"", "0 0 0"}, {"root", "0 0 0"}, {"1000", "1000 1000 1000"}, {"65532:65532", "65532 65532 65532"}, {"grader", "1000 1000 1000"},
		{"1000:0", "1000 0 0"}, {"4242", "4242 0 0"}, {"grader:nogroup", "1000 65534 65534"}, {"65535:65535", "65535 65535 65535"},
	} {
		t.Run("user "+test.user, func(t *testing.T) {
			c := open(t, as(t, test.user), nil)
			want(t, c, "echo $(id -u) $(id -g) $(id -G)", test.ids+"\n")
			want(t, c, "stat -c '%u %a' /etc/passwd / /bin/busybox /home/grader", "0 644\n0 755\n0 755\n1000 755\n")
			home := c.Made().Home
			want(t, c, fmt.Sprintf("echo x > %[1]s/x && rm %[1]s/x && touch /tmp/x && echo more >> hello.txt", home), "")
			if root := strings.HasPrefix(test.ids, "0 "); root != (sh(t, c, "echo x >> /etc/passwd").Code == 0) {
				t.Errorf("root is %v and /etc/passwd can be written or not", root)
			}
		})
	}
}

// HOME is the user's own where it can write there.
func TestHomeIsTheUsersOwnWhereItCanBe(t *testing.T) {
	for user, home := range map[string]string{"": "/root", "1000": "/home/grader", "grader": "/home/grader", "65532:65532": oci.FallbackHomePath, "4242": oci.FallbackHomePath} {
		if got := open(t, as(t, user), nil).Made().Home; got != home {
			t.Errorf("HOME of user %q is %s, want %s", user, got, home)
		}
	}
}

func TestDebianWorksAsRootAndAsItsUser(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		image testimages.Image
		ids   string
	}{{testimages.Debian(), "0 0 0"}, {testimages.Debian().WithConfig("localhost/podgrade-test/debian-as:grader", testimages.Config{User: "grader"}), "1000 1000 1000"}} {
		t.Run(test.image.Reference, func(t *testing.T) {
			c := open(t, image(t, test.image), nil)
			want(t, c, "echo $(id -u) $(id -g) $(id -G); cat hello.txt", test.ids+"\nhello\n")
			want(t, c, `python3 -c 'print(open("hello.txt").read().strip())'`, "hello\n")
			want(t, c, "bash -c 'echo ${BASH_VERSION%%.*}' | grep -c .; tar --version | head -n 1 | cut -c 1-3", "1\ntar\n")
		})
	}
}

// A user that is not in the image, or above what the caller's namespace maps,
// is refused in words, and nothing is left of the attempt.
func TestUsersThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for user, words := range map[string][]string{
		"4000000":      {"id 4000000", "/etc/subuid"},
		"1000:4000000": {"id 4000000", "/etc/subuid"},
		"nosuchuser":   {`"nosuchuser"`, "/etc/passwd"},
		"root:nosuch":  {`"nosuch"`, "/etc/group"},
	} {
		t.Run(user, func(t *testing.T) {
			c, err := host(t).Open(ctx(t), order(t, as(t, user)))
			if err == nil {
				c.Close()
				t.Fatal("a cell was made")
			}
			if faultKind(err) != isolation.Refusal {
				t.Errorf("it is no refusal: %v", err)
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		})
	}
}

// Files are found in an image that has no program at all, and what cannot be
// run says so.
func TestAnImageWithoutProgramsAnswersQuestionsAboutFiles(t *testing.T) {
	t.Parallel()
	for _, i := range []testimages.Image{testimages.Empty(), testimages.Bare(testimages.BusyboxPath)} {
		t.Run(i.Reference, func(t *testing.T) {
			c := open(t, image(t, i), nil)
			if made := c.Made(); made.Shell != "" || made.Home != oci.FallbackHomePath {
				t.Errorf("shell %q, home %q", made.Shell, made.Home)
			}
			if file, err := c.Stat(ctx(t), oci.WorkspacePath, "hello.txt"); err != nil || file.Size != 6 || file.Type != protocol.Regular {
				t.Errorf("stat: %+v, %v", file, err)
			}
			var content bytes.Buffer
			if _, err := c.Read(ctx(t), oci.WorkspacePath, "hello.txt", 100, &content); err != nil || content.String() != "hello\n" {
				t.Errorf("read: %q, %v", content.String(), err)
			}
			if files, err := c.List(ctx(t), oci.WorkspacePath, ".", 10); err != nil || len(files) != 1 || files[0].Name != "hello.txt" {
				t.Errorf("list: %+v, %v", files, err)
			}
			for _, argv := range [][]string{{"/bin/sh", "-c", "true"}, {"sh", "-c", "true"}, {"/hello.txt"}} {
				_, err := c.Run(ctx(t), isolation.Command{Argv: argv, Env: testEnv, Dir: oci.WorkspacePath})
				if !errors.Is(err, isolation.ErrNoProgram) && !errors.Is(err, isolation.ErrDenied) {
					t.Errorf("run %q: %v", argv, err)
				}
			}
		})
	}
	c := open(t, image(t, testimages.Bare(testimages.BusyboxPath)), nil)
	if got := run(t, c, 0, "/busybox", "cat", "hello.txt"); got.Code != 0 || got.out != "hello\n" {
		t.Errorf("the one program: %+v", got)
	}
}

// Questions about paths are answered inside the cell, and what is wrong with a
// path is one of the errors that callers know.
func TestQuestionsAboutPathsHaveExactErrors(t *testing.T) {
	c := open(t, as(t, "1000"), func(o *isolation.Order) {
		for name, target := range map[string]string{"out": "/etc/passwd", "in": "hello.txt", "loop": "loop"} {
			if err := os.Symlink(target, filepath.Join(o.Workspace, name)); err != nil {
				t.Fatal(err)
			}
		}
	})
	want(t, c, "mkfifo pipe; mkdir dir; mkdir closed; chmod 0 closed; echo x > closed.txt; chmod 0 closed.txt", "")
	for _, test := range []struct {
		name       string
		stat, read error
		list       error
	}{
		{"hello.txt", nil, nil, isolation.ErrNotDir},
		{"in", nil, nil, isolation.ErrNotDir},
		{"dir", nil, isolation.ErrNotRegular, nil},
		{"pipe", nil, isolation.ErrNotRegular, isolation.ErrNotDir},
		{"closed", nil, isolation.ErrNotRegular, isolation.ErrDenied},
		{"closed.txt", nil, isolation.ErrDenied, isolation.ErrNotDir},
		{"nothing", isolation.ErrNotExist, isolation.ErrNotExist, isolation.ErrNotExist},
		{"out", isolation.ErrEscapes, isolation.ErrEscapes, isolation.ErrEscapes},
		{"../../etc/passwd", isolation.ErrEscapes, isolation.ErrEscapes, isolation.ErrEscapes},
		{"/etc/passwd", isolation.ErrEscapes, isolation.ErrEscapes, isolation.ErrEscapes},
		{"loop", isolation.ErrNotExist, isolation.ErrNotExist, isolation.ErrNotExist},
	} {
		_, stat := c.Stat(ctx(t), oci.WorkspacePath, test.name)
		_, read := c.Read(ctx(t), oci.WorkspacePath, test.name, 100, nil)
		_, list := c.List(ctx(t), oci.WorkspacePath, test.name, 100)
		if !errors.Is(stat, test.stat) || !errors.Is(read, test.read) || !errors.Is(list, test.list) {
			t.Errorf("%s: stat %v, read %v, list %v; want %v, %v, %v", test.name, stat, read, list, test.stat, test.read, test.list)
		}
	}
	var content bytes.Buffer
	if _, err := c.Read(ctx(t), oci.WorkspacePath, "hello.txt", 5, &content); !errors.Is(err, isolation.ErrTooLarge) {
		t.Errorf("a file above the limit: %v", err)
	}
	if _, err := c.List(ctx(t), oci.WorkspacePath, ".", 2); !errors.Is(err, isolation.ErrTooLarge) {
		t.Errorf("a directory above the limit: %v", err)
	}
}
