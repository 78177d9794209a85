package admission

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
)

// ipAddresses is how many addresses are remembered, some 15 MB. One that is
// evicted has a full bucket again.
const ipAddresses = 65_536

// IPLimitOptions are the rate and the burst of an address.
type IPLimitOptions struct {
	PerSecond float64
	Burst     int
	Addresses int // remembered at most; 0 is 65,536
}

// IPLimit limits by client address, in the process, before authentication. An
// IPv6 address counts by its /64, since that is what one client is given, and an
// IPv4 address counts as itself however it is written. Safe for concurrent use.
type IPLimit struct {
	rate  rate.Limit
	burst int
	now   func() time.Time

	mu      sync.Mutex
	buckets *simplelru.LRU[netip.Addr, *rate.Limiter]
}

// NewIPLimit makes an IPLimit.
func NewIPLimit(opts IPLimitOptions) *IPLimit {
	if opts.Addresses <= 0 {
		opts.Addresses = ipAddresses
	}
	buckets, _ := simplelru.NewLRU[netip.Addr, *rate.Limiter](opts.Addresses, nil) // it fails only for a size below 1
	return &IPLimit{rate: rate.Limit(opts.PerSecond), burst: opts.Burst, now: time.Now, buckets: buckets}
}

// Allow takes a token of the address. Where there is none it says how long to
// wait for one.
func (l *IPLimit) Allow(address netip.Addr) (retryAfter time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, now := bucketOf(address), l.now()
	tokens, known := l.buckets.Get(key)
	if !known {
		tokens = rate.NewLimiter(l.rate, l.burst)
		l.buckets.Add(key, tokens)
	}
	if tokens.AllowN(now, 1) {
		return 0, true
	}
	return l.wait(tokens, now), false
}

// wait is how long until there is a whole token.
func (l *IPLimit) wait(tokens *rate.Limiter, now time.Time) time.Duration {
	if l.rate <= 0 || l.burst < 1 {
		return bucket.ClosedRetry
	}
	missing := max(0, 1-tokens.TokensAt(now))
	return time.Duration(missing / float64(l.rate) * float64(time.Second))
}

// Burst is how much an address may take at once.
func (l *IPLimit) Burst() int { return l.burst }

// Addresses is how many are remembered.
func (l *IPLimit) Addresses() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buckets.Len()
}

// bucketOf is the address that a client counts as.
func bucketOf(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	if !address.Is6() {
		return address
	}
	block, err := address.Prefix(64)
	if err != nil {
		return address
	}
	return block.Addr()
}
