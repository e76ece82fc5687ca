package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

var update = flag.Bool("update", false, "write the golden files")

func TestPrintVerdict(t *testing.T) {
	evil := "\x1b[31mred\x1b[0m \u202ecod\r\n\xff"
	details := evil + "second line"
	info := record.NewObject()
	info.Set(record.GradedOnHost, true)
	info.Set(record.GradedWithUnpinnedImage, evil)
	v := &regrade.Verdict{
		Row:    record.Identity{VariantID: "default", TaskID: "suite/" + evil, Replicate: 3},
		Before: record.Timeout, Status: record.Timeout, Score: 0.5, Inherited: true, Place: policy.OnHost,
		Results: []criteria.Result{
			{CriterionType: "run_command", Description: "passes", Score: 1, PassThreshold: 0.9, Gating: true},
			{CriterionType: evil, Description: evil + strings.Repeat("x", 200), Details: &details, PassThreshold: 0.9, Gating: true},
			{CriterionType: "file_exists", Description: "counts for nothing", PassThreshold: 0.9},
		},
		Stamps: record.Stamps(info),
	}
	var out bytes.Buffer
	if err := printVerdict(&out, v, "runs/"+evil); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e\r") {
		t.Errorf("raw: %q", out.String())
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if err := printVerdict(full, v, ""); err == nil {
		t.Error("a verdict that could not be printed is no error")
	}
	const golden = "testdata/verdict.golden"
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
}
