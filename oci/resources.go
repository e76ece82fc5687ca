package oci

import (
	"fmt"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Controllers of control groups, version 2, that limits need.
const (
	memoryController = "memory"
	cpuController    = "cpu"
	pidsController   = "pids"
)

// LimitControllers are the controllers that limits can be enforced with.
func LimitControllers() []string { return []string{memoryController, cpuController, pidsController} }

// groupProcesses is how many processes and threads of a cell's control group
// are not its commands': the runtime's and the supervisor's. They come on top
// of the limit, so that a command may have as many as its task says.
const groupProcesses = 24

// cpuPeriod is the period of a limit of processors, in microseconds.
const cpuPeriod = 100_000

// Resources are the limits as a specification says them, those for which there
// is a controller; nil when there are none.
func Resources(l Limits, controllers []string) *specs.LinuxResources {
	has := func(controller string, asked bool) bool { return asked && slices.Contains(controllers, controller) }
	r, any := &specs.LinuxResources{}, false
	if has(memoryController, l.MemoryMB > 0) {
		bytes := l.MemoryMB << 20
		// The swap counts memory and swap together: none is added.
		r.Memory, any = &specs.LinuxMemory{Limit: &bytes, Swap: &bytes}, true
	}
	if has(cpuController, l.CPUs > 0) {
		period, quota := uint64(cpuPeriod), max(int64(l.CPUs*cpuPeriod), 1000) // the kernel takes no less than 1 ms
		r.CPU, any = &specs.LinuxCPU{Quota: &quota, Period: &period}, true
	}
	if has(pidsController, l.PIDs > 0) {
		r.Pids, any = &specs.LinuxPids{Limit: l.PIDs + groupProcesses}, true
	}
	if !any {
		return nil
	}
	return r
}

// GroupFile is a file of a control group and what stands in it where a limit
// is enforced.
type GroupFile struct {
	Limit      string // name of the limit, as LimitMemory
	Controller string
	Name       string
	Value      string
	Optional   bool // the kernel may have none: what it limits is not there then
}

// Names of the limits that a task can ask for.
const (
	LimitMemory    = "memory"
	LimitCPUs      = "cpus"
	LimitProcesses = "pids"
)

// GroupFiles are the files of a control group, version 2, that enforce the
// resources of a specification.
func GroupFiles(r *specs.LinuxResources) []GroupFile {
	var files []GroupFile
	if r == nil {
		return nil
	}
	if m := r.Memory; m != nil && m.Limit != nil {
		files = append(files, GroupFile{Limit: LimitMemory, Controller: memoryController, Name: "memory.max", Value: fmt.Sprint(*m.Limit)})
		if m.Swap != nil {
			files = append(files, GroupFile{Limit: LimitMemory, Controller: memoryController, Name: "memory.swap.max", Value: fmt.Sprint(*m.Swap - *m.Limit), Optional: true})
		}
	}
	if c := r.CPU; c != nil && c.Quota != nil && c.Period != nil {
		files = append(files, GroupFile{Limit: LimitCPUs, Controller: cpuController, Name: "cpu.max", Value: fmt.Sprintf("%d %d", *c.Quota, *c.Period)})
	}
	if p := r.Pids; p != nil {
		files = append(files, GroupFile{Limit: LimitProcesses, Controller: pidsController, Name: "pids.max", Value: fmt.Sprint(p.Limit)})
	}
	return files
}

// GroupFiles1 are the files of groups of version 1, each in the tree of its
// controller, in the order in which they are written.
func GroupFiles1(r *specs.LinuxResources) []GroupFile {
	var files []GroupFile
	if r == nil {
		return nil
	}
	if m := r.Memory; m != nil && m.Limit != nil {
		files = append(files, GroupFile{Limit: LimitMemory, Controller: memoryController, Name: "memory.limit_in_bytes", Value: fmt.Sprint(*m.Limit)})
		if m.Swap != nil { // of memory and swap together
			files = append(files, GroupFile{Limit: LimitMemory, Controller: memoryController, Name: "memory.memsw.limit_in_bytes", Value: fmt.Sprint(*m.Swap), Optional: true})
		}
	}
	if c := r.CPU; c != nil && c.Quota != nil && c.Period != nil {
		files = append(files, GroupFile{Limit: LimitCPUs, Controller: cpuController, Name: "cpu.cfs_period_us", Value: fmt.Sprint(*c.Period)},
			GroupFile{Limit: LimitCPUs, Controller: cpuController, Name: "cpu.cfs_quota_us", Value: fmt.Sprint(*c.Quota)})
	}
	if p := r.Pids; p != nil {
		files = append(files, GroupFile{Limit: LimitProcesses, Controller: pidsController, Name: "pids.max", Value: fmt.Sprint(p.Limit)})
	}
	return files
}
