package regrade

import (
	"context"
	"runtime"
	"sync"
)

// MostParallel bounds how many rows are done at once.
const MostParallel = 1024

// AutoParallel is how many rows are done at once when nobody says it: one for
// each processor that podgrade may use.
func AutoParallel() int { return runtime.GOMAXPROCS(0) }

// each calls do for 0 to n-1, in this order and at most width at once. No
// further call is begun once ctx is done; it returns how many were begun, all
// of which have ended.
func each(ctx context.Context, n, width int, do func(i int)) (begun int) {
	if width < 1 {
		width = AutoParallel()
	}
	room := make(chan struct{}, width)
	var all sync.WaitGroup
	for begun < n {
		select {
		case <-ctx.Done():
		case room <- struct{}{}:
		}
		if ctx.Err() != nil {
			break
		}
		i := begun
		all.Go(func() {
			defer func() { <-room }()
			do(i)
		})
		begun++
	}
	all.Wait()
	return begun
}
