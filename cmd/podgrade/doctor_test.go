package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation/hostfacts"
)

const recordedFacts = "../../isolation/hostfacts/testdata"

// TestDoctorOfRecordedHosts compares what is printed for each recorded host.
func TestDoctorOfRecordedHosts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(recordedFacts, "*.json"))
	if err != nil || len(files) < 8 {
		t.Fatalf("only %d recorded hosts (%v)", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			code := run(context.Background(), []string{"podgrade", "doctor", "--facts", file}, &out, &stderr)
			wantCode := 0
			if strings.Contains(out.String(), "\nThis host is broken.\n") {
				wantCode = 1
			}
			if code != wantCode || stderr.Len() > 0 {
				t.Errorf("exit code %d, standard error %q", code, stderr.String())
			}
			golden := filepath.Join("testdata", "doctor", name+".golden")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("got\n%s\nwant\n%s\n(-update writes it)", out.String(), want)
			}
		})
	}
}

// TestDoctorPrintsFactsSafely: facts of another host are as untrusted as a
// record.
func TestDoctorPrintsFactsSafely(t *testing.T) {
	const evil = "\x1b[31m\u202e\r\n"
	facts := hostfacts.Facts{
		System: hostfacts.System{Kernel: evil, Name: evil}, User: hostfacts.User{Name: evil},
		Podman: hostfacts.Podman{Program: hostfacts.Program{Path: evil}, Problem: evil, Driver: evil},
		Worker: hostfacts.Worker{Tried: true, Problem: evil}, Store: hostfacts.Place{Path: evil, Problem: evil},
	}
	var out bytes.Buffer
	if err := printReport(&out, hostfacts.Examine(facts)); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e\r") {
		t.Errorf("raw: %q", out.String())
	}
}
