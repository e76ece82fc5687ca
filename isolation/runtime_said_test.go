package isolation

import "testing"

// A runtime's words reach a reader without the form in which Podman wants them.
func TestWhatARuntimeSaidIsOneLineOfWords(t *testing.T) {
	for text, want := range map[string]string{
		"exec container process `/x`: Exec format error\n":                                               "exec container process `/x`: Exec format error",
		`{"msg":"exec container process: Exec format error","level":"error","time":"2026-01-01T00:00Z"}`: "exec container process: Exec format error",
		"{\"msg\":\"one\\ntwo\"}\nthree\n\n":                                                             "one two; three",
		`{"level":"error"}`:                                                                              `{"level":"error"}`,
		`{"msg": broken`:                                                                                 `{"msg": broken`,
		"\n":                                                                                             "",
	} {
		if got := runtimeSaid(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
