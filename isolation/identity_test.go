package isolation

import (
	"os"
	"strings"
	"testing"
)

func TestIdentityOfAHolder(t *testing.T) {
	value, err := processIdentity()
	if err != nil {
		t.Fatal(err)
	}
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	own, err := parseIdentity(value)
	if err != nil {
		t.Fatal(err)
	}
	if own.pid != os.Getpid() || !own.lives(boot) {
		t.Errorf("%+v does not live, and it is this process", own)
	}
	for name, other := range map[string]identity{
		"another start time": {own.pid, own.start + "1", own.boot},
		"another boot":       {own.pid, own.start, "other"},
		"no such process":    {1 << 30, own.start, own.boot},
	} {
		if other.lives(boot) {
			t.Errorf("%s: %+v lives", name, other)
		}
	}
}

func FuzzIdentity(f *testing.F) {
	for _, seed := range []string{"", "1:2:3", "0:1:b", "-1:1:b", "1::b", "1:2:", "1:2:3:4", "99999999999999999999:1:b", "1:x:b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		id, err := parseIdentity(value)
		if err == nil && (id.pid < 1 || id.start == "" || id.boot == "" || strings.Count(value, ":") != 2) {
			t.Errorf("%q gives %+v", value, id)
		}
	})
}
