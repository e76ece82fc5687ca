package regrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/tasks/record"
)

// A host that cannot build is no failed build: the row is an error of the host,
// which --retry infra runs again.
func TestAHostThatCannotBuildIsInfrastructure(t *testing.T) {
	for _, c := range []struct {
		building error
		status   record.Status
		category string
	}{
		{fmt.Errorf("%w: exit status 3", isolation.ErrBuild), record.BuildFailed, record.CategoryBuild},
		{&isolation.Fault{Tried: "start Podman's service", Why: errors.New("it did not listen in time")}, record.Error, record.CategoryInfrastructure},
		{fmt.Errorf("build: %w", isolation.ErrNoSpace), record.Error, record.CategoryInfrastructure},
		{errors.New("the worker is gone"), record.Error, record.CategoryInfrastructure},
	} {
		fake := newFake()
		fake.building = c.building
		row := digestRow(t, contentsOf(t), nil)
		open, err := record.Create(t.TempDir(), Job{Row: row}.Identity())
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		executed, err := Execute(context.Background(), open, Job{Row: row}, ExecuteOptions{
			Start: fake.start, Notice: io.Discard, Version: "9.9.9", Lookup: func(string) (string, bool) { return "", false },
		})
		if err != nil {
			t.Fatalf("%v: %v", c.building, err)
		}
		details, err := executed.Record.Get(record.FieldErrorDetails).Object()
		if err != nil || executed.Status != c.status || details.Text("error_category") != c.category || executed.Gradable || !strings.Contains(executed.Message, c.building.Error()) {
			t.Errorf("%v: %s %s: %s (%v)", c.building, executed.Status, details.Text("error_category"), executed.Message, err)
		}
		if again := RetryInfra.takes(executed.Record); again != (c.category == record.CategoryInfrastructure) {
			t.Errorf("%v: --retry infra: %v", c.building, again)
		}
	}
}
