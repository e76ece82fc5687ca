package policy

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/tasks"
)

// TestAPolicyFileThatOthersMayReplaceIsRefused: whoever may write to its directory
// puts one that denies nothing in its place.
func TestAPolicyFileThatOthersMayReplaceIsRefused(t *testing.T) {
	top := t.TempDir()
	dir, links := filepath.Join(top, "real"), filepath.Join(top, "links")
	name, link := filepath.Join(dir, "policy.yaml"), filepath.Join(links, "policy.yaml")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(links, 0o755), os.WriteFile(name, []byte(whole), 0o600), os.Symlink(name, link)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir     string
		mode    fs.FileMode
		refused string // what is opened and refused; "": nothing is
	}{
		{dir, 0o755, ""}, {dir, 0o500, ""}, {dir, 0o777 | fs.ModeSticky, ""},
		{dir, 0o775, name}, {dir, 0o757, name}, {dir, 0o777, link}, {links, 0o777, link},
	} {
		os.Chmod(dir, 0o755)
		os.Chmod(links, 0o755)
		if err := os.Chmod(c.dir, c.mode); err != nil {
			t.Fatal(err)
		}
		opened := c.refused
		if opened == "" {
			opened = link
		}
		_, err := OpenFile(opened)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), "others may put another file in its place") {
			t.Errorf("%s in %s of mode %v: %v", opened, c.dir, c.mode, err)
		}
	}
	os.Chmod(dir, 0o755)
	if os.Geteuid() == 0 {
		os.Chown(dir, 12345, 12345)
		if _, err := OpenFile(name); err == nil || !strings.Contains(err.Error(), "another user owns its directory") {
			t.Errorf("in a directory of another user: %v", err)
		}
	}
}

// TestWhatThePolicyDeniesIsNotLostWithoutAHome: a service has neither HOME nor
// XDG_CONFIG_HOME, and its user a policy file all the same.
func TestWhatThePolicyDeniesIsNotLostWithoutAHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "")
	t.Cleanup(func() { userByID = user.LookupId })
	userByID = func(string) (*user.User, error) { return &user.User{HomeDir: home}, nil }
	if f, err := OpenDefault(); f != nil || err != nil {
		t.Errorf("without a file: %v, %v", f, err)
	}
	dir := filepath.Join(home, ".config", "podgrade")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(whole), 0o600)); err != nil {
		t.Fatal(err)
	}
	if f, err := OpenDefault(); err != nil || f == nil || len(f.Deny.Images) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	for name, unknown := range map[string]func(string) (*user.User, error){
		"no entry": func(string) (*user.User, error) { return nil, user.UnknownUserIdError(7) },
		"no home":  func(string) (*user.User, error) { return &user.User{}, nil },
	} {
		userByID = unknown
		if f, err := OpenDefault(); f != nil || err == nil || !strings.Contains(err.Error(), "neither XDG_CONFIG_HOME nor HOME") {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

// TestWhatThePolicyDeniesIsNotLostByALink: only a default policy file whose name is
// not there at all is none.
func TestWhatThePolicyDeniesIsNotLostByALink(t *testing.T) {
	for _, at := range []string{"podgrade/policy.yaml", "podgrade", ""} {
		config := filepath.Join(t.TempDir(), "config")
		t.Setenv("XDG_CONFIG_HOME", config)
		if f, err := OpenDefault(); f != nil || err != nil {
			t.Fatalf("nothing is there: %v, %v", f, err)
		}
		link := filepath.Join(config, at)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink("nowhere", link)); err != nil {
			t.Fatal(err)
		}
		if f, err := OpenDefault(); f != nil || err == nil || !strings.Contains(err.Error(), link+" is a link to what is not there") {
			t.Errorf("%s: %v, %v", at, f, err)
		}
	}
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	dir := filepath.Join(config, "podgrade")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(whole), 0o600), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if f, err := OpenDefault(); f != nil || err == nil || !strings.Contains(err.Error(), "others may put another file in its place") {
		t.Errorf("in a directory of mode 0777: %v, %v", f, err)
	}
}

// TestADeniedPathIsNoDirectoryOfABuild: all that lies beside a Dockerfile is read.
func TestADeniedPathIsNoDirectoryOfABuild(t *testing.T) {
	for rule, want := range map[string]bool{"/home": true, "/home/u": true, "/home/u/secret": true, "/srv": false, "/home/u2": false} {
		rules := policyOf(t, "deny: {paths: ["+rule+"]}").Deny
		if got := rules.names(Grant{Kind: Build, Value: "/home/u/Dockerfile"}, true); got != want {
			t.Errorf("%s denies the build: %v", rule, got)
		}
	}
	if rules := policyOf(t, "allow: {paths: [/home]}").Allow; rules.names(Grant{Kind: Build, Value: "/home/u/Dockerfile"}, false) {
		t.Error("a path that may be read allows a build")
	}
	r := Request{Task: &tasks.Task{}, Phase: "execute", Planned: true, Place: InCell, Lookup: func(string) (string, bool) { return "", false }}
	r.Task.Sandbox.Driver = tasks.DriverDocker
	r.Task.Sandbox.Docker.DockerfilePath = "/home/u/Dockerfile"
	if _, err := Ask(r, policyOf(t, "deny: {paths: [/home]}")); err == nil || !strings.Contains(err.Error(), "denies what is asked for") {
		t.Errorf("a plan with the build: %v", err)
	}
}

