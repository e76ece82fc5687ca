package policy

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"podgrade/oci"
	"podgrade/tasks"
)

// Rules say which grants are allowed, or denied, without asking.
type Rules struct {
	Images       []string    `json:"images" doc:"a digest or id (sha256:HEX), a registry or repository with all below it (quay.io/team), one name with its tag, or *"`
	Variables    []string    `json:"variables" doc:"variables of this host; a trailing * stands for the rest of a name"`
	Networks     []string    `json:"networks" doc:"bridge or egress (the same: everything but this host), llm_only, or a single HOST or HOST:PORT"`
	Paths        []string    `json:"paths" doc:"absolute directories or files of this host that may be read, with all below them"`
	Capabilities []string    `json:"capabilities" doc:"CAP_NAME, default for those of upstream's containers, or set_uid"`
	Commands     string      `json:"commands" enum:"none|all" doc:"command lines in a cell, where they work there and how long"`
	Builds       []string    `json:"builds" doc:"absolute directories of Dockerfiles, with all below them"`
	Judges       []JudgeRule `json:"judges" doc:"models that something may be sent to"`
	HostCommands string      `json:"host_commands" enum:"none|all" doc:"command lines on this host, as you"`
}

// JudgeRule is a model at an address; a trailing * stands for the rest of either.
type JudgeRule struct {
	Model   string `json:"model" doc:"name of the model; * is any"`
	Address string `json:"address" doc:"URL, or own for your own route; * is any"`
}

// All and None are what can be said about commands.
const (
	All  = "all"
	None = "none"
)

// names tells whether the rules cover a grant. Of a grant of several things, as
// of capabilities, all must be named by a rule that allows and any by one that
// denies.
func (r *Rules) names(g Grant, denies bool) bool {
	every := func(words []string, named func(string) bool) bool {
		if denies {
			return slices.ContainsFunc(words, named)
		}
		return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !named(w) })
	}
	switch g.Kind {
	case Image, Pull:
		names := strings.Split(g.about(), "\x00")
		return r.image(append(namesOf(names[0]), names[1:]...))
	case Variable:
		return slices.ContainsFunc(r.Variables, func(rule string) bool { return matches(rule, g.Value) })
	case Network:
		return every(strings.Split(g.about(), "\x00"), r.network)
	case Path:
		return r.path(r.Paths, g.Value, denies)
	case SearchPath: // what runs from there is the point, and not what can be read
		dirs := strings.Split(g.Value, ":")
		return r.HostCommands == All || denies && every(dirs, func(dir string) bool { return r.path(r.Paths, dir, true) })
	case Mount:
		source, _, _ := strings.Cut(g.Value, ":")
		return (denies || g.subject != "") && r.path(r.Paths, source, denies) // what can be written is asked about
	case Build: // all that lies beside the Dockerfile is read
		return r.path(r.Builds, g.Value, denies) || denies && r.path(r.Paths, filepath.Dir(g.Value), true)
	case Capabilities:
		return every(strings.Fields(g.Value), r.capability)
	case Judge:
		return r.judge(g.about())
	case Command, WorkingDir, Limit:
		return r.Commands == All
	case HostCommand:
		return r.HostCommands == All
	}
	return false
}

// about is the word by which a policy file speaks of a grant.
func (g Grant) about() string {
	if g.subject != "" {
		return g.subject
	}
	return g.Value
}

// matches compares a name with a rule, whose trailing * stands for anything.
func matches(rule, name string) bool {
	if front, open := strings.CutSuffix(rule, "*"); open {
		return strings.HasPrefix(name, front)
	}
	return rule == name
}

func (r *Rules) network(name string) bool {
	same := func(name string) string {
		if name == tasks.NetworkEgress {
			return tasks.NetworkBridge
		}
		return name
	}
	return slices.ContainsFunc(r.Networks, func(rule string) bool { return same(rule) == same(name) })
}

func (r *Rules) capability(name string) bool {
	return slices.ContainsFunc(r.Capabilities, func(rule string) bool {
		return rule == name || rule == tasks.CapsDefault && slices.Contains(oci.DockerCapabilities(), name)
	})
}

