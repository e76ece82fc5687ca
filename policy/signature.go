package policy

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// statementType is the payload type of an envelope that holds an in-toto
// statement.
const statementType = "application/vnd.in-toto+json"

// mostSignatures bounds what is tried of an envelope.
const mostSignatures = 16

// Signed is what an envelope comes to.
type Signed struct {
	By        Signer
	Key       string // that signed, as text; of a key that nobody knows what the envelope says
	Name      string // of a trusted key, in the policy's list
	Statement []byte // what was signed; nil unless a known key did
}

// Sign puts a statement into a DSSE envelope that this user's own key has
// signed. The key is made on first use.
func (k *Keys) Sign(statement []byte) ([]byte, error) {
	key, err := k.private(true)
	if err != nil {
		return nil, err
	}
	signer, err := dsse.NewEnvelopeSigner(signing{key})
	if err != nil {
		return nil, err
	}
	envelope, err := signer.SignPayload(context.Background(), statementType, statement)
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(envelope, "", "  ")
	return append(text, '\n'), err
}

// Open tells whose signature an envelope holds. A key that is neither this
// user's own nor one of those that the policy trusts counts as none. The error says why a signature could
// not be looked at; it counts as none too.
func (k *Keys) Open(text []byte, trusted []TrustedKey) (Signed, error) {
	var envelope dsse.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		return Signed{}, fmt.Errorf("it is no envelope: %w", err)
	}
	if envelope.PayloadType != statementType {
		return Signed{}, fmt.Errorf("it holds %q and no statement", Clip(envelope.PayloadType, 100))
	}
	switch n := len(envelope.Signatures); {
	case n == 0:
		return Signed{}, errors.New("it holds no signature")
	case n > mostSignatures:
		return Signed{}, fmt.Errorf("it holds %d signatures, and the limit is %d", n, mostSignatures)
	}
	unknown := Signed{Key: Clip(envelope.Signatures[0].KeyID, 100)}
	own, problem := k.private(false)
	if own != nil {
		if statement := signedBy(&envelope, own.Public().(ed25519.PublicKey)); statement != nil {
			return Signed{By: Own, Key: KeyText(own.Public().(ed25519.PublicKey)), Statement: statement}, nil
		}
	}
	for _, each := range trusted {
		key, err := ParseKey(each.Key)
		if err != nil {
			problem = errors.Join(problem, fmt.Errorf("the trusted key %s: %w", Clip(each.Name, 100), err))
			continue
		}
		if statement := signedBy(&envelope, key); statement != nil {
			return Signed{By: Trusted, Key: each.Key, Name: each.Name, Statement: statement}, nil
		}
	}
	return unknown, problem
}

// signedBy is what the key has signed; nil when it has not. Which key an
// envelope names is only a hint.
func signedBy(envelope *dsse.Envelope, key ed25519.PublicKey) []byte {
	hintless := *envelope
	hintless.Signatures = nil
	for _, signature := range envelope.Signatures {
		hintless.Signatures = append(hintless.Signatures, dsse.Signature{Sig: signature.Sig})
	}
	verifier, err := dsse.NewEnvelopeVerifier(verifying{key})
	if err != nil {
		return nil
	}
	if _, err := verifier.Verify(context.Background(), &hintless); err != nil {
		return nil
	}
	statement, err := hintless.DecodeB64Payload()
	if err != nil {
		return nil
	}
	return statement
}

// signing is a private key as package dsse wants it.
type signing struct{ key ed25519.PrivateKey }

var _ dsse.Signer = signing{}

// Sign implements dsse.Signer.
func (s signing) Sign(_ context.Context, data []byte) ([]byte, error) {
	return ed25519.Sign(s.key, data), nil
}

// KeyID implements dsse.Signer.
func (s signing) KeyID() (string, error) {
	return KeyText(s.key.Public().(ed25519.PublicKey)), nil
}

// verifying is a public key as package dsse wants it.
type verifying struct{ key ed25519.PublicKey }

var _ dsse.Verifier = verifying{}

// Verify implements dsse.Verifier.
func (v verifying) Verify(_ context.Context, data, signature []byte) error {
	if !ed25519.Verify(v.key, data, signature) {
		return errors.New("the signature is of something else")
	}
	return nil
}

// KeyID implements dsse.Verifier.
func (v verifying) KeyID() (string, error) { return KeyText(v.key), nil }

// Public implements dsse.Verifier.
func (v verifying) Public() crypto.PublicKey { return v.key }
