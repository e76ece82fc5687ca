package isolation

import (
	"os"
	"path/filepath"
	"strings"
)

// overlayByProgram is how we call the driver overlay when a program
// (fuse-overlayfs) mounts for it: such a store marks deleted files in a way
// that the kernel's overlay does not know, and a cell of the bundle engine
// would show files that the image deleted.
const overlayByProgram = "overlay with a mount program"

// driver is the storage driver that the image's layers were written by.
func (i inspected) driver(layers []string) string {
	if len(layers) == 0 {
		return i.GraphDriver.Name
	}
	return driverOf(layers[0], i.GraphDriver.Name)
}

// driverOf is the driver that Podman calls name, by what the store of a layer says:
// <store>/overlay/<id>/diff. Podman writes "false" into the file, too.
func driverOf(layer, name string) string {
	said, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(layer)), ".has-mount-program"))
	if err == nil && strings.TrimSpace(string(said)) == "true" {
		return overlayByProgram
	}
	return name
}

// seLinuxEnforces tells whether SELinux would keep an unlabelled cell from its
// files; Podman knows how to label, the bundle engine does not.
func seLinuxEnforces(file string) bool {
	said, err := os.ReadFile(file)
	return err == nil && strings.TrimSpace(string(said)) == "1"
}

const seLinuxFile = "/sys/fs/selinux/enforce"
