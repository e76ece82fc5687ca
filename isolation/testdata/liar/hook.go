package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// hooked lets the runtime call this program while it makes the container.
func hooked(s *specs.Spec, name string) error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	hook := specs.Hook{Path: self, Args: []string{self, "hook", name}, Env: []string{"PATH=" + os.Getenv("PATH")}}
	if s.Hooks == nil {
		s.Hooks = &specs.Hooks{}
	}
	if name == "interface" {
		s.Hooks.CreateRuntime = append(s.Hooks.CreateRuntime, hook)
	} else {
		s.Hooks.CreateContainer = append(s.Hooks.CreateContainer, hook)
	}
	return nil
}

// hook does in the container's namespaces what no configuration asks for.
func hook(name string) error {
	var state specs.State
	if err := json.NewDecoder(os.Stdin).Decode(&state); err != nil {
		return err
	}
	if name == "interface" {
		return addInterface(state.Pid)
	}
	root, err := rootOf(state.Bundle)
	if err != nil {
		return err
	}
	switch name {
	case "queues":
		return mountQueues(filepath.Join(root, "dev/mqueue"))
	case "other-mask":
		return bind("/etc/passwd", filepath.Join(root, "proc/keys"))
	case "writable-cover":
		sys := filepath.Join(root, "proc/sys")
		return bind(sys, sys)
	case "no-programs":
		return noPrograms(filepath.Join(root, "work/workspace"))
	}
	return fmt.Errorf("there is no hook %q", name)
}

func bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", source, target, err)
	}
	return nil
}

// noPrograms keeps programs of a mount from being started.
func noPrograms(at string) error {
	if err := unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount %s noexec: %w", at, err)
	}
	return nil
}

func rootOf(bundle string) (string, error) {
	text, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil {
		return "", err
	}
	var s specs.Spec
	if err := json.Unmarshal(text, &s); err != nil {
		return "", err
	}
	if filepath.IsAbs(s.Root.Path) {
		return s.Root.Path, nil
	}
	return filepath.Join(bundle, s.Root.Path), nil
}

// addInterface gives the container's network namespace an interface more.
func addInterface(pid int) error {
	cmd := exec.Command("nsenter", "--target", strconv.Itoa(pid), "--user", "--net", "ip", "link", "add", "extra", "type", "veth", "peer", "name", "other")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// mountQueues mounts the message queues of a namespace that nobody is in.
func mountQueues(at string) error {
	runtime.LockOSThread() // what is unshared is this thread's
	if err := unix.Unshare(unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("make a namespace for message queues: %w", err)
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("mqueue", at, "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount message queues: %w", err)
	}
	return nil
}
