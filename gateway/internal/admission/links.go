package admission

import (
	"context"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
)

// Links that sign in to the console are bounded by their key, and redeemed once over all gateways. Both are buckets, and so
// need nothing of Redis but the limiter's script.
const (
	linksPerSecond = 0.1
	linksBurst     = 20
	// A bucket of two tokens that one redemption empties is full again after 2,000 s, later than any link lives: it admits
	// each id once.
	onceRate, onceBurst = 0.001, 2
)

// ErrNotKnown means that Redis, which all gateways share, does not answer.
var ErrNotKnown = errors.New("admission: Redis does not answer")

// ChargeLink takes one link of a key's own rate; wait is how long until there is one.
func (l *Limiter) ChargeLink(ctx context.Context, keyID string) (wait time.Duration, ok bool) {
	d := l.Admit(ctx, bucket.Request{Buckets: []bucket.Bucket{{
		Policy: PolicyCredentialLinks, Quota: bucket.NewQuota(linksPerSecond, linksBurst), Cost: 1, Key: "{key-" + keyID + "}:owed:links",
	}}})
	return d.RetryAfter, d.Verdict == bucket.Admitted
}

// FirstUse reports whether the link with an id is redeemed for the first time. Where gateways share a Redis that does not
// answer it is ErrNotKnown: another gateway may have redeemed it.
func (l *Limiter) FirstUse(ctx context.Context, id string) (bool, error) {
	d := l.Admit(ctx, bucket.Request{Buckets: []bucket.Bucket{{
		Policy: PolicyCredentialLinks, Quota: bucket.NewQuota(onceRate, onceBurst), Cost: onceBurst, Key: "{link-" + id + "}:owed:once",
	}}})
	if d.Local && l.client != nil {
		return false, ErrNotKnown
	}
	return d.Verdict == bucket.Admitted, nil
}
