package docs_test

import (
	"os"
	"strings"
	"testing"

	"podgrade/oci"
)

// The page on security lists the capabilities of a cell for `driver: docker`, all of
// them and in their order.
func TestThePageListsTheCapabilities(t *testing.T) {
	page, err := os.ReadFile("security.md")
	if err != nil {
		t.Fatal(err)
	}
	want := "`" + strings.Join(oci.DockerCapabilities(), "`, `") + "`."
	if text := strings.Join(strings.Fields(string(page)), " "); !strings.Contains(text, want) {
		t.Errorf("docs/security.md does not say %s", want)
	}
}