// TestAKilledPodgradeLeavesNoPrivateKeyBehind: a draft that nobody makes a key of
// any more goes when the key is used next; one that is being made stays.
func TestAKilledPodgradeLeavesNoPrivateKeyBehind(t *testing.T) {
	for name, made := range map[string]bool{"before there was a key": false, "beside the key": true} {
		t.Run(name, func(t *testing.T) {
			keys := newKeys(t)
			if err := os.MkdirAll(keys.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if made {
				if _, err := keys.Public(); err != nil {
					t.Fatal(err)
				}
			}
			for file, age := range map[string]time.Duration{keyFile + ".00ff.tmp": time.Hour, keyFile + ".00fe.tmp": 0, keyFile + ".bak": time.Hour} {
				file = filepath.Join(keys.Dir, file)
				if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, time.Time{}, time.Now().Add(-age))); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := (&Keys{Dir: keys.Dir}).Public(); err != nil {
				t.Fatal(err)
			}
			entries, _ := os.ReadDir(keys.Dir)
			var names []string
			for _, entry := range entries {
				names = append(names, entry.Name())
			}
			if got := strings.Join(names, " "); got != "ed25519 ed25519.00fe.tmp ed25519.bak" {
				t.Errorf("left: %s", got)
			}
		})
	}
}

// TestAKeyIsMadeWithoutHardLinks: not every file system has them.
func TestAKeyIsMadeWithoutHardLinks(t *testing.T) {
	t.Cleanup(func() { linkKey = (*os.Root).Link })
	linkKey = func(*os.Root, string, string) error { return fs.ErrPermission }
	keys := newKeys(t)
	public, err := keys.Public()
	if err != nil {
		t.Fatal(err)
	}
	if err := makeKey(keys.Dir); err != nil {
		t.Errorf("a key that another podgrade made first: %v", err)
	}
	if again, err := (&Keys{Dir: keys.Dir}).Public(); err != nil || again != public {
		t.Errorf("the key was replaced: %v", err)
	}
	if entries, _ := os.ReadDir(keys.Dir); len(entries) != 1 {
		t.Errorf("the directory holds %v", entries)
	}
}

// TestWhatHoldsTheSigningKeyIsNeverGiven, whoever asks and whatever was accepted;
// what the key lies somewhere below is given without it.
func TestWhatHoldsTheSigningKeyIsNeverGiven(t *testing.T) {
	top := t.TempDir()
	keys, link := filepath.Join(top, "podgrade", "keys"), filepath.Join(top, "link")
	if err := errors.Join(os.MkdirAll(keys, 0o700), os.Symlink(keys, link)); err != nil {
		t.Fatal(err)
	}
	template := func(dir string) tasks.Sandbox {
		return tasks.Sandbox{Driver: tasks.DriverDocker, TemplateSources: []tasks.TemplateSource{{Type: tasks.TemplateDir, Path: dir}}}
	}
	build := func(dir string) tasks.Sandbox {
		return tasks.Sandbox{Driver: tasks.DriverDocker, Docker: tasks.Docker{DockerfilePath: filepath.Join(dir, "Dockerfile")}}
	}
	mount := func(dir string) tasks.Sandbox {
		return tasks.Sandbox{Driver: tasks.DriverDocker, Docker: tasks.Docker{Image: "i", ExtraMounts: []string{dir + ":/mnt:ro"}}}
	}
	for name, c := range map[string]struct {
		sandbox tasks.Sandbox
		refused bool
	}{
		"template": {template(keys), true}, "template by a link": {template(link), true}, "template above": {template(top), false},
		"build": {build(keys), true}, "build by a link": {build(link), true}, "build above": {build(top), false},
		"mount": {mount(keys), true}, "mount above": {mount(top), true}, "mount of another": {mount("/usr"), false},
	} {
		r := Request{Task: &tasks.Task{Sandbox: c.sandbox}, Phase: "execute", Planned: true, Place: InCell, KeyDir: keys, Lookup: func(string) (string, bool) { return "", false }}
		_, err := Consent(r, Answer{TaskFile: true}, io.Discard)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "signing key") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
