package isolation

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"podgrade/oci"
)

// idsVariable chooses the first of the ids that cells of root have.
const idsVariable = "PODGRADE_ROOT_IDS"

// ownIDs is the first id of root's cells where nobody chose one: above what
// systemd gives to containers, below what it keeps for foreign files
// (systemd's "Users, Groups, UIDs and GIDs").
const ownIDs = 0x70000000

// rootRanges are the users under whose names root's ids stand in /etc/subuid,
// the first that is there: containers is the one of Podman's --userns=auto.
var rootRanges = []string{"root", "containers"}

// rootIDs chooses the ids of this host that cells of root have: what is asked
// for, else a range that the host keeps for it, else a fixed one.
func rootIDs(asked, subuid, subgid string) (oci.HostIDs, error) {
	if asked != "" {
		first, err := strconv.ParseUint(asked, 10, 32)
		if err == nil && (first < minHostID || first > maxHostID) {
			err = fmt.Errorf("it must lie from %d to %d", minHostID, maxHostID)
		}
		if err == nil {
			err = errors.Join(overlapped(subuid, first), overlapped(subgid, first))
		}
		if err != nil {
			return oci.HostIDs{}, &Fault{Kind: Refusal, Tried: "use the ids of " + idsVariable, On: fmt.Sprintf("from %q", asked), Why: err,
				Do: fmt.Sprintf("set it to the first of %d ids that no user of this host has, or leave it out", oci.MapSize)}
		}
		return oci.HostIDs{Users: uint32(first), Groups: uint32(first), Count: oci.MapSize, From: idsVariable}, nil
	}
	for _, name := range rootRanges {
		users, err1 := wideRange(subuid, name)
		groups, err2 := wideRange(subgid, name)
		if err := errors.Join(err1, err2); err != nil {
			return oci.HostIDs{}, &Fault{Tried: "choose the ids of root's cells", Why: err}
		}
		if users != 0 && groups != 0 {
			return oci.HostIDs{Users: users, Groups: groups, Count: oci.MapSize, From: subuid + ", " + name}, nil
		}
	}
	return oci.HostIDs{Users: ownIDs, Groups: ownIDs, Count: oci.MapSize, From: "podgrade's own"}, nil
}

// The ids that may be chosen: no user of the host's own, and none of the last
// ones, which mean something else to the kernel.
const (
	minHostID = 65536
	maxHostID = 1<<32 - 1 - 2*oci.MapSize
)

// wideRange is the first id of a user's range that is wide enough; 0: there is
// none.
func wideRange(file, user string) (uint32, error) {
	ranges, err := subordinateIDs(file, []string{user})
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	for _, r := range ranges {
		if r.count >= oci.MapSize && r.start >= minHostID && r.start <= maxHostID {
			return uint32(r.start), err
		}
	}
	return 0, err
}

// overlapped refuses ids that a user has as subordinate ones, but for those of
// root.
func overlapped(file string, first uint64) error {
	lines, err := readRanges(file, func(user string) bool { return user != rootRanges[0] })
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, l := range lines {
		if l.start < first+oci.MapSize && first < l.start+l.count {
			return fmt.Errorf("%s has some of them in %s", l.user, file)
		}
	}
	return err
}
