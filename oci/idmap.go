package oci

import (
	"fmt"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// MapSize is how many ids a cell has at most: 0 to 65535, as images expect.
const MapSize = 65536

// IDMap is the one id map of every cell, whatever the image's user: container
// 0 is the caller, 1 and up are its subordinate ids. It is given inside the
// worker's user namespace, where the caller is 0 and the subordinate ids start
// at 1, so it maps each id to itself; ids is how many that namespace has.
//
// Split in two, because Podman 4.3.1 cannot write a map of length zero and one
// piece would cross the border between the caller and its subordinate ids.
func IDMap(ids uint32) []specs.LinuxIDMapping {
	m := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 0, Size: 1}}
	if rest := min(ids, MapSize); rest > 1 {
		m = append(m, specs.LinuxIDMapping{ContainerID: 1, HostID: 1, Size: rest - 1})
	}
	return m
}

// CheckUser refuses a user or group that the map does not reach.
func CheckUser(u User, ids uint32) error {
	limit := min(ids, MapSize)
	for _, id := range append([]uint32{u.UID, u.GID}, u.Groups...) {
		if id >= limit {
			return fmt.Errorf("run as the image's user %q: id %d is above the %d ids of this user's namespace: give the user a larger range in /etc/subuid and /etc/subgid (65536 ids are enough for ids up to 65535), or use an image with a smaller id", u.Name, id, limit)
		}
	}
	return nil
}

// HostIDs are the ids of the host that a cell of root has: its 0 is the first
// one, which is nobody's there, its 1 the next one.
type HostIDs struct {
	Users  uint32 `json:"users"`  // the first one
	Groups uint32 `json:"groups"` // the first one
	Count  uint32 `json:"count"`
	From   string `json:"from"` // who keeps them free
}
