package oci

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// User is the user that commands of a cell run as.
type User struct {
	Name   string   // as the image configuration says it
	UID    uint32   // in the cell
	GID    uint32   // in the cell
	Groups []uint32 // supplementary, in the cell
	Home   string   // from the image's passwd, "" when it says none
}

// ResolveUser finds the user of an image from its configuration ("", "name",
// "uid", either with ":group") and from the image's own /etc/passwd and
// /etc/group; never from the host's.
//
// A name must be in the file; a number need not. A user given without a group
// has the primary group of its passwd entry, 0 without one, and the groups
// that list it as a member.
func ResolveUser(configured string, passwd, group []byte) (User, error) {
	name, groupName, hasGroup := strings.Cut(configured, ":")
	if name == "" {
		name = "0"
	}
	u := User{Name: configured}
	entry, found := findPasswd(passwd, name)
	switch {
	case found:
		u.UID, u.GID, u.Home = entry.uid, entry.gid, entry.home
	default:
		id, err := parseID(name)
		if err != nil {
			return User{}, fmt.Errorf("run as the image's user %q: it is neither a number nor in the image's /etc/passwd: correct USER in the image", configured)
		}
		u.UID = id
	}
	if hasGroup && groupName != "" {
		gid, err := findGroup(group, groupName)
		if err != nil {
			return User{}, fmt.Errorf("run as the image's user %q: group %q is neither a number nor in the image's /etc/group: correct USER in the image", configured, groupName)
		}
		u.GID = gid
		return u, nil
	}
	if found {
		u.Groups = memberships(group, entry.name, u.GID)
	}
	return u, nil
}

type passwdEntry struct {
	name     string
	uid, gid uint32
	home     string
}

// findPasswd looks for a name, then for a number.
func findPasswd(passwd []byte, name string) (passwdEntry, bool) {
	id, numErr := parseID(name)
	var byID *passwdEntry
	for fields := range colonLines(passwd, 6) {
		uid, err1 := parseID(fields[2])
		gid, err2 := parseID(fields[3])
		if err1 != nil || err2 != nil {
			continue
		}
		e := passwdEntry{name: fields[0], uid: uid, gid: gid, home: fields[5]}
		if e.name == name {
			return e, true
		}
		if byID == nil && numErr == nil && uid == id {
			byID = &e
		}
	}
	if byID != nil {
		return *byID, true
	}
	return passwdEntry{}, false
}

func findGroup(group []byte, name string) (uint32, error) {
	for fields := range colonLines(group, 3) {
		if fields[0] == name {
			return parseID(fields[2])
		}
	}
	return parseID(name)
}

func memberships(group []byte, user string, primary uint32) []uint32 {
	var ids []uint32
	for fields := range colonLines(group, 4) {
		if !slices.Contains(strings.Split(fields[3], ","), user) {
			continue
		}
		if id, err := parseID(fields[2]); err == nil && id != primary && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func parseID(s string) (uint32, error) {
	id, err := strconv.ParseUint(s, 10, 31)
	return uint32(id), err
}

// colonLines yields the lines of a passwd-like file that have at least n fields.
func colonLines(file []byte, n int) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		lines := bufio.NewScanner(bytes.NewReader(file))
		for lines.Scan() {
			fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
			if len(fields) >= n && !yield(fields) {
				return
			}
		}
	}
}
