package memory

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// Why a budget gives nothing more.
var (
	// ErrFull says that all requests together hold as much as they may.
	ErrFull = errors.New("memory: the budget is used up")
	// ErrShare says that the requests of one owner hold as much as they may.
	ErrShare = errors.New("memory: the owner's share of the budget is used up")
)

// Options of a Budget, in bytes.
type Options struct {
	// Most is what all requests may hold at once.
	Most int64
	// Share is what the requests of one owner may hold at once, while no other's hold any: else as large a part of what is
	// free, so that some always is, however many owners take all they can. 0 is as much as all.
	Share int64
	// Factor is what a body takes for each of its bytes until its request has ended, with
	// its decoded and its encoded form; 1 if 0.
	Factor int64
}

// reserved of Most, in percent, is kept for urgent requests.
const reserved = 20

// Budget bounds the memory of requests' bodies and of their answers, over all and by
// owner. One request of each owner, and one of all, is let have what it needs beyond
// that: each has a bound of its own. Without it a budget that is smaller than one request
// would refuse it for ever, and many that come at once would each have a part and none the
// whole.
// Safe for concurrent use.
type Budget struct {
	options Options

	mu   sync.Mutex
	used int64
	// first is the request that may have what it needs; the next to take something
	// follows it.
	first *Hold
	by    map[string]*share // no entry for an owner that holds nothing
}

// share is what one owner holds.
type share struct {
	used  int64
	first *Hold
	// waiting is who waits for room in it, in the order of arrival.
	waiting []*waiter
}

// waiter is a Take that waits. The channel is closed when it has its bytes, or err.
type waiter struct {
	hold  *Hold
	bytes int64
	ended chan struct{}
	err   error
}

// NewBudget makes a Budget.
func NewBudget(o Options) *Budget {
	if o.Share <= 0 {
		o.Share = o.Most
	}
	o.Factor = max(o.Factor, 1)
	return &Budget{options: o, by: map[string]*share{}}
}

// Used is how many bytes are held.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Hold begins a request of an owner, which holds nothing yet. An urgent one may
// use all of the budget, any other leaves a fifth to those.
func (b *Budget) Hold(owner string, urgent bool) *Hold {
	most := b.options.Most
	if !urgent {
		most -= most * reserved / 100
	}
	return &Hold{budget: b, owner: owner, most: most}
}

// Hold is what one request has taken. Nil holds nothing. Read is for one goroutine at a
// time; all else is safe for concurrent use.
type Hold struct {
	budget *Budget
	owner  string
	most   int64 // of the budget, for a request of this kind

	// under the budget's lock:

	taken    int64
	released bool
}

// cover brings what is held up to a body of so many bytes.
func (h *Hold) cover(body int64) error {
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	return h.reach(body*h.budget.options.Factor, false)
}

// Take brings what is held up to so many bytes. Where the owner's share is used up it waits,
// behind the owner's others that wait, for at most patience: then the error is ErrShare. It is
// ErrFull, at once, where all owners hold too much, and ctx's where that has ended. What is
// taken after Release is not counted.
func (h *Hold) Take(ctx context.Context, bytes int64, patience time.Duration) error {
	if h == nil {
		return nil
	}
	b := h.budget
	b.mu.Lock()
	own := b.by[h.owner]
	err := ErrShare
	if own == nil || len(own.waiting) == 0 {
		err = h.reach(bytes, false)
	}
	if !errors.Is(err, ErrShare) {
		b.mu.Unlock()
		return err
	}
	w := &waiter{hold: h, bytes: bytes, ended: make(chan struct{})}
	own.waiting = append(own.waiting, w)
	b.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.ended:
		return w.err
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(own.waiting, w)
	if at < 0 {
		return w.err
	}
	own.waiting = slices.Delete(own.waiting, at, at+1)
	own.next()
	return err
}

// Force is Take for what cannot be refused any more: it counts, in any case.
func (h *Hold) Force(bytes int64) {
	if h == nil {
		return
	}
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	_ = h.reach(bytes, true) // it refuses nothing
}

// reach brings what is held up to so many bytes, under the budget's lock; force does so beyond any bound.
func (h *Hold) reach(bytes int64, force bool) error {
	b, more := h.budget, bytes-h.taken
	if more <= 0 || h.released {
		return nil
	}
	own := b.by[h.owner]
	if own == nil {
		own = &share{}
	}
	firstOwn, firstAll := own.first == nil || own.first == h, b.first == nil || b.first == h
	switch {
	case force:
	case !firstOwn && own.used+more > h.share(more):
		return ErrShare
	case !firstAll && b.used+more > h.most:
		return ErrFull
	}
	if firstOwn {
		own.first = h
	}
	if firstAll {
		b.first = h
	}
	b.by[h.owner] = own
	b.used, own.used, h.taken = b.used+more, own.used+more, h.taken+more
	return nil
}

// share is what the owner may hold, by what is free once so many more bytes are held. It is the dynamic threshold of
// Choudhury and Hahne (1998); an owner alone meets it at Options.Share.
func (h *Hold) share(more int64) int64 {
	share := h.budget.options.Share
	if share >= h.most {
		return share
	}
	return int64(float64(share) / float64(h.most-share) * float64(h.most-h.budget.used-more))
}

// next ends the waiting of those for whom there is room now, in their order.
func (s *share) next() {
	for len(s.waiting) > 0 {
		w := s.waiting[0]
		if w.err = w.hold.reach(w.bytes, false); errors.Is(w.err, ErrShare) {
			return
		}
		s.waiting = s.waiting[1:]
		close(w.ended)
	}
}

// Release gives back what is held. It may be called more than once.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	h.released = true
	if h.taken == 0 {
		return
	}
	own := b.by[h.owner]
	b.used, own.used, h.taken = b.used-h.taken, own.used-h.taken, 0
	if b.first == h {
		b.first = nil
	}
	if own.first == h {
		own.first = nil
	}
	own.next()
	if own.used == 0 {
		delete(b.by, h.owner)
	}
}

// firstPart is what is taken for the first bytes of a body of unknown length.
const firstPart = 4 << 10

// Read appends a body to buffer, to its end, and takes memory for it as it comes: at
// most twice what has come, for any declared length (-1 is unknown). The
// error is ErrFull or ErrShare where there was no memory to read on, else the
// reader's. What has been read is given in any case.
func (h *Hold) Read(buffer []byte, body io.Reader, declared int64) ([]byte, error) {
	covered := int64(0)
	for {
		if have := int64(len(buffer)); have >= covered {
			covered = max(2*have, firstPart)
			if declared >= have { // one more, to see the end
				covered = min(covered, declared+1)
			}
			if err := h.cover(covered); err != nil {
				return buffer, err
			}
			if int64(cap(buffer)) < covered {
				buffer = append(make([]byte, 0, covered), buffer...)
			}
		}
		n, err := body.Read(buffer[len(buffer):min(int64(cap(buffer)), covered)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case err == io.EOF:
			return buffer, nil
		case err != nil:
			return buffer, err
		}
	}
}
