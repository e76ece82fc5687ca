package tasks

import (
	"encoding/json"
	"slices"
	"strings"
)

// Drivers of a sandbox.
const (
	DriverTempdir = "tempdir"
	DriverDocker  = "docker"
	DriverPodman  = "podman"
)

// Networks that a task can ask for. Hosts and everything are podgrade's.
const (
	NetworkBridge  = "bridge"   // docker: everything
	NetworkNone    = "none"     // nothing
	NetworkLLMOnly = "llm_only" // the model APIs and the allowed hosts
	NetworkEgress  = "egress"   // podman: everything but the host itself
)

// Sandbox says where the agent works (task-file 6).
type Sandbox struct {
	Driver string `json:"driver" task:"default=tempdir,enum=tempdir|docker|podman"`
	Docker Docker `json:"docker"`
	// Podman is podgrade's own block, for what upstream has no key for.
	Podman *Podman `json:"podman"`
	// Python asks for a virtual environment; nil: none is made. A missing key
	// means one without packages.
	Python          *Packages       `json:"python" task:"default={}"`
	Node            *Packages       `json:"node"`
	Limits          Limits          `json:"limits"`
	TemplateSources TemplateSources `json:"template_sources" task:"null,append"`
	// MockPathDirs are directories of the workspace that come first on PATH.
	MockPathDirs []string    `json:"mock_path_dirs" task:"null"`
	RecordCLI    []RecordCLI `json:"record_cli" task:"null"`
	// IgnorePatterns add to the default ignore patterns; "!x" removes one.
	IgnorePatterns []string `json:"ignore_patterns" task:"alias=additional_ignore_patterns"`
}

// Packages are packages to install into the workspace.
type Packages struct {
	EnvPackages []string `json:"env_packages"`
}

// Limits are the resource limits of a sandbox; 0 means none.
type Limits struct {
	Timeout     int     `json:"timeout" task:"default=300"` // seconds
	MaxMemoryMB int     `json:"max_memory_mb" task:"null"`
	MaxCPUs     float64 `json:"max_cpus" task:"null,above=0"`
	MaxPIDs     int     `json:"max_pids" task:"null,min=1"`
	MaxDiskMB   int     `json:"max_disk_mb" task:"null"` // never enforced
}

// Docker says which container the row runs in (task-file 6.1).
type Docker struct {
	// Image is the image's reference; "" means the default image.
	Image string `json:"image" task:"null"`
	// DockerfilePath is absolute after loading and overrides Image.
	DockerfilePath string `json:"dockerfile_path" task:"null"`
	Build          Build  `json:"build" task:"null"`
	Network        string `json:"network" task:"default=bridge,enum=bridge|none|llm_only"`
	// EgressAllowlist holds hosts (host or host:port, exact) that llm_only
	// lets through besides the model APIs.
	EgressAllowlist []string `json:"egress_allowlist" task:"append"`
	// WorkingDir is where the agent works inside the image: an absolute path,
	// or "auto" for the image's WORKDIR. "": the workspace is mounted.
	WorkingDir          string   `json:"working_dir" task:"null"`
	EnvPassthrough      []string `json:"env_passthrough"`
	EnvPassthroughExtra []string `json:"env_passthrough_extra" task:"append"`
	// ExtraMounts are "source:destination" or "source:destination:ro".
	ExtraMounts []string `json:"extra_mounts"`
}

// Build says how the image of DockerfilePath is built.
type Build struct {
	// BuildKit nil inherits DOCKER_BUILDKIT.
	BuildKit  *bool             `json:"buildkit"`
	Args      map[string]string `json:"args"`
	Secrets   []string          `json:"secrets"`
	ExtraArgs []string          `json:"extra_args"`
}

