package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"podgrade/oci"
	"podgrade/tasks"
)

// File is a policy file: what the operator says once about what records may ask
// for. What it allows is not asked about, what it denies is refused whatever else
// was accepted, and the rest is asked about as without a file.
type File struct {
	Allow Rules `json:"allow" doc:"what is not asked about"`
	Deny  Rules `json:"deny" doc:"what is refused, also with --allow-recorded-commands and in task files of your own"`
	// PostRun is the operator's own baseline (spec/regrade.md 2.3).
	PostRun []string `json:"post_run" doc:"command lines that you run after every row: a post_run that is exactly one of them is not asked about"`
	// Keys are those of TrustedKeys.
	Keys []TrustedKey `json:"trusted_keys" doc:"keys of others, each with a name and as ed25519:BASE64: their signatures vouch for the image and for what runs in a cell of it"`

	path string
}

// TrustedKeys are the keys of the file; none of no file.
func (f *File) TrustedKeys() []TrustedKey {
	if f == nil {
		return nil
	}
	return slices.Clone(f.Keys)
}

// Baseline holds the command lines that the operator runs after every row; none
// of no file, so that nothing is exempt (spec/regrade.md 2.3).
func (f *File) Baseline() []string {
	if f == nil {
		return nil
	}
	return slices.Clone(f.PostRun)
}

// DefaultFile is where the policy file is when nobody names another.
func DefaultFile() (string, error) {
	dir, err := ConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "policy.yaml"), nil
}

// OpenDefault reads the policy file of the user; nil when there is none. Where
// nobody can say where it would be, what it denies must not be lost in silence:
// that is an error.
func OpenDefault() (*File, error) {
	name, err := DefaultFile()
	if err != nil {
		return nil, err
	}
	f, err := OpenFile(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if link := danglingLink(name); link != "" {
		return nil, &FileFault{Why: fmt.Errorf("%s is a link to what is not there", link), Do: "put back what it leads to, or remove the link"}
	}
	return nil, nil
}

// OpenFile reads a policy file. One that another user owns, may write to or may
// put another in the place of is refused: it would say for the operator what the
// operator has not said. So is one with anything in it that is not understood.
func OpenFile(name string) (*File, error) {
	text, err := readOwn(name)
	if err != nil {
		return nil, err
	}
	return parseFile(name, text)
}

// parseFile understands a policy file. The error lists all that is wrong, each
// with its place.
func parseFile(name string, text []byte) (*File, error) {
	f := &File{path: name}
	r := &reading{file: name}
	r.document(text, f)
	r.rules("allow", &f.Allow)
	r.rules("deny", &f.Deny)
	for i, rule := range f.Allow.Judges {
		if rule.Model == "" || rule.Address == "" {
			r.wrong(fmt.Sprintf("allow.judges[%d]", i), "names a model and an address; * is any")
		}
	}
	for i, entry := range f.Keys {
		if !isKey(entry.Key) || entry.Name == "" {
			r.wrong(fmt.Sprintf("trusted_keys[%d]", i), "has a name, and a key as ed25519:BASE64 of 32 bytes")
		}
	}
	return f, r.err()
}

// isKey tells whether a text is a public key.
func isKey(text string) bool {
	_, err := ParseKey(text)
	return err == nil
}

// rules checks what the types do not say: a rule that means nothing would be
// taken for one that protects.
func (r *reading) rules(at string, rules *Rules) {
	each := func(key string, list []string, ok func(string) bool, want string) {
		for i, rule := range list {
			if !ok(rule) {
				r.wrong(fmt.Sprintf("%s.%s[%d]", at, key, i), want)
			}
		}
	}
	each("images", rules.Images, isImageRule, "is sha256: and 64 digits of 0-9 and a-f, a name with its registry in lower case such as docker.io/library/debian, or *")
	each("variables", rules.Variables, func(s string) bool { return isName(s) && !strings.Contains(strings.TrimSuffix(s, "*"), "*") }, "is the name of a variable; only its end may be *")
	each("networks", rules.Networks, isNetworkRule, "is bridge, egress, llm_only, HOST or HOST:PORT")
	each("paths", rules.Paths, filepath.IsAbs, "is an absolute path")
	each("builds", rules.Builds, filepath.IsAbs, "is an absolute path")
	each("capabilities", rules.Capabilities, isCapabilityRule, "is CAP_NAME, default or set_uid")
}

func isNetworkRule(rule string) bool {
	return slices.Contains([]string{tasks.NetworkBridge, tasks.NetworkEgress, tasks.NetworkLLMOnly}, rule) || strings.Contains(rule, ".") || strings.Contains(rule, ":")
}

func isCapabilityRule(rule string) bool {
	_, err := oci.CapabilityMask([]string{rule})
	return err == nil && strings.HasPrefix(rule, "CAP_") || rule == tasks.CapsDefault || rule == setUID
}
