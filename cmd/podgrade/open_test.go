package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe into which nobody writes is waited for only as long as nobody interrupts.
func TestAPipeThatNobodyWritesToEndsWithAnInterrupt(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"images", "import", pipe, "localhost/x:1"}, {"doctor", "--facts", pipe}} {
		interrupted, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, interrupt)
		var stderr bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			ended <- run(interrupted, append([]string{"podgrade"}, args...), io.Discard, &stderr)
		}()
		select {
		case code := <-ended:
			if code != 130 || !strings.Contains(stderr.String(), "interrupted") {
				t.Errorf("%s: exit code %d: %s", args[0], code, &stderr)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the pipe holds podgrade up", args[0])
		}
		if w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil { // ends who still waits
			w.Close()
		}
	}
}

// Neither is one in the place of the configuration.
func TestAPipeIsNoConfiguration(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	go func() {
		_, err := readSettings(pipe)
		said <- err
	}()
	select {
	case err := <-said:
		if err == nil || !strings.Contains(err.Error(), "no regular file") || strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the pipe holds podgrade up")
	}
}

// Somebody who opens the pipe later is waited for.
func TestAPipeWaitsForItsWriter(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { os.WriteFile(pipe, []byte("told"), 0o600) })
	file, err := openToRead(t.Context(), pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if text, err := io.ReadAll(file); err != nil || string(text) != "told" {
		t.Errorf("%q, %v", text, err)
	}
}
