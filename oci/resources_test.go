package oci

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLimitsAreFilesOfAControlGroup(t *testing.T) {
	all := LimitControllers()
	for name, c := range map[string]struct {
		limits      Limits
		controllers []string
		want        []string
	}{
		"none":             {Limits{}, all, nil},
		"no controllers":   {Limits{MemoryMB: 1, CPUs: 1, PIDs: 1}, nil, nil},
		"other":            {Limits{MemoryMB: 1}, []string{"cpu", "io", "pids"}, nil},
		"memory":           {Limits{MemoryMB: 64}, all, []string{"memory memory.max 67108864", "memory memory.swap.max 0"}},
		"cpus":             {Limits{CPUs: 1.5}, all, []string{"cpus cpu.max 150000 100000"}},
		"a bit of a cpu":   {Limits{CPUs: 0.001}, all, []string{"cpus cpu.max 1000 100000"}},
		"pids":             {Limits{PIDs: 40}, all, []string{"pids pids.max 64"}},
		"all":              {Limits{MemoryMB: 1, CPUs: 2, PIDs: 1}, all, []string{"memory memory.max 1048576", "memory memory.swap.max 0", "cpus cpu.max 200000 100000", "pids pids.max 25"}},
		"memory alone can": {Limits{MemoryMB: 1, CPUs: 2, PIDs: 1}, []string{"memory"}, []string{"memory memory.max 1048576", "memory memory.swap.max 0"}},
	} {
		var got []string
		for _, f := range GroupFiles(Resources(c.limits, c.controllers)) {
			got = append(got, fmt.Sprintf("%s %s %s", f.Limit, f.Name, f.Value))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Version 1 has a file for memory and swap together, and two for the processors.
func TestTheFilesOfVersion1(t *testing.T) {
	r := Resources(Limits{MemoryMB: 64, CPUs: 1.5, PIDs: 40}, LimitControllers())
	want := map[string]string{"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000", "pids.max": "64"}
	for _, file := range GroupFiles1(r) {
		if want[file.Name] != file.Value || !strings.HasPrefix(file.Name, file.Controller+".") {
			t.Errorf("%+v", file)
		}
		delete(want, file.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if files := GroupFiles1(nil); files != nil {
		t.Errorf("of nothing: %v", files)
	}
}
