package regrade

import (
	"context"
	"io"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// TestAFullDiskIsNoAnswer: what fails while a disk is full by somebody else's
// doing makes no verdict, be there room again when the last criterion is asked;
// what passes does, and so does what the row itself has filled.
func TestAFullDiskIsNoAnswer(t *testing.T) {
	full, own := isolation.Room{Full: true, Disk: "/the/disk"}, isolation.Room{Full: true, Disk: "/the/disk", Own: true}
	fails := func(_ *fakeCell, line string, _ io.Writer) (isolation.Exit, error) {
		return isolation.Exit{Code: len(line) % 2}, nil // "odd" fails, "even" does not
	}
	for name, test := range map[string]struct {
		lines  []string
		rooms  []isolation.Room // of one look after the other
		status record.Status    // "": no verdict
	}{
		"there is room":                    {[]string{"odd"}, nil, record.Failure},
		"full":                             {[]string{"odd"}, []isolation.Room{full}, ""},
		"full only when the command ended": {[]string{"odd", "even"}, []isolation.Room{full, {}}, ""},
		"full only at the end":             {[]string{"even", "odd"}, []isolation.Room{{}, full}, ""},
		"full, and all pass":               {[]string{"even"}, []isolation.Room{full}, record.Success},
		"the row's own doing":              {[]string{"odd"}, []isolation.Room{own, own}, record.Failure},
		"first its own, then another's":    {[]string{"odd"}, []isolation.Room{own, full}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var list []tasks.Criterion
			for _, line := range test.lines {
				list = append(list, runCommand(line))
			}
			c := newCase(t, fixture.Pinned, criteriaOf(list...))
			c.fake.run = fails
			c.fake.room = func() (now isolation.Room) {
				if len(test.rooms) > 0 {
					now, test.rooms = test.rooms[0], test.rooms[1:]
				}
				return now
			}
			if test.status != "" {
				if v := c.pass(); v.Status != test.status {
					t.Errorf("%s", v.Status)
				}
				return
			}
			c.refused(Infrastructure, "free some space on it", true)
			if log := c.file(record.GradeLog); !strings.Contains(log, "that of /the/disk was full") || !strings.Contains(log, "exit code 1") {
				t.Errorf("the log does not say why: %s", log)
			}
		})
	}
}

// roomCell answers what Room asks, and nothing else.
type roomCell struct {
	isolation.Cell
	look func() isolation.Room
}

func (c roomCell) Room(context.Context) (isolation.Room, error) { return c.look(), nil }

// Of commands that run at once one may find that a disk is full by somebody else's
// doing while another one still looks: that is not forgotten for what the other found.
func TestADiskThatSomebodyElseFilledIsRemembered(t *testing.T) {
	own, others := isolation.Room{Full: true, Own: true}, isolation.Room{Full: true}
	p := &place{}
	slow := roomCell{look: func() isolation.Room {
		if err := p.lookForRoom(t.Context(), roomCell{look: func() isolation.Room { return others }}); err != nil {
			t.Error(err)
		}
		return own
	}}
	if err := p.lookForRoom(t.Context(), slow); err != nil || p.room != others {
		t.Errorf("%+v, %v", p.room, err)
	}
}
