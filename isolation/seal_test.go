package isolation_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/oci"
)

// What a cell has beyond nothing: the capability sets of a sealed one and of
// one as `driver: docker` has it, as root and as another user.
func TestACellHasExactlyTheCapabilitiesAskedFor(t *testing.T) {
	const none, docker = "0000000000000000", "00000000a80425f9"
	for _, test := range []struct {
		name, user     string
		change         func(*isolation.Order)
		bounding, held string
	}{
		{"sealed as root", "", nil, none, none},
		{"sealed as 1000", "1000", nil, none, none},
		{"docker as root", "", withDockerCapabilities, docker, docker},
		{"docker as 1000", "1000", withDockerCapabilities, docker, none},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := open(t, as(t, test.user), test.change)
			want(t, c, "grep -E '^(Cap|NoNewPrivs|Seccomp:|Seccomp_filters)' /proc/self/status", fmt.Sprintf(
				"CapInh:\t%s\nCapPrm:\t%s\nCapEff:\t%s\nCapBnd:\t%s\nCapAmb:\t%s\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n",
				none, test.held, test.held, test.bounding, none))
			if made := c.Made(); !made.Verified {
				t.Error("the cell was not compared with its specification")
			}
		})
	}
}

// Namespaces of its own, a network of loopback alone, nothing behind a masked path,
// and a /proc/sys that cannot be written: so is a sealed cell, and one as `driver:
// docker` has it, as root and as another user, of both engines.
func TestACellSeenFromInside(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, engine string) {
		for _, kind := range cellsToAttack {
			t.Run(kind.name, func(t *testing.T) { seenFromInside(t, onEngine(t, engine, as(t, kind.user), kind.change)) })
		}
	})
}

func seenFromInside(t *testing.T, c isolation.Cell) {
	for _, name := range []string{"pid", "mnt", "ipc", "uts", "net", "cgroup", "user"} {
		outside, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			t.Fatal(err)
		}
		inside := strings.TrimSpace(sh(t, c, "readlink /proc/self/ns/"+name).out)
		if !strings.HasPrefix(inside, name+":[") || inside == outside {
			t.Errorf("the %s namespace is %q, that of the test %q", name, inside, outside)
		}
	}
	want(t, c, "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | cut -f2; ls /sys/class/net; sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' '", "1\n2\nlo\nlo\n")
	// A masked path is empty, whatever it is, or not there: what cannot be looked
	// at would say so.
	want(t, c, "for p in "+strings.Join(oci.MaskedPaths, " ")+"; do if [ -d $p ]; then ls -A $p; elif [ -e $p ]; then cat $p; fi; done", "")
	masked := sh(t, c, "for p in "+strings.Join(oci.MaskedPaths, " ")+"; do test -e $p && echo $p; done").out
	for _, path := range []string{"/proc/kcore", "/proc/keys", "/proc/acpi", "/sys/firmware"} {
		if _, err := os.Stat(path); err == nil && !strings.Contains(masked, path+"\n") {
			t.Errorf("%s is on this host and not among the masked paths: %q", path, masked)
		}
	}
	want(t, c, "awk '$5 == \"/proc/sys\" {print substr($6, 1, 3)}' /proc/self/mountinfo; find /proc/sys -type f -writable 2>/dev/null | wc -l", "ro,\n0\n")
	if got := sh(t, c, "echo 0 > /proc/sys/kernel/hostname"); got.Code == 0 {
		t.Errorf("a name of the kernel's was written: %+v", got)
	}
}

func TestASealedCellHasOnlyLoopback(t *testing.T) {
	c := open(t, as(t, ""), nil)
	want(t, c, "ls /sys/class/net; sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo\nlo\n")
	want(t, c, "cat /proc/net/route | wc -l; cat /proc/net/fib_trie | grep -c 127.0.0.1", "1\n2\n")
	if got := sh(t, c, "nc -w 2 192.0.2.1 80 </dev/null"); got.Code == 0 || got.NetworkAttempts == 0 {
		t.Errorf("reaching for the network: %+v, want a failure that was counted", got)
	}
	if got := sh(t, c, "echo"); got.NetworkAttempts != 0 {
		t.Errorf("%d attempts of a command that made none", got.NetworkAttempts)
	}
}

// A read-only path stays so even for root with Docker's capabilities.
func TestReadOnlyPathsCannotBeWritten(t *testing.T) {
	c := open(t, as(t, ""), withDockerCapabilities)
	for _, file := range []string{"/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger", "/sys/kernel/mm/ksm/run"} {
		if got := sh(t, c, "test -e "+file+" || exit 9; echo 0 > "+file); got.Code != 9 && (got.Code == 0 || !strings.Contains(got.out, "Read-only") && !strings.Contains(got.out, "ermission denied")) {
			t.Errorf("writing %s: %+v, want a refusal", file, got)
		}
	}
	for _, path := range oci.ReadonlyPaths {
		got := sh(t, c, fmt.Sprintf("test -e %[1]s || exit 9; awk '$5 == \"%[1]s\" {print $6}' /proc/self/mountinfo", path))
		if got.Code != 9 && !strings.HasPrefix(got.out, "ro,") {
			t.Errorf("%s is mounted with %q", path, got.out)
		}
	}
	for _, line := range []string{"mount -o remount,rw /proc/sys", "umount /proc/sys", "mount -t tmpfs none /tmp", "mknod /tmp/kmsg c 1 11"} {
		if got := sh(t, c, line); got.Code == 0 {
			t.Errorf("%s succeeded", line)
		}
	}
}

// What podgrade itself mounts cannot be changed from inside.
func TestOwnMountsCannotBeChanged(t *testing.T) {
	c := open(t, as(t, ""), withDockerCapabilities)
	for _, line := range []string{
		"mv /.podgrade /away", "rm -rf /.podgrade", "echo x > /.podgrade/x", "cat /.podgrade/podgrade-init", "mv /work/workspace /work/away",
	} {
		if got := sh(t, c, line); got.Code == 0 {
			t.Errorf("%s succeeded", line)
		}
	}
	want(t, c, "hostname; cat /etc/hostname; grep -c . /etc/hosts; cat /etc/resolv.conf", "cell\ncell\n3\nnameserver 192.0.2.53\noptions timeout:1 attempts:1\n")
	want(t, c, "stat -c %a /; df -k /dev/shm | tail -n 1 | awk '{print $2}'", "755\n65536\n")
}
