package policy

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"podgrade/oci"
	"podgrade/tasks"
)

var update = flag.Bool("update", false, "write the published schema anew")

const whole = `allow:
  images: [docker.io/library, "sha256:1111111111111111111111111111111111111111111111111111111111111111"]
  variables: [API_KEY, CI_*]
  networks: [bridge, api.example.com:443]
  paths: [/srv/tasks]
  capabilities: [default, CAP_SYS_ADMIN, set_uid]
  commands: all
  builds: [/srv/tasks]
  judges: [{model: m*, address: own}]
  host_commands: none
deny:
  images: [docker.io/library/evil]
post_run: [make clean]
trusted_keys:
  - {name: ci, key: "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}
`

// policyOf is a policy file of this text.
func policyOf(t *testing.T, text string) *File {
	t.Helper()
	f, err := parseFile("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAPolicyFileIsUnderstoodOrRefused(t *testing.T) {
	f := policyOf(t, whole)
	if keys := f.TrustedKeys(); len(keys) != 1 || keys[0].Name != "ci" || f.Baseline()[0] != "make clean" || f.Allow.Judges[0].Address != "own" {
		t.Errorf("%+v", f)
	}
	for _, empty := range []string{"", "# nothing\n", "{}", "null"} {
		policyOf(t, empty)
	}
	for text, want := range map[string]string{
		"allow: {image: [x]}":                                               "policy.yaml:1:9: allow.image is no key (did you mean images?); there are images, variables",
		"alow: {}":                                                          "policy.yaml:1:1: alow is no key (did you mean allow?)",
		"allow:\n  images: [debian]":                                        "policy.yaml:2:12: allow.images[0] is sha256: and 64 digits of 0-9 and a-f, a name with its registry",
		"deny: {images: [docker.io/x@sha256]}":                              "deny.images[0]",
		"deny: {images: ['sha256:32550e9d170d']}":                           "policy.yaml:1:17: deny.images[0] is sha256: and 64 digits",
		"deny: {images: ['sha256:1234567']}":                                "deny.images[0]",
		"deny: {images: ['sha256:" + strings.Repeat("A", 64) + "']}":        "deny.images[0]",
		"deny: {images: [" + strings.Repeat("A", 64) + "]}":                 "deny.images[0]",
		"deny: {images: ['docker.io/library/evil ']}":                       "deny.images[0]",
		"deny: {images: [docker.io/library/Evil]}":                          "deny.images[0]",
		"deny: {images: [Docker.io/library/evil]}":                          "deny.images[0]",
		"deny: {images: [docker.io//evil]}":                                 "deny.images[0]",
		"deny: {images: ['https://docker.io/library/evil']}":                "deny.images[0]",
		"deny: {images: docker.io}":                                         "policy.yaml:1:16: deny.images is a list",
		"allow: {commands: some}":                                           "allow.commands is none or all",
		"allow: {commands: yes}":                                            "allow.commands is none or all",
		"allow: {commands: all, commands: none}":                            "stands there twice",
		"allow: {variables: [A=B]}":                                         "allow.variables[0] is the name of a variable",
		"allow: {variables: ['*A*']}":                                       "allow.variables[0] is the name of a variable",
		"allow: {paths: [tasks]}":                                           "allow.paths[0] is an absolute path",
		"allow: {builds: [~/x]}":                                            "allow.builds[0] is an absolute path",
		"allow: {networks: [everything]}":                                   "allow.networks[0] is bridge",
		"allow: {capabilities: [CAP_EVERYTHING]}":                           "allow.capabilities[0] is CAP_NAME",
		"allow: {judges: [{model: m}]}":                                     "allow.judges[0] names a model and an address",
		"allow: {judges: [m]}":                                              "allow.judges[0] holds KEY: VALUE",
		"trusted_keys: [{name: a, key: 'ed25519:AAAA'}]":                    "trusted_keys[0] has a name, and a key",
		"trusted_keys: [{key: 'ed25519:" + strings.Repeat("A", 43) + "='}]": "trusted_keys[0] has a name",
		"allow: [a]":            "allow holds KEY: VALUE",
		"allow: {images: [1]}":  "is a text",
		"allow: {images: [*a]}": "unknown anchor",
		"post_run: ['']":        "post_run[0] is a text",
		"{}\n---\n{}":           "second document",
		"a: [":                  "policy.yaml: ",
	} {
		_, err := parseFile("policy.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n  %v, want %s", text, err, want)
		}
	}
	_, err := parseFile("policy.yaml", []byte("a: 1\nb: 2\n"))
	if err == nil || !strings.Contains(err.Error(), "policy.yaml:1:1: a") || !strings.Contains(err.Error(), "policy.yaml:2:1: b") {
		t.Errorf("not all that is wrong is said: %v", err)
	}
	_, err = parseFile("policy.yaml", []byte("{"+strings.Repeat("a1: 1, ", 9999)+"}"))
	if err == nil || len(err.Error()) > 20000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

// TestAPolicyFileOfSomebodyElseIsRefused: it would say for the operator what the
// operator has not said.
func TestAPolicyFileOfSomebodyElseIsRefused(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	name := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(name, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(name); err != nil {
		t.Error(err)
	}
	for mode, refused := range map[os.FileMode]bool{0o644: false, 0o400: false, 0o620: true, 0o602: true, 0o666: true} {
		os.Chmod(name, mode)
		if _, err := OpenFile(name); (err != nil) != refused || refused && !strings.Contains(err.Error(), "others may write") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	// A file of root's is somebody else's for every user, and the other way round.
	other := "/etc/passwd"
	if os.Geteuid() == 0 {
		other = filepath.Join(dir, "other")
		os.WriteFile(other, nil, 0o644)
		os.Chown(other, 12345, 12345)
	}
	if _, err := OpenFile(other); err == nil || !strings.Contains(err.Error(), "another user owns it") {
		t.Errorf("of another user: %v", err)
	}
	fifo := filepath.Join(dir, "fifo")
	syscall.Mkfifo(fifo, 0o600)
	for _, not := range []string{fifo, dir, "/dev/null"} {
		if _, err := OpenFile(not); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: %v", not, err)
		}
	}
	big := filepath.Join(dir, "big")
	os.WriteFile(big, nil, 0o600)
	os.Truncate(big, 2<<30)
	if _, err := OpenFile(big); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("2 GB: %v", err)
	}
	t.Setenv("XDG_CONFIG_HOME", "relative")
	if _, err := OpenDefault(); err == nil {
		t.Error("a directory that nobody can find holds no policy file, they say")
	}
	t.Setenv("XDG_CONFIG_HOME", dir)
	if f, err := OpenDefault(); f != nil || err != nil {
		t.Errorf("without a file: %v %v", f, err)
	}
	os.Mkdir(filepath.Join(dir, "podgrade"), 0o700)
	os.Chmod(name, 0o600)
	os.Rename(name, filepath.Join(dir, "podgrade/policy.yaml"))
	if f, err := OpenDefault(); f == nil || err != nil {
		t.Errorf("the file of the user: %v", err)
	}
}

func TestPolicySchema(t *testing.T) {
	const published = "../docs/policy.schema.json"
	if *update {
		if err := os.WriteFile(published, Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(published); err != nil || !bytes.Equal(text, Schema()) {
		t.Errorf("%s is not what the code makes (%v); look at the difference, then run the test with -update", published, err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("s", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("s")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		whole: true, "{}": true, "alow: {}": false, "allow: {commands: some}": false, "deny: {images: docker.io}": false, "allow: {judges: [{modell: a}]}": false,
	} {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestWhatAPolicyFileCovers asks about single grants: by a rule that allows and by
// the same rule as one that denies.
func TestWhatAPolicyFileCovers(t *testing.T) {
	image := func(names ...string) Grant {
		return Grant{Kind: Image, Value: "v", subject: strings.Join(names, "\x00")}
	}
	id := strings.Repeat("1", 64)
	for _, c := range []struct {
		rule           string
		grant          Grant
		allows, denies bool
	}{
		{"images: [docker.io/library]", image("docker.io/library/debian:12"), true, true},
		{"images: [docker.io/library/]", image("debian:12"), true, true},
		{"images: [docker.io/library]", image("docker.io/libraryx/debian"), false, false},
		{"images: [docker.io/library/debian]", image("docker.io/library/debian:12"), true, true},
		{"images: [docker.io/library/debian:12]", image("docker.io/library/debian:12"), true, true},
		{"images: [docker.io/library/debian:12]", image("docker.io/library/debian:13"), false, false},
		{"images: [docker.io/library/debian]", image("docker.io/library/debian-evil"), false, false},
		{"images: [docker.io/debian]", image("docker.io/library/debian:12"), true, true},
		{"images: ['docker.io/debian:12']", image("debian:12"), true, true},
		{"images: ['docker.io/debian:12']", image("docker.io/library/debian:13"), false, false},
		{"images: [docker.io/library/debian]", image("docker.io/debian@sha256:" + id), true, true},
		{"images: [index.docker.io/library/debian]", image("docker.io/debian"), true, true},
		{"images: [docker.io/debian]", image("index.docker.io/library/debian"), true, true},
		{"images: [docker.io/library/debian]", image("docker.io/debian/evil"), false, false},
		{"images: [docker.io/library]", image("docker.io/debian"), true, true},
		{"images: [docker.io/debian]", image("docker.io/library/debian-evil"), false, false},
		{"images: [docker.io/debian]", image("quay.io/library/debian"), false, false},
		{"images: [quay.io]", image("quay.io:443/a/b"), true, true},
		{"images: ['quay.io:443/a']", image("quay.io/a/b"), true, true},
		{"images: [quay.io]", image("quay.io:5000/a/b"), false, false},
		{"images: [localhost]", image("x:1"), true, true},
		{"images: [localhost]", image("localhost:5000/x"), false, false},
		{"images: ['*']", image("anything"), true, true},
		{"images: [quay.io/a]", image("QUAY.io/a/b:Tag"), true, true},
		{"images: ['host:5000/a_b/c--d:V1.0']", image("host:5000/a_b/c--d:V1.0"), true, true},
		{"images: ['sha256:" + id + "']", image("docker.io/x/y:1", id, ""), true, true},
		{"images: [" + strings.Repeat("a", 64) + "]", image("docker.io/x/y@sha256:" + strings.Repeat("a", 64)), true, true},
		{"images: ['sha256:" + id + "']", image("docker.io/x/y:1", "2"+id[1:], ""), false, false},
		{"images: [quay.io]", Grant{Kind: Pull, Value: "quay.io/a/b"}, true, true},
		{"variables: [A, CI_*]", Grant{Kind: Variable, Value: "CI_X"}, true, true},
		{"variables: [A, CI_*]", Grant{Kind: Variable, Value: "AB"}, false, false},
		{"networks: [egress]", Grant{Kind: Network, Value: tasks.NetworkBridge}, true, true},
		{"networks: ['a:1', b.c]", Grant{Kind: Network, Value: "v", subject: "a:1\x00b.c"}, true, true},
		{"networks: ['a:1']", Grant{Kind: Network, Value: "v", subject: "a:1\x00b.c"}, false, true},
		{"networks: [llm_only]", Grant{Kind: Network, Value: tasks.NetworkBridge}, false, false},
		{"paths: [/usr]", Grant{Kind: Path, Value: "/usr/bin"}, true, true},
		{"paths: [/usr/bin]", Grant{Kind: Path, Value: "/usr"}, false, true},
		{"paths: [/usr/bin]", Grant{Kind: Path, Value: "/usr/binx"}, false, false},
		{"paths: [/usr]", Grant{Kind: Mount, Value: "/usr/bin:/x:ro", subject: "/usr/bin"}, true, true},
		{"paths: [/usr]", Grant{Kind: Mount, Value: "/usr/bin:/x"}, false, true},
		{"paths: [/usr]", Grant{Kind: SearchPath, Value: "/opt:/usr/bin"}, false, true},
		{"host_commands: all", Grant{Kind: SearchPath, Value: "/opt"}, true, true},
		{"builds: [/srv]", Grant{Kind: Build, Value: "/srv/x/Dockerfile"}, true, true},
		{"builds: [/srv]", Grant{Kind: Path, Value: "/srv/x"}, false, false},
		{"capabilities: [default]", Grant{Kind: Capabilities, Value: strings.Join(oci.DockerCapabilities(), " ")}, true, true},
		{"capabilities: [default]", Grant{Kind: Capabilities, Value: "CAP_CHOWN CAP_SYS_ADMIN"}, false, true},
		{"capabilities: [default]", Grant{Kind: Capabilities, Value: "set_uid"}, false, false},
		{"judges: [{model: m*, address: own}]", Grant{Kind: Judge, Value: "v", subject: "m1\x00own"}, true, true},
		{"judges: [{model: m*, address: own}]", Grant{Kind: Judge, Value: "v", subject: "m1\x00https://evil"}, false, false},
		{"commands: all", Grant{Kind: Command, Value: "x"}, true, true},
		{"commands: all", Grant{Kind: WorkingDir, Value: "/x"}, true, true},
		{"commands: all", Grant{Kind: HostCommand, Value: "x"}, false, false},
		{"commands: none", Grant{Kind: Command, Value: "x"}, false, false},
		{"host_commands: all", Grant{Kind: HostCommand, Value: "x"}, true, true},
		{"host_commands: all", Grant{Kind: Command, Value: "x"}, false, false},
	} {
		allow, deny := policyOf(t, "allow: {"+c.rule+"}"), policyOf(t, "deny: {"+c.rule+"}")
		if got := allow.allows(c.grant, []Grant{c.grant}); got != c.allows {
			t.Errorf("allow %s: %+v: %v", c.rule, c.grant, got)
		}
		if got := denied(deny, []Grant{c.grant}) != nil; got != c.denies {
			t.Errorf("deny %s: %+v: %v", c.rule, c.grant, got)
		}
	}
	// No rule speaks of a kind that it does not name.
	all := policyOf(t, whole)
	for _, kind := range Kinds() {
		if got := all.allows(Grant{Kind: kind, Value: "/nothing/that/is/named"}, nil); got != slices.Contains([]Kind{Command, WorkingDir, Limit}, kind) {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

// coversAll is a policy file that covers the request of a docker row.
func coversAll(t *testing.T, r Request) string {
	t.Helper()
	return "allow: {images: [localhost], variables: [API_KEY], paths: [" + filepath.Dir(r.TaskFile) + "], capabilities: [default], commands: all}"
}

func TestWhatThePolicyCoversIsNotAskedAndTheRestIs(t *testing.T) {
	r := request(t, nil)
	var notice bytes.Buffer
	text := coversAll(t, r)
	if _, err := Consent(r, Answer{Policy: policyOf(t, text)}, &notice); err != nil || notice.String() != "accepted: 1 command and 4 grants, by the policy file policy.yaml\n" {
		t.Errorf("%v; printed %q", err, notice.String())
	}
	for _, part := range []string{"images: [localhost], ", "variables: [API_KEY], ", "paths: [" + filepath.Dir(r.TaskFile) + "], ", "capabilities: [default], "} {
		_, err := Consent(r, Answer{Policy: policyOf(t, strings.Replace(text, part, "", 1))}, io.Discard)
		refusal, ok := err.(*Refusal)
		if !ok || len(refusal.Grants) != 1 || !strings.Contains(refusal.What, "accepted already: 4, and left") || !strings.Contains(refusal.Do, "which accepts all of it, what is accepted already too, and nothing else") {
			t.Errorf("without %s: %v", part, err)
		}
	}
}

// TestDenyWins over every way to accept.
func TestDenyWins(t *testing.T) {
	r := request(t, nil)
	plan, err := PlanOf(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{"images: [localhost/image]", "variables: ['*']", "paths: [/]", "paths: [" + r.TaskFile + "]", "capabilities: [CAP_CHOWN]", "commands: all"} {
		file := policyOf(t, coversAll(t, r)+"\ndeny: {"+rule+"}")
		for name, answer := range map[string]Answer{
			"the flag": {RecordedCommands: true}, "the plan": {Plans: []string{plan.Hash()}}, "the terminal": {Agreed: []string{plan.Hash()}}, "a task file": {TaskFile: true}, "the file": {},
		} {
			answer.Policy = file
			for _, signer := range []Signer{Unsigned, Own, Trusted} {
				r.SignedBy = signer
				if _, err := Consent(r, answer, io.Discard); err == nil || !strings.Contains(err.Error(), "denies") {
					t.Errorf("%s, %s, signed by %q: %v", rule, name, signer, err)
				}
			}
		}
	}
}

// TestAnImageIsWhatItIsCalledHere: a record says which image it is about and what
// that is called, and only the store knows.
func TestAnImageIsWhatItIsCalledHere(t *testing.T) {
	good, evil := strings.Repeat("a", 64), strings.Repeat("b", 64)
	r := request(t, func(r *Request) {
		r.Pin = oci.Pin{Reference: "docker.io/library/good:1", ID: evil, Digest: "sha256:" + good, Platform: "linux/amd64"}
	})
	rest := "], variables: [API_KEY], paths: [" + filepath.Dir(r.TaskFile) + "], capabilities: [default], commands: all}"
	for _, c := range []struct {
		name, policy string
		names        []string
		pin          oci.Pin
		flag, ok     bool
	}{
		{"as it says", "allow: {images: [docker.io/library/good" + rest, []string{"docker.io/library/good:1"}, oci.Pin{ID: evil}, false, true},
		{"another image's id under an allowed name", "allow: {images: [docker.io/library/good" + rest, []string{"localhost/evil:1"}, oci.Pin{ID: evil}, false, false},
		{"another image's id beside an allowed digest", "allow: {images: ['sha256:" + good + "'" + rest, []string{"localhost/evil:1"}, oci.Pin{ID: evil, Digest: "sha256:" + evil}, false, false},
		{"the flag accepts it", "allow: {images: [docker.io/library/good" + rest, []string{"localhost/evil:1"}, oci.Pin{ID: evil}, true, true},
		{"a denied image under another name", "deny: {images: [localhost/evil]}", []string{"docker.io/library/good:1", "localhost/evil:1"}, oci.Pin{ID: evil}, true, false},
		{"a denied digest under a name", "deny: {images: ['" + strings.Repeat("c", 64) + "']}", []string{"docker.io/library/good:1"}, oci.Pin{ID: evil, Digest: "sha256:" + strings.Repeat("c", 64)}, true, false},
	} {
		a, err := Consent(r, Answer{RecordedCommands: c.flag, Policy: policyOf(t, c.policy)}, io.Discard)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if err := a.CheckImage(c.pin, c.names); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
