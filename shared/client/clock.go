package client

import (
	"net/http"
	"sync"
	"time"
)

// serverClock remembers the last Date header, and when it came by the local
// monotonic clock. Times in answers are the server's, and the local clock may be
// hours off; with this a caller can compute the time until a server's time.
type serverClock struct {
	mu   sync.Mutex
	date time.Time
	came time.Time
}

func (s *serverClock) observe(header http.Header, came time.Time) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return // no header, or no date: keep the last one
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.date, s.came = date, came
}

// ServerTime is the server's present time by the Date header of its last answer, and
// whether there was one. Date is truncated to whole seconds, so a second is added:
// the result is up to a second ahead, and behind by no more than that answer's
// network latency.
func (c *Client) ServerTime() (time.Time, bool) {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	if c.clock.date.IsZero() {
		return time.Time{}, false
	}
	return c.clock.date.Add(time.Second + time.Since(c.clock.came)), true
}