// Podman is the block sandbox.podman, podgrade's own (design sections 4 to 6).
// It counts with driver docker and podman, and wins over the docker block.
type Podman struct {
	// User of the commands: a name or uid, with an optional group or gid after
	// a colon; "" is the image's own.
	User string `json:"user" task:"null"`
	// Caps are the capabilities that commands may have.
	Caps Caps `json:"caps" task:"null"`
	// SetUID clears no_new_privs while the agent runs, for images that need
	// sudo. A grading cell never has it.
	SetUID bool `json:"set_uid"`
	// ReadOnly makes the root file system read-only; workspace and /tmp stay
	// writable.
	ReadOnly bool `json:"read_only"`
	// Network none|llm_only|egress; "" is what the driver means: docker.network
	// under driver docker, none under driver podman.
	Network string `json:"network" task:"null,enum=none|llm_only|egress"`
	// Egress are hosts (host or host:port, exact) that can be reached through
	// the broker whatever the network is.
	Egress   []string `json:"egress" task:"append"`
	Timeouts Timeouts `json:"timeouts"`
	// WorkingDir as in the docker block, which it overrides.
	WorkingDir string `json:"working_dir" task:"null"`
	// State says what becomes of changes outside the workspace, one of the
	// States.
	State string `json:"state" task:"default=auto,enum=auto|none|pre_run|final|both|keep"`
	// Grade live grades in the agent's own cell before it is closed; stamped.
	Grade string `json:"grade" task:"default=fresh,enum=fresh|live"`
	// Solution is a script of the task directory that the oracle agent runs.
	Solution string `json:"solution" task:"null"`
}

// The States: which state layers are kept. A row that cannot keep what the last
// three name is an error.
const (
	StateAuto   = "auto"    // as final, where the engine can
	StateNone   = "none"    // none
	StatePreRun = "pre_run" // what was changed before the agent started
	StateFinal  = "final"   // what was changed when the agent had ended
	StateBoth   = "both"    // both, each whole and over the image
	StateKeep   = "keep"    // an older name of final
)

// GradeLive is the value of Podman.Grade that grades in the agent's own cell.
const GradeLive = "live"

// StatePolicy is which state layers the row keeps, never StateKeep.
func (s *Sandbox) StatePolicy() string {
	switch {
	case s.Podman == nil || s.Podman.State == "":
		return StateAuto
	case s.Podman.State == StateKeep:
		return StateFinal
	}
	return s.Podman.State
}

// Timeouts are limits in seconds on what podgrade does around the agent; 0 is
// podgrade's own default.
type Timeouts struct {
	Pull  int `json:"pull" task:"null,min=1"`
	Build int `json:"build" task:"null,min=1"`
	Start int `json:"start" task:"null,min=1"`
	Grade int `json:"grade" task:"null,min=1"`
}

// Modes of Caps.
const (
	CapsDefault = "default" // what upstream's containers have
	CapsNone    = "none"
	CapsList    = "list"
)

// Caps is default, none or a list of capability names; Mode "" is what the
// driver means: default under docker, none under podman.
type Caps struct {
	Mode string
	List []string // as in "CAP_CHOWN", sorted, only with CapsList
}

// MarshalJSON writes what an author would have written.
func (c Caps) MarshalJSON() ([]byte, error) {
	switch c.Mode {
	case "":
		return []byte("null"), nil
	case CapsList:
		return json.Marshal(c.List)
	}
	return json.Marshal(c.Mode)
}

// Network returns the network that the row asks for, and whether some layer
// wrote it down, as opposed to a default that nobody chose.
func (t *Task) Network() (network string, written bool) {
	s := &t.Sandbox
	if s.Podman != nil && s.Podman.Network != "" {
		return s.Podman.Network, true
	}
	if t.Wrote("sandbox.docker.network") {
		return s.Docker.Network, true
	}
	if s.Driver == DriverPodman {
		return NetworkNone, false
	}
	return s.Docker.Network, false
}

// Capabilities returns what the row asks for, never with Mode "".
func (s *Sandbox) Capabilities() Caps {
	if s.Podman != nil && s.Podman.Caps.Mode != "" {
		return s.Podman.Caps
	}
	if s.Driver == DriverPodman {
		return Caps{Mode: CapsNone}
	}
	return Caps{Mode: CapsDefault}
}

