package jobs

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Outage is a time in which PostgreSQL did not answer this core, so that no heartbeat was stored:
// PostgreSQL or this core stalled, or was down.
type Outage struct {
	// Ended is when it answered again, by its own clock.
	Ended  time.Time
	Length time.Duration
}

// UnknownLength stands for an outage of unknown length.
const UnknownLength = api.MaxVisibilityTimeout

// relevant says whether leases may still have a grace period because of it: those of which it was
// a third or more have two thirds of their length.
func (s Outage) relevant(now time.Time) bool {
	return s.Ended.Add(min(2*s.Length, UnknownLength)).After(now)
}

// Contact is when PostgreSQL answered this core.
type Contact struct {
	// Last is when it last did, by its clock; zero for now.
	Last time.Time
	// Outages are the gaps between answers that matter, oldest first; each is shorter than the one before.
	Outages []Outage
	// Seldom: this core asks now and then, as it knows of no lease; otherwise more often. What is not observed then counts
	// as an outage. That matters only to leases of other cores which began in that time.
	Seldom bool
}

// normalGap is the longest gap between two answers without an outage: reapers ask more often.
// seldomGap is that of a Contact that is Seldom: reapers ask each second again within that time after this core has claimed.
const (
	normalGap = 500 * time.Millisecond
	seldomGap = 1500 * time.Millisecond
)

func (c *Contact) normalGap() time.Duration {
	if c.Seldom {
		return seldomGap
	}
	return normalGap
}

// Answered records the time of an answer, by PostgreSQL's clock, and says whether an outage was
// before it. The first answer ends an outage of unknown length. Answers may overtake each other;
// one that is earlier by more than a call may take is of a clock that was set back.
func (c *Contact) Answered(now time.Time) (afterOutage bool) {
	if ago := c.Last.Sub(now); ago > 0 && ago <= store.NowTime {
		return false
	}
	length := now.Sub(c.Last) - c.normalGap()
	if c.Last.IsZero() {
		length = UnknownLength
	}
	c.Last = now
	relevant := c.Outages[:0:0]
	for _, s := range c.Outages {
		// A later one that is as long covers it. An end in the future is of a clock that was set back.
		if s.Length > length && s.relevant(now) && !s.Ended.After(now) {
			relevant = append(relevant, s)
		}
	}
	if c.Outages = relevant; length > 0 {
		c.Outages = append(c.Outages, Outage{now, length})
	}
	return length > 0
}

// graceSQL is the condition that a row's lease has no grace period. After an outage of a third of
// its length or more a lease has two thirds of its length: holders renew each third, and a
// heartbeat in which the outage began is answered when it ends, though it renewed the lease from
// before. This statement may itself be what ends an outage. An end in the future is of a clock
// that was set back since.
const graceSQL = `NOT EXISTS (
    SELECT FROM unnest(@outage_ends::timestamptz[], @outages::bigint[]) AS outage(ended, ms)
    WHERE outage.ms * 3 >= jobs.visibility_timeout_ms AND outage.ended <= statement_timestamp()
      AND outage.ended + jobs.visibility_timeout_ms * interval '1 millisecond' * 2 / 3 > statement_timestamp())
  AND statement_timestamp() < COALESCE(@answered::timestamptz, statement_timestamp()) + @normal_gap::interval
                              + jobs.visibility_timeout_ms * interval '1 millisecond' / 3`

func (c *Contact) args() store.Args {
	ends, lengths := make([]time.Time, len(c.Outages)), make([]int64, len(c.Outages))
	for i, s := range c.Outages {
		ends[i], lengths[i] = s.Ended, s.Length.Milliseconds()
	}
	args := store.Args{"outage_ends": ends, "outages": lengths, "answered": nil, "normal_gap": c.normalGap()}
	if !c.Last.IsZero() {
		args["answered"] = c.Last
	}
	return args
}
