package policy

// Signer says whose key signed a row.
type Signer string

// The signers (design: Trust).
const (
	Unsigned Signer = ""            // nobody, or a key that nobody here knows
	Own      Signer = "own key"     // this user's own execute
	Trusted  Signer = "trusted key" // one of the policy's list
)

// TrustedKey is a key of another user or machine that this user's policy
// trusts, within the limits of Trusted.
type TrustedKey struct {
	Name string `yaml:"name" json:"name"`
	Key  string `yaml:"key" json:"key"` // as ParseKey reads it: ed25519:BASE64
}
