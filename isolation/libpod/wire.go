// Package libpod is what podgrade asks of Podman's service, and what it is
// answered. Who asks is podgrade-libpod, through Podman's bindings: a program
// that links them takes 40 ms to come to its main, so podgrade itself, which
// most often needs none of this, does not.
package libpod

import "encoding/json"

// Call is one question, a line of JSON. One of its parts is set.
type Call struct {
	ID      uint64          `json:"id"`
	GiveUp  uint64          `json:"give_up,omitempty"` // a call whose answer nobody waits for
	Create  json.RawMessage `json:"create,omitempty"`  // libpod's container creation request
	Inspect string          `json:"inspect,omitempty"` // name of a container
	Start   string          `json:"start,omitempty"`
	Wait    string          `json:"wait,omitempty"`
	Remove  string          `json:"remove,omitempty"`
	Pull    *Pull           `json:"pull,omitempty"`
	Import  *Import         `json:"import,omitempty"` // the archive is on standard input
	Build   *Build          `json:"build,omitempty"`  // what it says is on standard error
}

// Pull asks for an image of a registry.
type Pull struct {
	Reference string `json:"reference"`
	AuthFile  string `json:"auth_file,omitempty"` // of the caller's log-ins; "": Podman's own
}

// Import makes an image of a root file system.
type Import struct {
	Reference string   `json:"reference"`
	Changes   []string `json:"changes"`            // Containerfile instructions
	Platform  string   `json:"platform,omitempty"` // os/arch[/variant]; "": this host's
}

// Build builds an image without any network.
type Build struct {
	Containerfile string            `json:"containerfile"`
	ContextDir    string            `json:"context_dir"`
	Exclude       []string          `json:"exclude,omitempty"` // relative to the context
	Reference     string            `json:"reference"`
	Args          map[string]string `json:"args,omitempty"`
}

// Answer is the answer to the call with its ID, a line of JSON.
type Answer struct {
	ID        uint64     `json:"id"`
	Error     *Error     `json:"error,omitempty"`
	Container *Container `json:"container,omitempty"` // of Inspect
	Code      int32      `json:"code"`                // of Wait
	Image     string     `json:"image,omitempty"`     // id, of Pull, Import and Build
}

// Container is what Inspect says of one.
type Container struct {
	PID     int    `json:"pid"`
	Status  string `json:"status"`
	Running bool   `json:"running"`
}

// Error is why a call failed.
type Error struct {
	Message  string `json:"message"`
	NotFound bool   `json:"not_found,omitempty"` // there is no such container or image
	// Lost: the service went away, or did not answer, so that nothing is said of
	// what was asked for.
	Lost bool `json:"lost,omitempty"`
}

// Error makes it an error.
func (e *Error) Error() string { return e.Message }

// Arguments of podgrade-libpod; the socket of the service follows.
const (
	Serve = "serve" // answers calls from standard input until that ends
	Once  = "once"  // answers the call that is its last argument
)
