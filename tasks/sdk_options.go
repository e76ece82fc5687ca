package tasks

import (
	"maps"
	"slices"
	"strings"
)

// sdkOptions are the options of Claude's SDK that a task may pass on as they
// are (task-file 3): those that the framework does not decide itself.
var sdkOptions = strings.Fields(`betas effort enable_file_checkpointing fallback_model
	forward_subagent_text include_hook_events load_timeout_ms max_buffer_size
	max_thinking_tokens output_format strict_mcp_config thinking user`)

// ownedSDKOptions are the options that the framework decides, by what an author
// writes instead; "" when there is nothing to write.
var ownedSDKOptions = map[string]string{
	"model":                       "agent.model",
	"permission_mode":             "agent.permission_mode",
	"allowed_tools":               "agent.allowed_tools",
	"disallowed_tools":            "agent.disallowed_tools",
	"plugins":                     "agent.plugins",
	"system_prompt":               "agent.system_prompt",
	"system_prompt_file":          "agent.system_prompt_file",
	"settings":                    "agent.claude_settings",
	"setting_sources":             "agent.setting_sources",
	"max_turns":                   "run_limits.max_turns",
	"max_budget_usd":              "run_limits.max_usd",
	"task_budget":                 "run_limits.max_total_tokens",
	"tools":                       "agent.allowed_tools",
	"skills":                      "agent.plugins",
	"env":                         "sandbox.docker.env_passthrough_extra",
	"cwd":                         "sandbox.docker.working_dir",
	"add_dirs":                    "sandbox.docker.extra_mounts",
	"sandbox":                     "the block sandbox",
	"hooks":                       "",
	"mcp_servers":                 "",
	"agents":                      "",
	"can_use_tool":                "",
	"permission_prompt_tool_name": "",
	"cli_path":                    "",
	"extra_args":                  "",
	"stderr":                      "",
	"debug_stderr":                "",
	"resume":                      "",
	"resume_session_at":           "",
	"resume_drops_turn":           "",
	"session_id":                  "",
	"session_store":               "",
	"session_store_flush":         "",
	"continue_conversation":       "",
	"fork_session":                "",
	"include_partial_messages":    "",
}

// checkSDKOptions refuses options that the SDK does not have, and those that
// are decided elsewhere. A record may hold those of a newer SDK.
func (a *Agent) checkSDKOptions(d *decoder, n *node, path string) {
	options := n.get("sdk_options")
	if options == nil || options.kind != mapNode {
		return
	}
	tell := d.fail
	if d.tolerant {
		tell = d.warn
	}
	for _, p := range options.pairs {
		at := join(join(path, "sdk_options"), quoteKey(p.key))
		instead, owned := ownedSDKOptions[p.key]
		switch {
		case slices.Contains(sdkOptions, p.key):
		case owned && instead != "":
			tell(p.keyNode, at, "is set by the framework; write %s instead", instead)
		case owned:
			tell(p.keyNode, at, "is set by the framework and cannot be changed")
		default:
			known := append(slices.Clone(sdkOptions), slices.Collect(maps.Keys(ownedSDKOptions))...)
			slices.Sort(known)
			if hint := Nearest(p.key, known); hint != "" {
				tell(p.keyNode, at, "is not an option of the SDK%s", hint)
				continue
			}
			tell(p.keyNode, at, "is not an option of the SDK; the options are %s", oneOf(sdkOptions))
		}
	}
}
