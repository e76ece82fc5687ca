package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The group of version 1 that podgrade is in, as the kernel writes it down.
func TestTheTreesOfVersion1AreFound(t *testing.T) {
	const mountinfo = `30 23 0:26 / /sys/fs/cgroup rw - tmpfs none rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
`
	const self = "5:cpu,cpuacct:/user.slice\n4:memory:/docker/abc/inner\n3:pids:/\n1:name=systemd:/user.slice\n0::/user.slice\n"
	dir := t.TempDir()
	mounts, own := filepath.Join(dir, "mountinfo"), filepath.Join(dir, "cgroup")
	if err := errors.Join(os.WriteFile(mounts, []byte(mountinfo), 0o600), os.WriteFile(own, []byte(self), 0o600)); err != nil {
		t.Fatal(err)
	}
	for controller, want := range map[string]string{
		"cpu":     "/sys/fs/cgroup/cpu,cpuacct/user.slice",
		"memory":  "/sys/fs/cgroup/memory/inner",
		"pids":    "", // not mounted
		"freezer": "", // in no tree
	} {
		if got, err := firstGroup(mounts, own, controller); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", controller, got, err, want)
		}
	}
	if g := firstGroups("/dev/null", own); g != nil {
		t.Errorf("without a tree: %+v", g)
	}
}

// A process that the limit of memory ended is noticed once, in either version.
func TestAProcessEndedForMemoryIsNoticedOnce(t *testing.T) {
	for name, text := range map[string]string{
		"memory.events":      "low 0\nhigh 0\nmax 12\noom 2\noom_kill %d\noom_group_kill 7\n",
		"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill %d\n",
	} {
		dir := t.TempDir()
		write := func(n int) {
			if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, text, n), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := &cellLimits{dirs: []string{t.TempDir(), dir}}
		for i, step := range []struct {
			ended int
			want  bool
		}{{0, false}, {1, true}, {1, false}, {4, true}, {4, false}} {
			if write(step.ended); c.overMemory() != step.want {
				t.Errorf("%s, step %d: want %v", name, i, step.want)
			}
		}
	}
	var none *cellLimits
	if none.overMemory() {
		t.Error("a cell without limits is over them")
	}
}
