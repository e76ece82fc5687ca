package regrade

import (
	"slices"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/tasks"
)

func TestRecordedCommandsOfARow(t *testing.T) {
	cell := &fakeCell{}
	const log = oci.WorkspacePath + "/cli_mocks/calls.jsonl"
	r, err := setUpRecorders(t.Context(), cell, oci.WorkspacePath, []tasks.RecordCLI{{Tool: "uip", ExitCode: 1, Stdout: "none\n"}, {Tool: "kubectl"}})
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := cell.put[log]; !ok || text != "" || len(cell.put) != 4 || cell.put[oci.WorkspacePath+"/cli_mocks/uip"] != oci.InitPath {
		t.Errorf("made was %q", cell.put)
	}
	if front := r.front(); !slices.Equal(front, []string{oci.WorkspacePath + "/cli_mocks"}) {
		t.Errorf("first on PATH: %q", front)
	}
	reply := cell.answer(isolation.Call{Tool: "uip", Argv: []string{"a"}})
	if reply.Exit != 1 || reply.Stdout != "none\n" || reply.Log != log || !strings.Contains(reply.Line, `"argv": ["a"]`) {
		t.Errorf("the reply is %+v", reply)
	}
	if reply := cell.answer(isolation.Call{Tool: "other"}); reply.Exit != 127 || reply.Log != "" {
		t.Errorf("a call of something else: %+v", reply)
	}
	cell.put[log], cell.put[log+".error"] = "forged\n", "x"
	if err := r.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, told := cell.put[log+".error"]; cell.put[log] != reply.Line+"\n" || told {
		t.Errorf("the log is %q, an error beside it %v", cell.put[log], told)
	}
	none, err := setUpRecorders(t.Context(), cell, oci.WorkspacePath, nil)
	if err != nil || none.front() != nil || none.finish(t.Context()) != nil {
		t.Errorf("without recorded commands: %+v, %v", none, err)
	}
}
