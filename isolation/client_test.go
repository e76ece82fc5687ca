package isolation

import (
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

	"podgrade/isolation/worker"
)

// A worker is there within milliseconds: on a busy host before anybody waits
// for its greeting, and that must not be lost.
func TestAGreetingMayComeBeforeItIsWaitedFor(t *testing.T) {
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	conn, err := net.FileConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := newWorkerClient(ours)
	defer ours.Close()
	hello, err := json.Marshal(worker.Reply{Hello: &worker.Hello{PID: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(hello); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		client.mu.Lock()
		taken := len(client.calls) == 0
		client.mu.Unlock()
		if taken {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the greeting is not read")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if got, err := client.hello(ctx); err != nil || got.PID != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
