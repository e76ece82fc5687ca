package supervisor

import (
	"strings"

	"podgrade/isolation/protocol"
)

// lookup returns the value of a variable; of several the last one counts.
func lookup(env []string, name string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// replace returns env with one entry for a variable, where its last one was,
// or at the end.
func replace(env []string, name, value string) []string {
	out := make([]string, 0, len(env)+1)
	last := -1
	for _, entry := range env {
		if strings.HasPrefix(entry, name+"=") {
			if last >= 0 {
				out = append(out[:last], out[last+1:]...)
			}
			last = len(out)
		}
		out = append(out, entry)
	}
	if last < 0 {
		return append(out, name+"="+value)
	}
	out[last] = name + "=" + value
	return out
}

// withCandidates returns the environment of a command: PATH has those of its
// candidates in front that hold in this cell, once each.
func (p *resolver) withCandidates(r *protocol.Run) []string {
	var dirs []string
	for _, dir := range r.PathCandidates {
		if p.holds(dir, r.Exclude) {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return r.Env
	}
	if path, ok := lookup(r.Env, "PATH"); !ok {
		dirs = append(dirs, defaultPath)
	} else if path != "" {
		dirs = append(dirs, path)
	}
	return replace(r.Env, "PATH", strings.Join(dirs, ":"))
}

// holds tells whether a recorded directory may go on PATH: it is absolute,
// there, and neither by its name nor in truth inside the excluded directory,
// which the agent wrote.
func (p *resolver) holds(dir, exclude string) bool {
	if !strings.HasPrefix(dir, "/") || strings.Contains(dir, ":") {
		return false
	}
	found, err := p.open(dir, oDirectory)
	if err != nil {
		return false
	}
	defer found.close()
	if exclude == "" {
		return true
	}
	if within(dir, exclude) || within(found.path, exclude) {
		return false
	}
	real, err := p.open(exclude, oDirectory)
	if err != nil {
		return !isThere(err)
	}
	defer real.close()
	return !within(dir, real.path) && !within(found.path, real.path)
}
