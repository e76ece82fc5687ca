package oci

// Phase is the part of a row's life that a cell is for.
type Phase string

// The phases.
const (
	Execute Phase = "execute"
	Grade   Phase = "grade"
)

// Network says what network a cell has.
type Network string

// The networks. There is no bridge in a rootless cell: Egress is everything,
// through pasta or slirp4netns, with the host's loopback shut off.
const (
	Sealed Network = "none"
	Egress Network = "egress"
)

// EgressInterface is the one interface beside lo of a cell with Egress.
const EgressInterface = "tap0"

// EgressResolver is the address of its name server: what serves the network
// forwards what is asked there to a name server of the host's.
const EgressResolver = "10.0.2.3"

// Limits are the resource limits that a task asks for; 0 means none.
type Limits struct {
	MemoryMB int64   `json:"memory_mb,omitempty"` // MiB
	CPUs     float64 `json:"cpus,omitempty"`
	PIDs     int64   `json:"pids,omitempty"`
}

// Plan says what a cell needs, before anything is made.
type Plan struct {
	Phase   Phase
	Network Network
	// Capabilities is the bounding set of commands, as in "CAP_CHOWN"; empty:
	// none at all.
	Capabilities []string
	Limits       Limits
	Hostname     string // "" is "cell"
	// Env is what the task and the accepted grants give to every command, in
	// order, later entries win; the image's own comes before it.
	Env []string
}

// HostnameOrDefault is the cell's host name.
func (p Plan) HostnameOrDefault() string {
	if p.Hostname == "" {
		return "cell"
	}
	return p.Hostname
}
