package main

import (
	"context"
	"os"
)

// openToRead opens a file that may be a pipe by name: the kernel opens one only when
// somebody opens it to write, for which nobody waits once the context has ended.
func openToRead(ctx context.Context, name string) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		file, err := os.Open(name)
		done <- opened{file, err}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-ctx.Done():
		return nil, context.Canceled
	}
}
