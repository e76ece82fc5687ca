package regrade

import (
	"context"
	"os"

	"podgrade/isolation"
	"podgrade/oci"
)

// GradeEngines is what a grade needs of the isolation layer. Nothing in it
// builds or fetches an image, so that no grade can: what decides is what the
// agent had.
type GradeEngines interface {
	// Image finds what a reference names now; isolation.ErrNoImage is wrapped
	// when the store has nothing of that name.
	Image(ctx context.Context, reference string) (isolation.Image, error)
	// ImageByPin finds a pinned image whatever its names are now;
	// isolation.ErrNoImage is wrapped when the store no longer has it.
	ImageByPin(ctx context.Context, pin oci.Pin) (isolation.Image, error)
	// HasState tells whether a state layer is kept here.
	HasState(diffID string) bool
	// Open opens a cell.
	Open(ctx context.Context, order isolation.Order) (isolation.Cell, error)
	// OpenOnHost opens a private copy of the workspace without a container.
	OpenOnHost(ctx context.Context, order isolation.Order) (isolation.Cell, error)
	// Hold keeps an image from being pruned until release is called.
	Hold(ctx context.Context, image isolation.Image) (release func() error, err error)
	// Lost tells whether they can open no cell any more.
	Lost() bool
	// Close ends everything that was started.
	Close() error
}

// Engines is what a run needs. *isolation.Host is the real one.
type Engines interface {
	GradeEngines
	// EnsureImage is Image, and fetches what the store has not where the policy
	// says so.
	EnsureImage(ctx context.Context, reference string, policy isolation.PullPolicy) (isolation.Image, error)
	// Build builds an image.
	Build(ctx context.Context, order isolation.BuildOrder) (oci.Pin, error)
	// RemoveTree removes everything in a directory, whoever of this user's ids
	// owns it.
	RemoveTree(ctx context.Context, dir *os.File) error
}
