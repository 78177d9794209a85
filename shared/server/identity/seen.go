package identity

import (
	"encoding/binary"
	"sync"
	"time"
)

// maxSeen bounds what a Seen remembers: 30 s of 66,000 requests a second, some 50 MB.
// Beyond it the oldest is forgotten before its time.
const maxSeen = 2_000_000

// Seen remembers the assertions that a process has taken for as long as their time
// is in the window, so that each is taken once. It holds eight bytes of each
// signature, by the second for which it was made. They cannot be chosen without the
// secret; two that are equal by chance cost a request.
//
// Of what an earlier process took it knows only the time: whatever was signed before it
// began is refused. What was signed ahead of the clock by which it began is not:
// by a gateway whose clock is ahead, or before this clock was set back. That can be taken
// once more, for as long as its time is in the window.
type Seen struct {
	since time.Time // with its monotonic reading

	mu      sync.Mutex
	seconds map[int64]map[uint64]struct{}
	count   int
	oldest  int64 // nothing before this second is held
}

// NewSeen makes a Seen for a process that began at since. An assertion from before
// that is out of its time: another process may have taken it.
func NewSeen(since time.Time) *Seen {
	return &Seen{since: since, seconds: map[int64]map[uint64]struct{}{}, oldest: since.Unix()}
}

// began is when the process began, by the clock as it is now: it may have been set
// since, and then what is signed now is not from before.
func (s *Seen) began(now time.Time) time.Time { return now.Add(-now.Sub(s.since)) }

// take remembers a signature; false if it was there.
func (s *Seen) take(mac []byte, at, now time.Time, window time.Duration) bool {
	key, second := binary.BigEndian.Uint64(mac), at.Unix()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now.Add(-window).Unix())
	for s.count >= maxSeen {
		s.forget(s.oldest + 1)
	}
	held := s.seconds[second]
	if held == nil {
		held = map[uint64]struct{}{}
		s.seconds[second] = held
		s.oldest = min(s.oldest, second)
	}
	if _, known := held[key]; known {
		return false
	}
	held[key] = struct{}{}
	s.count++
	return true
}

// forget drops what is from before a second; it is called with the lock held.
func (s *Seen) forget(before int64) {
	if before-s.oldest > int64(len(s.seconds)) { // the clock has leapt, or there was no call for long
		for second, held := range s.seconds {
			if second < before {
				s.count -= len(held)
				delete(s.seconds, second)
			}
		}
		s.oldest = before
	}
	for ; s.oldest < before; s.oldest++ {
		s.count -= len(s.seconds[s.oldest])
		delete(s.seconds, s.oldest)
	}
}
