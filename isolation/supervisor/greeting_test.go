package supervisor

import (
	"os"
	"testing"
	"time"
)

// A supervisor that cannot work waits for what the host sends first, or for its end.
// Each case ends because of that, and none because the time is over.
func TestTheGreetingIsAwaited(t *testing.T) {
	for _, c := range []struct {
		name  string
		come  func(host *os.File) error
		grace time.Duration
		want  bool
	}{
		{"nothing", nil, 0, false},
		{"a greeting", func(host *os.File) error { _, err := host.WriteString("H"); return err }, time.Hour, true},
		{"the end", (*os.File).Close, time.Hour, true},
	} {
		in, host, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if c.come != nil {
			if err := c.come(host); err != nil {
				t.Fatal(err)
			}
		}
		if got := awaitGreeting(int(in.Fd()), c.grace); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		in.Close()
		host.Close()
	}
}
