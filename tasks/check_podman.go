package tasks

import (
	"regexp"
	"slices"
	"strings"
)

var userForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$`)

func (p *Podman) check(d *decoder, n *node, path string) {
	workingDir(d, n, path, p.WorkingDir)
	hosts(d, n.get("egress"), join(path, "egress"), p.Egress)
	if p.User != "" && !userForm.MatchString(p.User) {
		d.fail(n.get("user"), join(path, "user"), "must be USER or USER:GROUP, names or numbers, got %s", quote(p.User))
	}
	if p.Network == NetworkEgress && len(p.Egress) > 0 {
		d.fail(n.get("egress"), join(path, "egress"), "has no meaning with network egress, which reaches every host; keep one of them")
	}
	if s := p.Solution; n.get("solution") != nil && (s == "" || s[0] == '/' || s[0] == '\\' || hasParent(s)) {
		if n.get("solution").kind != nullNode {
			d.fail(n.get("solution"), join(path, "solution"), "must be a script inside of the task directory, got %s", quote(s))
		}
	}
}

// decodeNode reads a user: a number is as good as a string here.
func (p *Podman) decodeNode(d *decoder, n *node, path string) {
	if user := n.get("user"); user != nil && user.kind == intNode {
		n = n.with(user.str(user.text), "user")
	}
	d.structure(n, path, p)
}

// capabilityNames are those of Linux, in the order of their numbers.
var capabilityNames = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID
	SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK
	IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE
	SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP
	MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

// decodeNode reads default, none, or a list of names with or without CAP_.
func (c *Caps) decodeNode(d *decoder, n *node, path string) {
	if s, ok := n.isString(); ok && (s == CapsDefault || s == CapsNone) {
		*c = Caps{Mode: s}
		return
	}
	if n.kind != listNode {
		d.fail(n, path, "must be default, none or a list of capabilities, got %s", n.show())
		return
	}
	*c = Caps{Mode: CapsList, List: []string{}}
	for i, entry := range n.items {
		s, ok := entry.isString()
		name := strings.TrimPrefix(strings.ToUpper(s), "CAP_")
		if !ok || !slices.Contains(capabilityNames, name) {
			d.fail(entry, item(path, i), "must be a capability such as CHOWN, got %s%s", entry.show(), Nearest(name, capabilityNames))
			continue
		}
		c.List = append(c.List, "CAP_"+name)
	}
	slices.Sort(c.List)
	c.List = slices.Compact(c.List)
}
