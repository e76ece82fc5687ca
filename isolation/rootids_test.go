package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/oci"
)

func TestRootsCellsHaveIDsThatAreNobodys(t *testing.T) {
	const dana = "dana:100000:65536\n"
	for _, test := range []struct {
		name, asked, subuid, subgid string
		users, groups               uint32
		from                        string // or what the refusal says
	}{
		{"nothing is kept for root", "", dana, dana, ownIDs, ownIDs, "podgrade's own"},
		{"root has a range", "", dana + "root:200000:65536\n", "root:300000:65536\n", 200000, 300000, "root"},
		{"containers has one", "", dana + "containers:2147483647:2147483648\n", "containers:2147483647:2147483648\n", 2147483647, 2147483647, "containers"},
		{"root's comes first", "", "containers:500000:65536\nroot:200000:65536\n", "containers:500000:65536\nroot:200000:65536\n", 200000, 200000, "root"},
		{"root's groups are missing", "", "root:200000:65536\n", dana, ownIDs, ownIDs, "podgrade's own"},
		{"root's range is small", "", "root:200000:1000\nroot:400000:70000\n", "root:200000:65536\n", 400000, 200000, "root"},
		{"root's range holds users", "", "root:0:65536\n", "root:0:65536\n", ownIDs, ownIDs, "podgrade's own"},
		{"another one's line is odd", "", "eve:x:y\n" + dana, dana, ownIDs, ownIDs, "podgrade's own"},
		{"asked for", "3000000", dana, dana, 3000000, 3000000, idsVariable},
		{"asked for what is root's", "200000", "root:200000:65536\n", "root:200000:65536\n", 200000, 200000, idsVariable},
		{"asked for what a user has", "165535", dana, dana, 0, 0, "dana"},
		{"asked for what a group has", "50000000", "", "eve:50065535:1\n", 0, 0, "eve"},
		{"asked for the host's own users", "1000", dana, dana, 0, 0, "65536"},
		{"asked for what no kernel has", "4294967295", dana, dana, 0, 0, "65536"},
		{"asked for nonsense", "many", dana, dana, 0, 0, "many"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			subuid, subgid := filepath.Join(dir, "subuid"), filepath.Join(dir, "subgid")
			if err := errors.Join(os.WriteFile(subuid, []byte(test.subuid), 0o600), os.WriteFile(subgid, []byte(test.subgid), 0o600)); err != nil {
				t.Fatal(err)
			}
			ids, err := rootIDs(test.asked, subuid, subgid)
			if test.users == 0 {
				var fault *Fault
				if !errors.As(err, &fault) || fault.Kind != Refusal || !strings.Contains(err.Error(), test.from) {
					t.Errorf("%+v, %v", ids, err)
				}
				return
			}
			if err != nil || ids.Users != test.users || ids.Groups != test.groups || ids.Count != oci.MapSize || !strings.HasSuffix(ids.From, test.from) {
				t.Errorf("%+v, %v", ids, err)
			}
		})
	}
	if ids, err := rootIDs("", "/nonexistent", "/nonexistent"); err != nil || ids.Users != ownIDs {
		t.Errorf("without the files: %+v, %v", ids, err)
	}
}

// No two ids of a tree become one, and none becomes an id that is the host's.
func TestAnOwnersMapIsOneToOneAndBelowNobody(t *testing.T) {
	const first, count = 500000, 65536
	for _, owner := range []uint32{0, 1000, 65535, first, first + 7, first + count - 1, first + count} {
		for _, as := range []uint32{0, 1, 1000, count - 1} {
			t.Run(fmt.Sprintf("%d as %d", owner, as), func(t *testing.T) {
				inside, outside := map[uint32]bool{}, map[uint32]bool{}
				shown := uint32(0)
				for _, m := range ownerMap(owner, as, first, count) {
					for i := range uint32(m.Size) {
						disk, seen := uint32(m.ContainerID)+i, uint32(m.HostID)+i
						if inside[disk] || outside[seen] {
							t.Fatalf("%d or %d has two partners", disk, seen)
						}
						inside[disk], outside[seen] = true, true
						if seen < first || seen >= first+count {
							t.Fatalf("%d is seen as %d, which is no id of a cell", disk, seen)
						}
						if disk != owner && disk != seen {
							t.Fatalf("%d, which is not the owner, is seen as %d", disk, seen)
						}
						if disk == owner {
							shown = seen
						}
					}
				}
				want := first + as
				if owner >= first && owner < first+count {
					want = owner
				}
				if shown != want {
					t.Errorf("the owner is seen as %d, not %d", shown, want)
				}
			})
		}
	}
}