// WorkingDir returns the directory of the image that the agent works in, "auto",
// or "" for a mounted workspace.
func (s *Sandbox) WorkingDir() string {
	if s.Podman != nil && s.Podman.WorkingDir != "" {
		return s.Podman.WorkingDir
	}
	return s.Docker.WorkingDir
}

// Hosts returns the hosts that the row may reach besides its network, sorted
// and without repeats.
func (s *Sandbox) Hosts() []string {
	hosts := slices.Clone(s.Docker.EgressAllowlist)
	if s.Podman != nil {
		hosts = append(hosts, s.Podman.Egress...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// Passthrough returns the names of the host variables that the row asks for:
// env_passthrough and then env_passthrough_extra, without repeats.
func (d *Docker) Passthrough() []string {
	var names []string
	for _, name := range slices.Concat(d.EnvPassthrough, d.EnvPassthroughExtra) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// defaultPassthrough are the variables of env_passthrough when the key is
// missing (task-file 6.1).
const defaultPassthrough = `ANTHROPIC_API_KEY API_BACKEND UIPATH_LLM_BACKEND
	UIPATH_ACCESS_TOKEN UIPATH_URL UIPATH_TENANT_ID UIPATH_ORGANIZATION_ID
	UIPATH_CLI_DISABLE_VERSION_SYNC AWS_BEARER_TOKEN_BEDROCK AWS_REGION
	BEDROCK_MODEL CLAUDE_CODE_USE_BEDROCK ANTHROPIC_MODEL LITELLM_BASE_URL
	LITELLM_AUTH_TOKEN LITELLM_MODEL LITELLM_SMALL_MODEL LITELLM_COST_LOG
	CODEX_API_KEY CODEX_BASE_URL CODEX_MODEL GEMINI_API_KEY ANTIGRAVITY_MODEL
	OPENROUTER_API_KEY HOME`

func (d *Docker) setDefaults() {
	d.EnvPassthrough = strings.Fields(defaultPassthrough)
}

// TemplateSources are what the workspace starts with; later ones win.
type TemplateSources []TemplateSource

// Kinds of a template source.
const (
	TemplateDir  = "template_dir"
	StarterFiles = "starter_files"
	Repo         = "repo"
)

// TemplateSource is one source of files, of the kind that Type says
// (task-file 6.2).
type TemplateSource struct {
	Type string `json:"type" task:"enum=template_dir|starter_files|repo"`
	// Path of a template_dir on the host, absolute after loading; MountPoint is
	// where in the workspace its content goes.
	Path       string `json:"path" task:"kinds=template_dir,required"`
	MountPoint string `json:"mount_point" task:"kinds=template_dir,default=."`
	// Files of starter_files.
	Files []StarterFile `json:"files" task:"kinds=starter_files,required"`
	// URL and Commit of a repo.
	URL    string `json:"url" task:"kinds=repo,required"`
	Commit string `json:"commit" task:"kinds=repo,null"`
}

// StarterFile is one file that is written into the workspace.
type StarterFile struct {
	Path    string `json:"path" task:"required"`
	Content string `json:"content" task:"required"`
}

// RecordCLI is a recorder that stands in for a command: it logs each call and
// answers as told (task-file 6.3).
type RecordCLI struct {
	Tool      string        `json:"tool" task:"required"`
	ExitCode  int           `json:"exit_code" task:"default=1,min=0,max=255"`
	Stdout    string        `json:"stdout"`
	Stderr    string        `json:"stderr"`
	Responses []CLIResponse `json:"responses"`
}

// CLIResponse is the answer to calls that When matches; the first one wins.
type CLIResponse struct {
	When     CLIRule `json:"when" task:"required"`
	ExitCode int     `json:"exit_code" task:"default=0,min=0,max=255"`
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
}

// CLIRule matches the arguments of one call.
type CLIRule struct {
	CLIMatch
	IgnoreFlags []string `json:"ignore_flags"`
}
