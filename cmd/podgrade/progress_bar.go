package main

import (
	"fmt"
	"os"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks/record"
)

// bars are one bar over all rows at the foot of a terminal, and above it a line
// for each row that is done.
type bars struct {
	terminal *os.File
	all      *mpb.Progress
	bar      *mpb.Bar
	rows     int

	mu      sync.Mutex
	running map[string]bool // by directory
	done    int
	counts  map[record.Category]int
}

func newBars(terminal *os.File, rows int) progress {
	if rows == 0 {
		return &plainLines{out: terminal}
	}
	b := &bars{terminal: terminal, rows: rows, running: map[string]bool{}, counts: map[record.Category]int{}}
	b.all = mpb.New(mpb.WithOutput(terminal), mpb.WithWidth(40), mpb.WithAutoRefresh())
	b.bar = b.all.AddBar(int64(rows),
		mpb.PrependDecorators(decor.CountersNoUnit("%d/%d", decor.WCSyncSpace)),
		mpb.AppendDecorators(
			decor.Any(func(decor.Statistics) string { return b.state() }),
			decor.Elapsed(decor.ET_STYLE_MMSS, decor.WC{W: 7}),
			decor.OnComplete(decor.AverageETA(decor.ET_STYLE_MMSS, decor.WC{W: 7}), ""),
		),
	)
	return b
}

// state is what the bar itself cannot show.
func (b *bars) state() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := fmt.Sprintf(" %d running, %d queued", len(b.running), max(b.rows-b.done-len(b.running), 0))
	for _, c := range []record.Category{record.Succeeded, record.Failed, record.Errored, record.Ungraded} {
		if b.counts[c] > 0 {
			text += fmt.Sprintf(", %d %s", b.counts[c], c)
		}
	}
	return text + " "
}

// Write writes a notice above the bar.
func (b *bars) Write(text []byte) (int, error) {
	n, err := b.all.Write(text)
	if err != nil { // the bar is gone
		return b.terminal.Write(text)
	}
	return n, nil
}

// Observe moves the bar, and tells of rows that are done.
func (b *bars) Observe(e regrade.Event) {
	b.mu.Lock()
	b.running[e.Dir] = true
	if e.Last {
		delete(b.running, e.Dir)
		b.done++
		if e.Status != "" {
			b.counts[e.Status.Category()]++
		}
	}
	b.mu.Unlock()
	if !e.Last {
		return
	}
	if text := eventText(e); text != "" && e.Kind != regrade.RowKept {
		fmt.Fprintln(b, policy.Neutral(text))
	}
	b.bar.Increment()
}

// End leaves the bar as it is.
func (b *bars) End() {
	b.bar.Abort(false)
	b.all.Wait()
}
