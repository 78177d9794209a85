package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/worker"
)

// bed is one worker on one server. Each test runs in a synctest bubble, which
// also fails the test if a goroutine is left at its end.
type bed struct {
	*server
	worker *worker.Worker
	log    *logBuffer
	stop   context.CancelFunc
	ended  chan error
}

func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

func newBed(t *testing.T, change ...func(*worker.Options)) *bed {
	t.Helper()
	b := &bed{server: serve(t), log: &logBuffer{}, ended: make(chan error, 1)}
	options := worker.Options{
		Client: b.client, WorkerID: "w1", Concurrency: 4, Logger: slog.New(slog.NewJSONHandler(b.log, nil)),
	}
	for _, c := range change {
		c(&options)
	}
	w, err := worker.New(options)
	if err != nil {
		t.Fatal(err)
	}
	b.worker = w
	return b
}

// run starts the worker; it is stopped, and has to end well, at the test's end.
func (b *bed) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	go func() { b.ended <- b.worker.Run(ctx) }()
	synctest.Wait()
}

// finish stops the worker and gives how long that took.
func (b *bed) finish(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	b.stop()
	if err := <-b.ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	return time.Since(start)
}

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// only gives the one outcome that was sent.
func (b *bed) only(t *testing.T) outcome {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.outcomes) != 1 {
		t.Fatalf("outcomes are %+v, want one; the log: %s", b.outcomes, b.log.String())
	}
	return b.outcomes[0]
}

func (b *bed) allBeats() []beat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]beat(nil), b.beats...)
}

// block is a handler that waits for its context's end and tells why it came.
func block(causes chan<- error) func(context.Context, *worker.RawJob) (any, error) {
	return func(ctx context.Context, _ *worker.RawJob) (any, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	}
}

type logBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// attempts gives the canonical lines.
func (l *logBuffer) attempts(t *testing.T) []map[string]any {
	t.Helper()
	var lines []map[string]any
	decoder := json.NewDecoder(bytes.NewBufferString(l.String()))
	for decoder.More() {
		var line map[string]any
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] == "attempt" {
			lines = append(lines, line)
		}
	}
	return lines
}
