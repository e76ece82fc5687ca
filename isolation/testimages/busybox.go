package testimages

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sort"
	"strings"
)

// BusyboxPath is the program that the busybox images hold.
const BusyboxPath = "/bin/busybox"

// MarkerPath is the file that tells that a command runs in the image of
// upstream's bring-your-own-image smoke task; only BYOD has it.
const MarkerPath = "/opt/byod_marker"

// The users of the busybox images, beside root.
const (
	GraderName = "grader" // uid 1000, with a home of its own
	GraderUID  = 1000
	NonrootUID = 65532 // the user of distroless images; its home is not writable
)

const passwd = `root:x:0:0:root:/root:/bin/sh
grader:x:1000:1000:grader:/home/grader:/bin/sh
nonroot:x:65532:65532:nonroot:/home/nonroot:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
`

const group = `root:x:0:
grader:x:1000:
nonroot:x:65532:
nogroup:x:65534:
`

// Busybox is an image of one static program, links for its applets, and the
// few files that a user look-up needs. Its user is root.
func Busybox() Image {
	return Image{Reference: "localhost/podgrade-test/busybox:1", write: writeBusybox}
}

// BusyboxAs is Busybox with a USER: a name, a uid or uid:gid.
func BusyboxAs(user string) Image {
	tag := strings.NewReplacer(":", "-").Replace(user)
	return Busybox().WithConfig("localhost/podgrade-test/busybox-as:"+tag, Config{User: user})
}

// BYOD is Busybox with the marker, under the name that upstream's smoke task
// gives its image.
func BYOD() Image {
	return Image{
		Reference: "localhost/byod-custom-image:0.1.0",
		Config:    Config{Labels: map[string]string{"org.coder-eval.byod": "true"}},
		write: func(a *archive) error {
			if err := writeBusybox(a); err != nil {
				return err
			}
			return a.file(MarkerPath[1:], 0o644, []byte("BYOD custom image loaded\n"))
		},
	}
}

// Merged is Busybox as most distributions lay their files out: /bin is a link to
// /usr/bin, and check a program that links of /etc/alternatives lead to, and that fails.
func Merged() Image {
	return Image{Reference: "localhost/podgrade-test/merged:1", write: func(a *archive) error {
		return errors.Join(writeSkeleton(a), a.dir(0o755, 0, "usr/bin", "etc/alternatives", "opt/check"), writePrograms(a, "usr/bin"), a.link("bin", "usr/bin"),
			a.file("opt/check/check", 0o755, []byte("#!/bin/sh\nexit 1\n")), a.link("etc/alternatives/check", "/opt/check/check"), a.link("usr/bin/check", "/etc/alternatives/check"))
	}}
}

func writeBusybox(a *archive) error {
	return errors.Join(writeSkeleton(a), a.dir(0o755, 0, "bin"), writePrograms(a, "bin"))
}

// writePrograms writes busybox and the links for its applets into a directory.
func writePrograms(a *archive, dir string) error {
	program, applets, err := readBusybox()
	if err != nil {
		return err
	}
	if err := a.file(dir+"/busybox", 0o755, program); err != nil {
		return err
	}
	for _, name := range applets {
		if err := a.link(dir+"/"+name, "busybox"); err != nil {
			return err
		}
	}
	return nil
}

// writeSkeleton writes the directories that every busybox image has, and the
// files that name its users.
func writeSkeleton(a *archive) error {
	if err := a.dir(0o755, 0, "dev", "etc", "home", "opt", "proc", "root", "run", "sys", "usr", "var", "home/nonroot"); err != nil {
		return err
	}
	if err := a.dir(0o755, GraderUID, "home/grader"); err != nil {
		return err
	}
	if err := a.dir(0o1777, 0, "tmp", "var/tmp"); err != nil {
		return err
	}
	if err := a.file("etc/passwd", 0o644, []byte(passwd)); err != nil {
		return err
	}
	return a.file("etc/group", 0o644, []byte(group))
}

// readBusybox returns the program's bytes and the sorted names of its applets.
func readBusybox() (program []byte, applets []string, err error) {
	const hint = "install it with `apt-get install busybox-static`"
	program, err = os.ReadFile(BusyboxPath)
	if err != nil {
		return nil, nil, fmt.Errorf("reading busybox: %w; %s", err, hint)
	}
	if err := checkStatic(BusyboxPath); err != nil {
		return nil, nil, fmt.Errorf("%w; %s", err, hint)
	}
	list, err := exec.Command(BusyboxPath, "--list").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("asking %s for its applets: %w; %s", BusyboxPath, err, hint)
	}
	for _, name := range strings.Fields(string(list)) {
		if name != "busybox" && !strings.Contains(name, "/") {
			applets = append(applets, name)
		}
	}
	sort.Strings(applets)
	return program, applets, nil
}

// checkStatic refuses a program that needs a loader: it could not start in an
// image that holds nothing else.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("reading %s as a program: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically and cannot start in an image of its own", path)
		}
	}
	return nil
}
