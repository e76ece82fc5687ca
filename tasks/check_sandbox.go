package tasks

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func (s *Sandbox) check(d *decoder, n *node, path string) {
	patterns(d, n, path, s.IgnorePatterns)
	if s.Podman != nil && s.Driver == DriverTempdir && !d.loading && !d.tolerant {
		d.warn(n.get("podman"), join(path, "podman"), "belongs to driver docker or podman, and the driver is tempdir")
	}
	s.checkTemplates(d, n.get("template_sources"), join(path, "template_sources"))
	tools := map[string]bool{}
	for i, entry := range s.RecordCLI {
		if tools[entry.Tool] {
			d.fail(n.get("record_cli").items[i], item(join(path, "record_cli"), i), "records %s a second time; put all answers into one entry", quote(entry.Tool))
		}
		tools[entry.Tool] = true
	}
}

// patterns checks and trims ignore_patterns (task-file 6).
func patterns(d *decoder, n *node, path string, list []string) {
	for i, pattern := range list {
		list[i] = strings.TrimSpace(pattern)
		if list[i] == "" || list[i] == "!" {
			d.fail(n, item(join(path, "ignore_patterns"), i), "must be a pattern, or ! and a pattern, got %s", quote(pattern))
		}
	}
}

func (s *Sandbox) checkTemplates(d *decoder, n *node, path string) {
	const many = 10
	if len(s.TemplateSources) > many {
		d.warn(n, path, "has %d entries; more than %d are hard to follow", len(s.TemplateSources), many)
	}
	for i, source := range s.TemplateSources {
		if source.Type == Repo && i > 0 {
			d.fail(n.items[i], item(path, i), "a repo must be the first entry, and there can be only one")
		}
	}
}

// kindOf: the type of a template source may be left out, since the other keys
// say it (task-file 6.2).
func (t *TemplateSource) kindOf(n *node) string {
	if s, ok := n.get("type").isString(); ok {
		return s
	}
	switch {
	case n == nil:
		return t.Type
	case n.get("files") != nil:
		return StarterFiles
	case n.get("url") != nil:
		return Repo
	}
	return TemplateDir
}

// decodeNode drops unknown keys silently, as upstream does here.
func (t *TemplateSource) decodeNode(d *decoder, n *node, path string) {
	if n.kind == mapNode {
		t.Type = t.kindOf(n)
		n = known(n, shapeOf(typeOf(t)).keys(t.Type))
	}
	d.structure(n, path, t)
}

func (f *StarterFile) decodeNode(d *decoder, n *node, path string) {
	d.structure(known(n, shapeOf(typeOf(f)).keys("")), path, f)
}

// known returns a copy of a mapping with these keys only.
func known(n *node, keys []string) *node {
	c := *n
	c.pairs = slices.DeleteFunc(slices.Clone(n.pairs), func(p pair) bool { return !slices.Contains(keys, p.key) })
	return &c
}

func (t *TemplateSource) check(d *decoder, n *node, path string) {
	if t.Type != TemplateDir {
		return
	}
	at := n.get("mount_point")
	switch m := t.MountPoint; {
	case m == "":
		d.fail(at, join(path, "mount_point"), "must not be empty; write . for the workspace itself")
	case m[0] == '/', m[0] == '\\', hasParent(m):
		d.fail(at, join(path, "mount_point"), "must be a path inside of the workspace, got %s", quote(m))
	}
}

// hasParent reports whether a path has a part "..", with either slash.
func hasParent(p string) bool {
	return slices.Contains(strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == '\\' }), "..")
}

func (k *Docker) check(d *decoder, n *node, path string) {
	workingDir(d, n, path, k.WorkingDir)
	hosts(d, n.get("egress_allowlist"), join(path, "egress_allowlist"), k.EgressAllowlist)
	for i, mount := range k.ExtraMounts {
		checkMount(d, n.get("extra_mounts").items[i], item(join(path, "extra_mounts"), i), mount)
	}
	for _, key := range []string{"env_passthrough", "env_passthrough_extra"} {
		list := n.get(key)
		if list == nil {
			continue
		}
		for i, entry := range list.items {
			if name, ok := entry.isString(); ok && !variableName.MatchString(name) {
				d.warn(entry, item(join(path, key), i), "%s is not the name of a variable; nothing is passed on", quote(name))
			}
		}
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// workingDir: an absolute path or auto; not the root, not where podgrade's own
// paths are (task-file 6.1, design section 4).
func workingDir(d *decoder, n *node, at, dir string) {
	clean := path.Clean(dir)
	switch {
	case dir == "", dir == "auto":
	case !path.IsAbs(dir):
		d.fail(n.get("working_dir"), join(at, "working_dir"), "must be an absolute path or auto, got %s", quote(dir))
	case clean == "/", clean == "/work", strings.HasPrefix(clean, "/work/"), clean == "/.podgrade", strings.HasPrefix(clean, "/.podgrade/"):
		d.fail(n.get("working_dir"), join(at, "working_dir"), "must not be / nor lie in /work or /.podgrade, which are taken, got %s", quote(dir))
	}
}

var hostName = regexp.MustCompile(`^(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*\.?(?::([0-9]{1,5}))?$`)

func hosts(d *decoder, n *node, path string, list []string) {
	for i, host := range list {
		m := hostName.FindStringSubmatch(host)
		port := 1
		if m != nil && m[1] != "" {
			port, _ = strconv.Atoi(m[1])
		}
		if m == nil || port < 1 || port > 65535 {
			d.fail(n.items[i], item(path, i), "must be a host or host:port without wildcard, got %s", quote(host))
		}
	}
}

func checkMount(d *decoder, n *node, at, mount string) {
	parts := strings.Split(mount, ":")
	const form = "must be SOURCE:DESTINATION or SOURCE:DESTINATION:ro"
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || !path.IsAbs(parts[1]) || len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw" {
		d.fail(n, at, "%s with an absolute destination, got %s", form, quote(mount))
		return
	}
	if clean := path.Clean(parts[1]); clean == "/" || clean == "/work" || strings.HasPrefix(clean, "/work/") {
		d.fail(n, at, "the destination must not be / nor lie in /work, which is taken, got %s", quote(mount))
	}
}
