package policy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func newKeys(t *testing.T) *Keys {
	t.Helper()
	return &Keys{Dir: filepath.Join(t.TempDir(), "config", "keys")}
}

func TestTheKeyIsMadeOnFirstUseAndForNobodyElse(t *testing.T) {
	keys := newKeys(t)
	if signed, err := keys.Open([]byte(`{"payloadType": "application/vnd.in-toto+json", "payload": "e30=", "signatures": [{"keyid": "k", "sig": "AAAA"}]}`), nil); err != nil || signed.By != Unsigned || signed.Key != "k" {
		t.Errorf("%+v, %v", signed, err)
	}
	if _, err := os.Stat(keys.Dir); !os.IsNotExist(err) {
		t.Error("looking at a signature made a key")
	}
	public, err := keys.Public()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{".": fs.ModeDir | 0o700, keyFile: 0o600} {
		if info, err := os.Stat(filepath.Join(keys.Dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if entries, _ := os.ReadDir(keys.Dir); len(entries) != 1 {
		t.Errorf("the directory holds %v", entries)
	}
	again := &Keys{Dir: keys.Dir}
	if second, err := again.Public(); err != nil || second != public {
		t.Errorf("%s, then %s, %v", public, second, err)
	}
	if _, err := ParseKey(public); err != nil {
		t.Error(err)
	}
}

func TestManyPodgradesMakeOneKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	found := make([]string, 16)
	var all sync.WaitGroup
	for i := range found {
		all.Go(func() {
			key, err := (&Keys{Dir: dir}).Public()
			if err != nil {
				t.Error(err)
			}
			found[i] = key
		})
	}
	all.Wait()
	for _, key := range found {
		if key != found[0] {
			t.Fatalf("several keys: %v", found)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("drafts are left: %v", entries)
	}
}

func TestAKeyThatOthersCouldUseIsNotUsed(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(dir string)
		want  string
	}{
		"the group may read it": {func(dir string) { os.Chmod(filepath.Join(dir, keyFile), 0o640) }, "others may use"},
		"all may write it":      {func(dir string) { os.Chmod(filepath.Join(dir, keyFile), 0o602) }, "others may use"},
		"others may enter":      {func(dir string) { os.Chmod(dir, 0o711) }, "others may use"},
		"it is a link": {func(dir string) {
			os.Rename(filepath.Join(dir, keyFile), dir+".key")
			os.Symlink(dir+".key", filepath.Join(dir, keyFile))
		}, "no regular file"},
		"its directory is a link":      {func(dir string) { os.Rename(dir, dir+".other"); os.Symlink(dir+".other", dir) }, "directory is none"},
		"it is empty":                  {func(dir string) { os.WriteFile(filepath.Join(dir, keyFile), nil, 0o600) }, "holds no key"},
		"it is cut":                    {func(dir string) { os.Truncate(filepath.Join(dir, keyFile), 200) }, "does not hold one line"},
		"two keys":                     {func(dir string) { twice(filepath.Join(dir, keyFile)) }, "does not hold one line"},
		"a directory is in its place":  {func(dir string) { os.Remove(filepath.Join(dir, keyFile)); os.Mkdir(filepath.Join(dir, keyFile), 0o700) }, "no regular file"},
		"nobody says where it may lie": {func(string) {}, "neither XDG_CONFIG_HOME nor HOME"},
	} {
		t.Run(name, func(t *testing.T) {
			keys := newKeys(t)
			envelope, err := keys.Sign([]byte(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			test.spoil(keys.Dir)
			again := &Keys{Dir: keys.Dir}
			if test.want == "neither XDG_CONFIG_HOME nor HOME" {
				again.Dir = ""
			}
			if _, err := again.Sign([]byte(`{}`)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("signing: %v", err)
			}
			if signed, err := again.Open(envelope, nil); signed.By != Unsigned || signed.Statement != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("checking: %+v, %v", signed, err)
			}
		})
	}
}

func twice(name string) {
	text, _ := os.ReadFile(name)
	os.WriteFile(name, append(text, text...), 0o600)
}

func TestSignaturesTellWhoSigned(t *testing.T) {
	mine, other, stranger := newKeys(t), newKeys(t), newKeys(t)
	statement := []byte(`{"_type": "x"}`)
	theirs, err := other.Public()
	if err != nil {
		t.Fatal(err)
	}
	trust := []TrustedKey{{Name: "laptop", Key: theirs}}
	sign := func(k *Keys) []byte {
		envelope, err := k.Sign(statement)
		if err != nil {
			t.Fatal(err)
		}
		return envelope
	}
	own, trusted, unknown := sign(mine), sign(other), sign(stranger)
	for name, test := range map[string]struct {
		envelope []byte
		want     Signed
		problem  string
	}{
		"own":                  {own, Signed{By: Own, Statement: statement}, ""},
		"trusted":              {trusted, Signed{By: Trusted, Name: "laptop", Statement: statement}, ""},
		"unknown":              {unknown, Signed{}, ""},
		"another payload":      {replaced(own, base64.StdEncoding.EncodeToString(statement), base64.StdEncoding.EncodeToString([]byte(`{"_type": "y"}`))), Signed{}, ""},
		"another payload type": {replaced(own, "in-toto+json", "in-toto+yaml"), Signed{}, "no statement"},
		"another's key's name": {replaced(unknown, keyIDOf(t, unknown), keyIDOf(t, own)), Signed{}, ""},
		"no key's name":        {replaced(own, keyIDOf(t, own), ""), Signed{By: Own, Statement: statement}, ""},
		"no signature":         {[]byte(`{"payloadType": "application/vnd.in-toto+json", "payload": "e30=", "signatures": []}`), Signed{}, "no signature"},
		"very many signatures": {[]byte(`{"payloadType": "application/vnd.in-toto+json", "payload": "e30=", "signatures": [` + strings.Repeat(`{"sig": "AAAA"},`, 40) + `{"sig": "AAAA"}]}`), Signed{}, "41 signatures"},
		"no base64":            {[]byte(`{"payloadType": "application/vnd.in-toto+json", "payload": "!", "signatures": [{"sig": "!"}]}`), Signed{}, ""},
		"no JSON":              {[]byte("signed by me"), Signed{}, "no envelope"},
		"a list":               {[]byte("[]"), Signed{}, "no envelope"},
		"nothing":              {nil, Signed{}, "no envelope"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mine.Open(test.envelope, trust)
			if got.By != test.want.By || got.Name != test.want.Name || !bytes.Equal(got.Statement, test.want.Statement) {
				t.Errorf("%+v", got)
			}
			if (err != nil) != (test.problem != "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%v, want %q", err, test.problem)
			}
		})
	}
	trust = []TrustedKey{{Name: "bad", Key: "ed25519:xx"}, {Name: "laptop", Key: theirs}}
	if got, err := mine.Open(trusted, trust); got.By != Trusted || err != nil {
		t.Errorf("a good key after a bad one: %+v, %v", got, err)
	}
	if got, err := mine.Open(unknown, trust); got.By != Unsigned || err == nil || !strings.Contains(err.Error(), "bad") {
		t.Errorf("a bad key: %+v, %v", got, err)
	}
}

func keyIDOf(t *testing.T, envelope []byte) string {
	t.Helper()
	var e struct{ Signatures []struct{ KeyID string } }
	if err := json.Unmarshal(envelope, &e); err != nil || len(e.Signatures) != 1 {
		t.Fatal(err, e)
	}
	return e.Signatures[0].KeyID
}

func replaced(text []byte, old, new string) []byte {
	return bytes.Replace(text, []byte(old), []byte(new), 1)
}

func TestKeysAsText(t *testing.T) {
	for _, text := range []string{
		"", "ed25519:", "ed25519:AAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=", "rsa:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "ed25519:\x1b[2J",
	} {
		if _, err := ParseKey(text); err == nil || strings.ContainsRune(err.Error(), 0x1b) {
			t.Errorf("%q: %v", text, err)
		}
	}
	text := "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	if key, err := ParseKey(text); err != nil || KeyText(key) != text {
		t.Errorf("%v, %v", key, err)
	}
}
