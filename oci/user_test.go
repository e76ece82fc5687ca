package oci_test

import (
	"reflect"
	"strings"
	"testing"

	"podgrade/oci"
)

const passwdFile = `root:x:0:0:root:/root:/bin/sh
# a comment
grader:x:1000:1000:grader:/home/grader:/bin/sh
twin:x:1000:50:the same id:/home/twin:/bin/sh
1234:x:77:78:a number as name:/home/number:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
broken:x:abc:1::/:
short:x:5
huge:x:4294967296:1::/:
negative:x:-1:1::/:
spaced:x:300:300:::/bin/sh
`

const groupFile = `root:x:0:
grader:x:1000:
staff:x:50:grader,nobody
audio:x:29:nobody,grader,grader
again:x:29:grader
own:x:1000:grader
77:x:99:
broken:x:abc:grader
short:x
`

// The rules are Docker's: a name is looked up, a number need not be, a group
// that is given replaces all others.
func TestResolveUser(t *testing.T) {
	for _, test := range []struct {
		configured string
		want       oci.User
	}{
		{"", oci.User{Home: "/root"}},
		{"root", oci.User{Home: "/root"}},
		{"0", oci.User{Home: "/root"}},
		{"grader", oci.User{UID: 1000, GID: 1000, Groups: []uint32{50, 29}, Home: "/home/grader"}},
		{"1000", oci.User{UID: 1000, GID: 1000, Groups: []uint32{50, 29}, Home: "/home/grader"}},
		{"twin", oci.User{UID: 1000, GID: 50, Home: "/home/twin"}},
		{"1234", oci.User{UID: 77, GID: 78, Home: "/home/number"}},
		{"77", oci.User{UID: 77, GID: 78, Home: "/home/number"}},
		{"4242", oci.User{UID: 4242}},
		{"4242:4243", oci.User{UID: 4242, GID: 4243}},
		{"4242:staff", oci.User{UID: 4242, GID: 50}},
		{"grader:staff", oci.User{UID: 1000, GID: 50, Home: "/home/grader"}},
		{"grader:0", oci.User{UID: 1000, Home: "/home/grader"}},
		{"grader:", oci.User{UID: 1000, GID: 1000, Groups: []uint32{50, 29}, Home: "/home/grader"}},
		{":staff", oci.User{GID: 50, Home: "/root"}},
		{"root:77", oci.User{GID: 99, Home: "/root"}},
		{"spaced", oci.User{UID: 300, GID: 300}},
		{"2147483647", oci.User{UID: 2147483647}},
	} {
		test.want.Name = test.configured
		got, err := oci.ResolveUser(test.configured, []byte(passwdFile), []byte(groupFile))
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q is %+v, %v; want %+v", test.configured, got, err, test.want)
		}
	}
	for configured, word := range map[string]string{
		"nosuch": "/etc/passwd", "broken": "/etc/passwd", "short": "/etc/passwd", "huge": "/etc/passwd", "negative": "/etc/passwd",
		"2147483648": "/etc/passwd", "-1": "/etc/passwd", " root": "/etc/passwd", "0x10": "/etc/passwd", "+5": "/etc/passwd",
		"root:nosuch": "/etc/group", "root:broken": "/etc/group", "root:-1": "/etc/group", "grader:a:b": "/etc/group", "#": "/etc/passwd",
	} {
		got, err := oci.ResolveUser(configured, []byte(passwdFile), []byte(groupFile))
		if err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "USER") {
			t.Errorf("%q is %+v, %v", configured, got, err)
		}
	}
}

func TestResolveUserWithoutFiles(t *testing.T) {
	for configured, want := range map[string]oci.User{"": {}, "0": {}, "1000": {UID: 1000}, "1000:5": {UID: 1000, GID: 5}} {
		want.Name = configured
		if got, err := oci.ResolveUser(configured, nil, nil); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v, %v", configured, got, err)
		}
	}
	if got, err := oci.ResolveUser("root", nil, nil); err == nil {
		t.Errorf("a name is %+v in an image without users", got)
	}
}

func FuzzResolveUser(f *testing.F) {
	for _, configured := range []string{"", "root", "grader:staff", "1000:1000", ":", "a:b:c"} {
		f.Add(configured, []byte(passwdFile), []byte(groupFile))
	}
	f.Add("x", []byte("x:\n:::::\n"+strings.Repeat("a", 70_000)), []byte("\x00:\xff:1:x,,"))
	f.Fuzz(func(t *testing.T, configured string, passwd, group []byte) {
		u, err := oci.ResolveUser(configured, passwd, group)
		if err != nil {
			return
		}
		if u.Name != configured || len(u.Groups) > len(group) {
			t.Errorf("%q is %+v", configured, u)
		}
		for _, id := range append([]uint32{u.UID, u.GID}, u.Groups...) {
			if id > 1<<31-1 {
				t.Errorf("%q has the id %d", configured, id)
			}
		}
	})
}

func TestCheckUser(t *testing.T) {
	for _, test := range []struct {
		user oci.User
		ids  uint32
		ok   bool
	}{
		{oci.User{}, 65536, true},
		{oci.User{}, 1, true},
		{oci.User{UID: 65535, GID: 65535, Groups: []uint32{65535}}, 65536, true},
		{oci.User{UID: 65536}, 65536, false},
		{oci.User{UID: 65536}, 1 << 20, false}, // more than a cell is given
		{oci.User{GID: 65536}, 65536, false},
		{oci.User{Groups: []uint32{1, 65536}}, 65536, false},
		{oci.User{UID: 1000}, 1000, false},
		{oci.User{UID: 999}, 1000, true},
		{oci.User{UID: 4000000}, 65536, false},
	} {
		err := oci.CheckUser(test.user, test.ids)
		if (err == nil) != test.ok {
			t.Errorf("%+v with %d ids: %v", test.user, test.ids, err)
		}
		if err != nil && !strings.Contains(err.Error(), "/etc/subuid") {
			t.Errorf("%v does not say what to do", err)
		}
	}
}

func TestIDMap(t *testing.T) {
	for ids, want := range map[uint32][][3]uint32{
		0: {{0, 0, 1}}, 1: {{0, 0, 1}}, 2: {{0, 0, 1}, {1, 1, 1}}, 1001: {{0, 0, 1}, {1, 1, 1000}},
		65536: {{0, 0, 1}, {1, 1, 65535}}, 65537: {{0, 0, 1}, {1, 1, 65535}}, 4000000000: {{0, 0, 1}, {1, 1, 65535}},
	} {
		var got [][3]uint32
		for _, m := range oci.IDMap(ids) {
			got = append(got, [3]uint32{m.ContainerID, m.HostID, m.Size})
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d ids are mapped %v, want %v", ids, got, want)
		}
	}
}
