// Liar is an OCI runtime that makes another container than it is asked for:
// it changes the bundle's configuration, and is the real runtime from then on.
// Tests put it where podgrade, or Podman, looks for crun.
//
// Which lie it tells is the name of the host in the configuration, after "lie-";
// with another name it is honest. The real runtime's path stands in the file
// "runtime" beside it. What no configuration says it does as a hook of the
// container.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "liar:", err)
		os.Exit(3)
	}
}

func run() error {
	if len(os.Args) == 3 && os.Args[1] == "hook" {
		return hook(os.Args[2])
	}
	real, err := os.ReadFile(beside("runtime"))
	if err != nil {
		return err
	}
	if bundle := bundleOf(os.Args[1:]); bundle != "" {
		if err := change(filepath.Join(bundle, "config.json")); err != nil {
			return err
		}
	}
	path := string(real)
	return syscall.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ())
}

// beside is a file in the directory of this program.
func beside(name string) string { return filepath.Join(filepath.Dir(os.Args[0]), name) }

// remember keeps the system call profile of an honest container for a lie.
func remember(s *specs.Spec) error {
	if s.Linux.Seccomp == nil {
		return nil
	}
	text, err := json.Marshal(s.Linux.Seccomp)
	if err != nil {
		return err
	}
	return os.WriteFile(beside("profile"), text, 0o600)
}

// bundleOf is the directory that a container is made of, when one is made.
func bundleOf(args []string) string {
	if !slices.Contains(args, "run") && !slices.Contains(args, "create") {
		return ""
	}
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--bundle="); ok {
			return value
		}
		if (arg == "--bundle" || arg == "-b") && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// change tells the lie that a configuration asks for.
func change(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s specs.Spec
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	tell := lie(remember)
	if name, asked := strings.CutPrefix(s.Hostname, "lie-"); asked {
		if tell = find(name); tell == nil {
			return fmt.Errorf("there is no lie %q", name)
		}
	}
	if err := tell(&s); err != nil {
		return err
	}
	if text, err = json.Marshal(s); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func narrower(m []specs.LinuxIDMapping) error {
	if len(m) < 2 {
		return errors.New("the id map has one piece only")
	}
	m[len(m)-1].Size--
	return nil
}

// filter puts another filter into the configuration, also where it holds one
// that is compiled already.
func filter(s *specs.Spec, f *specs.LinuxSeccomp) error {
	s.Linux.Seccomp = f
	delete(s.Annotations, "run.oci.seccomp_bpf_data")
	return nil
}

// let allows one more system call than the profile of an earlier container:
// what has a compiled filter has no profile.
func let(s *specs.Spec, name string) error {
	f := s.Linux.Seccomp
	if f == nil {
		text, err := os.ReadFile(beside("profile"))
		if err == nil {
			err = json.Unmarshal(text, &f)
		}
		if err != nil {
			return err
		}
	}
	for i := range f.Syscalls {
		f.Syscalls[i].Names = drop(f.Syscalls[i].Names, name)
	}
	f.Syscalls = slices.DeleteFunc(f.Syscalls, func(rule specs.LinuxSyscall) bool { return len(rule.Names) == 0 })
	f.Syscalls = append(f.Syscalls, specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow})
	return filter(s, f)
}

func mounted(s *specs.Spec, m specs.Mount) error {
	s.Mounts = append(s.Mounts, m)
	return nil
}

func mountOf(s *specs.Spec, destination string, change func(*specs.Mount)) error {
	for i := range s.Mounts {
		if s.Mounts[i].Destination == destination {
			change(&s.Mounts[i])
			return nil
		}
	}
	return fmt.Errorf("there is no mount at %s", destination)
}

func without(s *specs.Spec, destination, option string) error {
	return mountOf(s, destination, func(m *specs.Mount) { m.Options = drop(m.Options, option) })
}

func with(s *specs.Spec, destination, option string) error {
	return mountOf(s, destination, func(m *specs.Mount) { m.Options = append(m.Options, option) })
}

func unmounted(s *specs.Spec, destination string) error {
	s.Mounts = slices.DeleteFunc(s.Mounts, func(m specs.Mount) bool { return m.Destination == destination })
	return nil
}

func drop(list []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(each string) bool { return each == name })
}

// otherWorkspace mounts another directory that podgrade prepared.
func otherWorkspace(s *specs.Spec) error {
	return mountOf(s, "/.podgrade", func(tools *specs.Mount) {
		mountOf(s, "/work/workspace", func(m *specs.Mount) { m.Source = tools.Source })
	})
}

// otherRoot makes the container of a copy of the image: what is in it can be
// anything.
func otherRoot(s *specs.Spec) error {
	copied := s.Root.Path + "-other"
	if err := os.CopyFS(copied, os.DirFS(s.Root.Path)); err != nil {
		return err
	}
	s.Root.Path = copied
	return nil
}

func rlimit(s *specs.Spec, kind string, to specs.POSIXRlimit) error {
	for i := range s.Process.Rlimits {
		if s.Process.Rlimits[i].Type == kind {
			to.Type = kind
			s.Process.Rlimits[i] = to
			return nil
		}
	}
	return fmt.Errorf("there is no %s", kind)
}

func share(s *specs.Spec, kind specs.LinuxNamespaceType) error {
	s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == kind })
	return nil
}

// join lets the container enter a namespace of another one that runs already.
func join(s *specs.Spec, kind specs.LinuxNamespaceType, file string) error {
	all, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return err
	}
	for _, comm := range all {
		if name, _ := os.ReadFile(comm); strings.TrimSpace(string(name)) != "podgrade-init" {
			continue
		}
		if err := share(s, kind); err != nil {
			return err
		}
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: kind, Path: filepath.Join(filepath.Dir(comm), "ns", file)})
		return nil
	}
	return errors.New("no other container runs")
}
