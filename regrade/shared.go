package regrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
)

// Shared are engines that many rows use: they are started when the first row
// needs them and end with the run.
type Shared struct {
	start  func(context.Context) (Engines, error)
	notice io.Writer

	mu      sync.Mutex
	engines Engines
	retired []Engines      // that were lost
	opened  map[string]int // cells of an image, by its id
	holders []func() error
	holding sync.WaitGroup
	builds  map[string]*build // by what is built
}

// build is an image that one of the rows builds for all.
type build struct {
	once sync.Once
	pin  oci.Pin
	err  error
	said boundedText // what the build said
}

// Share makes engines that start starts to be shared. What goes wrong with
// holding an image is said in notice: no row depends on it.
func Share(start func(context.Context) (Engines, error), notice io.Writer) *Shared {
	return &Shared{start: start, notice: notice, opened: map[string]int{}, builds: map[string]*build{}}
}

// Start starts the engines, or returns those that were started before; their
// Close does nothing. A start that failed is tried again by the next row, and
// engines that were lost, whose rows are lost with them, are replaced.
func (s *Shared) Start(ctx context.Context) (Engines, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engines != nil && s.engines.Lost() {
		fmt.Fprintln(s.notice, "warning: the worker that makes cells was lost, and another one is started")
		s.retired, s.engines = append(s.retired, s.engines), nil
	}
	if s.engines == nil {
		engines, err := s.start(ctx)
		if err != nil {
			return nil, err
		}
		s.engines = engines
	}
	return borrowed{s.engines, s}, nil
}

// Close releases the images and ends the engines. No row may use them then.
func (s *Shared) Close() error {
	s.holding.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, release := range s.holders {
		errs = append(errs, release())
	}
	for _, engines := range s.retired {
		_ = engines.Close() // what they could not do any more, the next start does
	}
	if s.engines != nil {
		errs = append(errs, s.engines.Close())
	}
	s.engines, s.retired, s.holders = nil, nil, nil
	return errors.Join(errs...)
}

// hold keeps an image from being pruned once a second cell needs it: that costs
// more than a cell, and one row does without. The cell does not wait for it.
func (s *Shared) hold(engines Engines, image isolation.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened[image.Pin.ID]++; image.Pin.ID == "" || s.opened[image.Pin.ID] != 2 {
		return
	}
	s.holding.Go(func() {
		// It lasts as long as the run, not as the row that came second.
		release, err := engines.Hold(context.Background(), image)
		if err != nil {
			fmt.Fprintf(s.notice, "warning: nothing keeps the image from being pruned: %s\n", policy.NeutralText(err.Error()))
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.holders = append(s.holders, release)
	})
}

// borrowed are shared engines as one row sees them.
type borrowed struct {
	Engines
	shared *Shared
}

// Open opens a cell, and has its image held when the run goes on with it.
func (b borrowed) Open(ctx context.Context, order isolation.Order) (isolation.Cell, error) {
	cell, err := b.Engines.Open(ctx, order)
	if err == nil {
		b.shared.hold(b.Engines, order.Image)
	}
	return cell, err
}

// Build builds an image once for all rows that build the same: its replicates
// and variants, and what else has the task's id.
func (b borrowed) Build(ctx context.Context, order isolation.BuildOrder) (oci.Pin, error) {
	key, err := buildKey(order)
	if err != nil {
		return b.Engines.Build(ctx, order) // which says what is wrong
	}
	made := b.shared.build(key)
	made.once.Do(func() {
		output := order.Output
		order.Output = &made.said
		made.pin, made.err = b.Engines.Build(ctx, order)
		order.Output = output
		if ctx.Err() != nil { // the next row tries it again
			b.shared.forget(key)
		}
	})
	if order.Output != nil {
		made.said.copyTo(order.Output)
	}
	return made.pin, made.err
}

func (s *Shared) build(key string) *build {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.builds[key] == nil {
		s.builds[key] = &build{}
	}
	return s.builds[key]
}

func (s *Shared) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.builds, key)
}

// buildKey is the same for orders that build the same.
func buildKey(order isolation.BuildOrder) (string, error) {
	var without hidden
	for _, name := range order.Exclude {
		without = append(without, filepath.Join(order.ContextDir, name))
	}
	digest, err := treeDigest(order.ContextDir, nil, without)
	if err != nil {
		return "", err
	}
	order.Output = nil
	return fmt.Sprintf("%s %q", digest, fmt.Sprint(order)), nil
}

// Close does nothing: other rows go on.
func (b borrowed) Close() error { return nil }
