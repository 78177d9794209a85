package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// retries is the log of a client. It says on standard error that a call is refused and tried again, before the pause in
// which silentFor passes.
type retries struct {
	*Screen

	mu sync.Mutex
	// waited is for how long the call has waited, by name.
	waited map[string]time.Duration
}

// newRetries makes a client's logger.
func newRetries(s *Screen) *slog.Logger {
	return slog.New(&retries{Screen: s, waited: map[string]time.Duration{}})
}

// Enabled reports whether a record is wanted: the client's warnings.
func (*retries) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle takes a record of the client.
func (r *retries) Handle(_ context.Context, record slog.Record) error {
	var call, refusal string
	var tries int64
	var pause time.Duration
	record.Attrs(func(attribute slog.Attr) bool {
		switch attribute.Key {
		case "call":
			call = attribute.Value.String()
		case "error":
			refusal = attribute.Value.String()
		case "tries":
			tries = attribute.Value.Int64()
		case "wait_ms":
			pause = time.Duration(attribute.Value.Int64()) * time.Millisecond
		}
		return true
	})
	if tries == 0 { // another warning, which the command shows itself
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.waited[call]
	if tries == 1 {
		before = 0
	}
	r.waited[call] = before + pause
	if before < silentFor && before+pause >= silentFor {
		r.Note("waiting to try again: %s", refusal)
	}
	return nil
}

// WithAttrs gives the handler itself: the client's logger has no attributes of its own.
func (r *retries) WithAttrs([]slog.Attr) slog.Handler { return r }

// WithGroup is like WithAttrs.
func (r *retries) WithGroup(string) slog.Handler { return r }
