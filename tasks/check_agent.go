package tasks

import (
	"slices"
	"strings"
)

func (a *Agent) kindOf(n *node) string {
	if s, ok := n.get("type").isString(); ok {
		return s
	}
	return a.Type
}

func (a *Agent) check(d *decoder, n *node, path string) {
	a.checkType(d, n, path)
	a.checkSystemPrompt(d, n, path)
	a.checkSDKOptions(d, n, path)
	if strings.ContainsRune(a.Command, 0) {
		d.fail(n.get("command"), join(path, "command"), "must not hold a NUL byte")
	}
	if a.Type == Antigravity && !slices.Contains([]string{"minimal", "low", "medium", "high"}, a.ThinkingLevel) {
		d.fail(n.get("thinking_level"), join(path, "thinking_level"), "must be minimal, low, medium or high for antigravity, got %s", quote(a.ThinkingLevel))
	}
	if settings := n.get("claude_settings"); settings != nil && a.Type == ClaudeCode {
		switch settings.kind {
		case nullNode, stringNode, mapNode:
		default:
			d.fail(settings, join(path, "claude_settings"), "must be a path, a mapping or null, got %s", settings.show())
		}
	}
}

func (a *Agent) checkType(d *decoder, n *node, path string) {
	if a.Type == "" {
		return
	}
	known := slices.Concat(agentKinds, d.kinds)
	if slices.Contains(known, a.Type) {
		return
	}
	if d.tolerant {
		d.warn(n.get("type"), join(path, "type"), "%s is not a kind of agent that is known here", quote(a.Type))
		return
	}
	d.fail(n.get("type"), join(path, "type"), "must be %s, got %s%s", oneOf(known), quote(a.Type), Nearest(a.Type, known))
}

// checkSystemPrompt: a blank prompt is none; one of text and file; and replace
// needs something to replace with.
func (a *Agent) checkSystemPrompt(d *decoder, n *node, path string) {
	if strings.TrimSpace(a.SystemPrompt) == "" {
		a.SystemPrompt = ""
	}
	if a.SystemPrompt != "" && a.SystemPromptFile != "" {
		d.fail(n.get("system_prompt_file"), join(path, "system_prompt_file"), "cannot stand beside system_prompt; keep one of them")
	}
	if a.SystemPromptMode == "replace" && a.Type == ClaudeCode && a.SystemPrompt == "" && a.SystemPromptFile == "" {
		d.fail(n.get("system_prompt_mode"), join(path, "system_prompt_mode"), "replace needs a system_prompt that is not blank")
	}
}
