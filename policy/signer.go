package policy

// Signer says whose key signed a row.
type Signer string

// The signers (design: Trust).
const (
	Unsigned Signer = ""            // nobody, or a key that nobody here knows
	Own      Signer = "own key"     // this user's own execute
	Trusted  Signer = "trusted key" // one of the policy's list
)
