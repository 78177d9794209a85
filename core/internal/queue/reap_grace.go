package queue

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Silence is a time in which PostgreSQL answered this core nothing, so that no holder
// was heard through it: PostgreSQL stood still, or was away, or this core was.
type Silence struct {
	// Ended is when it answered again, by its own clock.
	Ended  time.Time
	Length time.Duration
}

// Longest is the length of a silence of which nobody knows how long it was.
const Longest = api.MaxVisibilityTimeout

// matters says whether there may be leases that wait for its sake: it was a third of them or
// more, and they wait for two.
func (s Silence) matters(now time.Time) bool {
	return s.Ended.Add(min(2*s.Length, Longest)).After(now)
}

// Hearing is when PostgreSQL answered this core.
type Hearing struct {
	// Last is when it last did, by its clock; zero for now.
	Last time.Time
	// Silences are the long times in between, in order; each is shorter than the one before.
	Silences []Silence
}

// usual is how long nothing is heard in good times: reapers ask more often.
const usual = 500 * time.Millisecond

// Hear takes the time of an answer, and says whether there was a silence before it. The first
// answer ends one of which nobody knows how long it was. Answers may overtake each other; one
// that is earlier by more than a question may take is of a clock that was set back.
func (h *Hearing) Hear(now time.Time) (silent bool) {
	if ago := h.Last.Sub(now); ago > 0 && ago <= store.NowTime {
		return false
	}
	length := now.Sub(h.Last) - usual
	if h.Last.IsZero() {
		length = Longest
	}
	h.Last = now
	kept := h.Silences[:0:0]
	for _, s := range h.Silences {
		// A later one that is as long says all that it says. One that ended in times to come is
		// of a clock that was set back.
		if s.Length > length && s.matters(now) && !s.Ended.After(now) {
			kept = append(kept, s)
		}
	}
	if h.Silences = kept; length > 0 {
		h.Silences = append(h.Silences, Silence{now, length})
	}
	return length > 0
}

// heardSQL says that the lease of a row ran out though its holder could be heard. After
// a silence of a third of its length or more holders get two thirds to speak first: a lease is
// prolonged each third, and a heartbeat that the silence began in is answered when it ends,
// though it prolonged the lease from before. The statement itself may be what ends a silence.
// A time that lies ahead is of a clock that was set back since.
const heardSQL = `NOT EXISTS (
    SELECT FROM unnest(@silence_ends::timestamptz[], @silences::bigint[]) AS silence(ended, ms)
    WHERE silence.ms * 3 >= jobs.visibility_timeout_ms AND silence.ended <= statement_timestamp()
      AND silence.ended + jobs.visibility_timeout_ms * interval '1 millisecond' * 2 / 3 > statement_timestamp())
  AND statement_timestamp() < COALESCE(@heard::timestamptz, statement_timestamp()) + @usual::interval
                              + jobs.visibility_timeout_ms * interval '1 millisecond' / 3`

func (h *Hearing) args() pgx.StrictNamedArgs {
	ends, lengths := make([]time.Time, len(h.Silences)), make([]int64, len(h.Silences))
	for i, s := range h.Silences {
		ends[i], lengths[i] = s.Ended, s.Length.Milliseconds()
	}
	args := pgx.StrictNamedArgs{"silence_ends": ends, "silences": lengths, "heard": nil, "usual": usual}
	if !h.Last.IsZero() {
		args["heard"] = h.Last
	}
	return args
}
