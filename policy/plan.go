package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"podgrade/oci"
)

// Plan is all that one phase of a row would use beyond the seal: what a person
// reads, and what an answer is about.
type Plan struct {
	Phase  oci.Phase
	Place  Place
	Grants []Grant
}

// PlanOf is the plan of a request. Nothing is started, and nothing but names and
// metadata is read. An error means that it can never be granted.
func PlanOf(r Request) (Plan, error) {
	grants, err := Grants(r)
	if err != nil {
		return Plan{}, err
	}
	return Plan{Phase: r.Phase, Place: r.Place, Grants: grants}, nil
}

// planVersion is of the form that is hashed: it grows when the same grants get
// another hash.
const planVersion = 1

// Canonical is the JSON that Hash is taken of: keys in one order, no white space.
func (p Plan) Canonical() []byte {
	// Text that is no UTF-8 has no JSON form, and must not share one.
	type grant struct {
		Grant
		Raw string `json:"raw,omitempty"`
	}
	form := struct {
		Version int       `json:"version"`
		Phase   oci.Phase `json:"phase"`
		Place   Place     `json:"place"`
		Grants  []grant   `json:"grants"`
	}{planVersion, p.Phase, p.Place, []grant{}}
	for _, g := range p.Grants {
		raw := ""
		if all := g.Value + "\x00" + g.Reason; !utf8.ValidString(all) {
			raw = base64.StdEncoding.EncodeToString([]byte(all))
		}
		form.Grants = append(form.Grants, grant{g, raw})
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(form); err != nil {
		panic(err) // strings and numbers have a JSON form
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// Hash names the plan: sha256 of its canonical JSON, in hexadecimal. It is what
// --accept-plan takes.
func (p Plan) Hash() string {
	sum := sha256.Sum256(p.Canonical())
	return hex.EncodeToString(sum[:])
}

// IsHash tells whether a text is the hash of some plan.
func IsHash(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == sha256.Size && strings.ToLower(text) == text
}

// Absent says what the phase does not get, so that a page is read for what it
// lists and not for what it may have left out.
func (p Plan) Absent() []string {
	has := func(kind Kind) bool {
		return slices.ContainsFunc(p.Grants, func(g Grant) bool { return g.Kind == kind })
	}
	but := func(kind Kind, none, some string) string {
		if has(kind) {
			return some
		}
		return none
	}
	if p.Place == OnHost {
		if !has(HostCommand) {
			return []string{"no command runs, nothing is built or fetched, and nothing is written but the row itself"}
		}
		return []string{
			but(Variable, "no variable of this host but PATH, HOME and the like", "no variable of this host but PATH, HOME and the like, and those that are listed"),
			"commands on this host are not kept from anything else: your files, network and credential stores are in their reach",
		}
	}
	list := []string{
		"no credential store of this host is mounted: not ~/.claude, ~/.ssh, ~/.aws or the log-ins of Podman, and never HOME",
		but(Variable, "no key enters the cell, and no variable of this host", "no key enters the cell, and no variable of this host but those that are listed"),
		but(Network, "no network: the cell is sealed", "this host itself is not reached over the network"),
	}
	if !has(Build) && !has(Pull) {
		list = append(list, "nothing is built, and nothing is fetched")
	}
	if !has(HostCommand) {
		list = append(list, "no command runs on this host")
	}
	if p.Phase == oci.Grade {
		list = append(list, "the workspace is not changed: commands work on a private view of it")
	}
	return list
}

// Page is the plan for a person, safe to print.
func (p Plan) Page() string {
	var b strings.Builder
	if len(p.Grants) == 0 {
		fmt.Fprintf(&b, "nothing beyond the seal is asked for\n")
	}
	b.WriteString(Page(p.Grants))
	b.WriteString("what is not there:\n")
	for _, line := range p.Absent() {
		fmt.Fprintf(&b, "  - %s\n", line)
	}
	return b.String()
}
