package worker

import (
	"errors"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// ending is how an attempt ended.
type ending struct {
	// word is the outcome in the log line.
	word string
	// decision is the outcome to be sent.
	decision decision
	// answer is the server's answer; the zero value if there was none.
	answer api.Outcome
	// err is the attempt's own error, or why the outcome could not be sent; nil for a
	// result that was stored.
	err error
}

// log writes the canonical line of an attempt. The keys up to error are always
// there, the others if they have a value.
func (r *run) log(l *lease, took time.Duration, e ending) {
	level, text := slog.LevelInfo, ""
	if e.err != nil && !e.isSnoozed() && !e.waits() {
		level, text = slog.LevelWarn, e.err.Error()
	}
	if e.word == outcomeUnsent {
		level = slog.LevelError
	}
	line := []slog.Attr{
		slog.String("job_id", l.job.ID), slog.String("type", l.job.Type), slog.String("queue", l.job.Queue), slog.Int("attempt", l.job.Attempt),
		slog.String("outcome", e.word), slog.Int64("duration_ms", took.Milliseconds()), slog.String("error", text),
	}
	r.worker.logger.LogAttrs(r.base, level, "attempt", append(line, e.more()...)...)
}

// isSnoozed says that a handler has snoozed the job, which is no error.
func (e *ending) isSnoozed() bool {
	return e.word == outcomeWord(api.KindSnooze) && !errors.Is(e.err, errNoHandler)
}

// waits says that a handler has the job wait, which is no error.
func (e *ending) waits() bool { return e.word == outcomeWord(api.KindWait) }

// more is what the line has for some outcomes only.
func (e *ending) more() []slog.Attr {
	var more []slog.Attr
	switch e.decision.kind {
	case "", api.KindComplete:
		return nil
	case api.KindSnooze:
		more = append(more, slog.Int64("delay_ms", e.decision.delay.Milliseconds()))
		if _, bare := e.err.(*snoozeError); !bare && e.isSnoozed() { //nolint:errorlint // one that was wrapped has a reason
			more = append(more, slog.String("reason", e.err.Error()))
		}
	case api.KindWait:
		more = append(more, slog.Int64("timeout_ms", e.decision.wait.timeout.Milliseconds()))
		if e.waits() {
			more = append(more, slog.String("reason", e.err.Error()))
		}
	case api.KindFail:
		if e.decision.permanent {
			more = append(more, slog.Bool("permanent", true))
		}
	}
	if e.answer.State != "" {
		more = append(more, slog.String("state", e.answer.State))
	}
	if e.answer.RunAt != nil {
		more = append(more, slog.Time("run_at", e.answer.RunAt.Time))
	}
	if e.answer.DeadReason != nil {
		more = append(more, slog.String("dead_reason", *e.answer.DeadReason))
	}
	return more
}
