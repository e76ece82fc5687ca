package criteria

import "context"

// Judge asks a model for verdicts.
type Judge interface {
	// Ask puts one question to a model.
	Ask(ctx context.Context) error
}