func (r *Rules) judge(subject string) bool {
	model, address, _ := strings.Cut(subject, "\x00")
	return slices.ContainsFunc(r.Judges, func(rule JudgeRule) bool {
		return (rule.Model == "" || matches(rule.Model, model)) && (rule.Address == "" || matches(rule.Address, address))
	})
}

// path tells whether a path is one of the list, as each resolves, or lies below
// one. A rule that denies also covers what holds such a path.
func (r *Rules) path(list []string, name string, denies bool) bool {
	return slices.ContainsFunc(list, func(rule string) bool {
		rule = resolved(rule)
		return filepath.IsAbs(name) && (within(name, rule) || denies && within(rule, name))
	})
}

// image tells whether one of the names of an image, among them its id and its
// digests, is covered.
func (r *Rules) image(names []string) bool {
	for _, rule := range r.Images {
		for _, name := range names {
			if rule == "*" || imageRule(rule, name) {
				return true
			}
		}
	}
	return false
}

// registryName is a registry, or a repository of one with or without a tag, as
// Podman writes names: nothing else is ever the name of an image.
var registryName = regexp.MustCompile(`^(?:localhost(?::[0-9]+)?|[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::[0-9]+)?|[a-z0-9-]+:[0-9]+|\[[0-9a-f:]+\](?::[0-9]+)?)` +
	`(?:(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)+(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?)?/?$`)

// isImageRule tells whether a rule can be that of an image. What begins as a
// digest is one, never a registry with a port.
func isImageRule(rule string) bool {
	if strings.HasPrefix(rule, "sha256:") || IsHash(rule) {
		_, ok := hashOf(rule)
		return ok
	}
	return rule == "*" || registryName.MatchString(rule)
}

// imageRule compares one rule with one name of an image, however the same name is
// written in either.
func imageRule(rule, name string) bool {
	repository, digest, _ := strings.Cut(name, "@")
	if is, ok := hashOf(rule); ok {
		of, hashed := hashOf(digest)
		if digest == "" {
			of, hashed = hashOf(name)
		}
		return hashed && is == of
	}
	rule = oneRegistry(strings.TrimSuffix(rule, "/"))
	return slices.ContainsFunc(sameImage(oneRegistry(repository)), func(repository string) bool {
		return repository == rule || strings.HasPrefix(repository, rule+"/") ||
			strings.HasPrefix(repository, rule+":") && strings.Contains(rule, "/")
	})
}

// Docker's registry, another name of it, and where its own images lie there.
const (
	dockerHub    = "docker.io"
	dockerIndex  = "index.docker.io"
	dockerImages = dockerHub + "/library/"
)

// oneRegistry writes a name with its registry in one way: neither the case of
// letters nor the port that it has anyway makes another one.
func oneRegistry(name string) string {
	registry, rest, several := strings.Cut(name, "/")
	registry = strings.TrimSuffix(strings.ToLower(registry), ":443")
	if registry == dockerIndex {
		registry = dockerHub
	}
	if !several {
		return registry
	}
	return registry + "/" + rest
}

// sameImage are the names of the image of a name: docker.io/debian is
// docker.io/library/debian, as Podman reads it.
func sameImage(name string) []string {
	own, ok := strings.CutPrefix(name, dockerImages)
	if !ok {
		own, ok = strings.CutPrefix(name, dockerHub+"/")
	}
	if !ok || own == "" || strings.Contains(own, "/") {
		return []string{name}
	}
	return []string{dockerHub + "/" + own, dockerImages + own}
}

// hashOf is the hexadecimal of a digest or an id.
func hashOf(text string) (string, bool) {
	text = strings.TrimPrefix(text, "sha256:")
	return text, IsHash(text)
}

// namesOf are the names that a reference may stand for: Podman looks a short one
// up in this host's own registries.
func namesOf(reference string) []string {
	first, rest, several := strings.Cut(reference, "/")
	if several && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return []string{reference}
	}
	names := []string{reference, "localhost/" + reference, "docker.io/" + reference}
	if rest == "" {
		names = append(names, "docker.io/library/"+reference)
	}
	return names
}
