package admission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	// capHints bounds the hints that are being sent to Redis at once; more are
	// dropped, each of which costs one call of core.
	capHints = 8
	// capHintLife is how long a hint may refuse: it is never wrong for longer.
	capHintLife = 250 * time.Millisecond
)

// CapReached stores a hint for all gateways, for 250 ms: core has just refused a
// job of a tenant, or of one user of it where user is not empty, because this cap
// is full. wait is when core said that there is likely to be room, 0 where it did not know. It returns at once; a lost hint
// costs a call of core.
func (l *Limiter) CapReached(ctx context.Context, tenant, user string, full api.CapUse, wait time.Duration) {
	if !l.Reachable() {
		return
	}
	select {
	case l.hints <- struct{}{}:
	default:
		return
	}
	use := Use{Tenant: tenant}
	go func() {
		defer func() { <-l.hints }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.budget)
		defer cancel()
		// The error is dropped: only calls that must succeed mark Redis as degraded.
		_ = l.client.Set(ctx, l.prefix+use.key(hintSuffix(user)), formatCap(full, wait), capHintLife)
	}()
}

// crowded is the wait for room from which on hints are stored: so many callers wait, or come back too early, that core is
// to be asked less.
const crowded = 5 * time.Second

// formatCap and parseCap are what a hint's key holds.
func formatCap(full api.CapUse, wait time.Duration) string {
	return fmt.Sprintf("%s %s %d %d %d", full.Scope, full.Kind, full.Limit, full.Used, wait.Milliseconds())
}

// parseCap is lenient: a hint is a refusal even if its value cannot be read.
func parseCap(hint string) (full *api.CapUse, wait time.Duration) {
	full = &api.CapUse{}
	parts := strings.Fields(hint)
	if len(parts) != 5 {
		return full, 0
	}
	full.Scope, full.Kind = parts[0], parts[1]
	full.Limit, _ = strconv.ParseInt(parts[2], 10, 64)
	full.Used, _ = strconv.ParseInt(parts[3], 10, 64)
	ms, _ := strconv.ParseInt(parts[4], 10, 64)
	return full, min(time.Duration(max(ms, 0))*time.Millisecond, mostHinted)
}

// mostHinted bounds the wait that a hint asks for: some of the callers that it refuses come when there is room.
const mostHinted = 5 * time.Second

// afterHint is when a caller that a hint refused may come back: at any time of the second half of the wait.
func afterHint(wait time.Duration) time.Duration {
	return max(capHintLife, wait/2+rand.N(wait/2+1)) //nolint:gosec // spreads load, guards nothing
}

// What core calls the caps that hints are about.
const (
	capTenantActive = "tenant-active"
	capUserActive   = "user-active"
	scopeTenant     = "tenant"
	scopeUser       = "user"
	kindActive      = "active"
)

// NoteCaps looks for full caps in core's refusal of a submit, and stores hints
// of them for all gateways, so that they refuse the next ones for 250 ms without core.
// A cap of a user is noted if all jobs were that user's. A cap that had some
// capacity, only too little for all of a batch, is not full. Where core knows when there is likely to be room, and that is
// soon, callers come back one by one, each when there is room for it: a hint would refuse it. Then it is left out.
func (l *Limiter) NoteCaps(ctx context.Context, a *Payer, cost Cost, refusal error) {
	if refusal == nil || len(cost.jobs) == 0 {
		return
	}
	p, ok := problem.From(refusal)
	if !ok || p.Code != problem.ActiveCapReached {
		return
	}
	user := cost.onlyUser()
	for _, policy := range p.Policies {
		full := api.CapUse{Kind: kindActive, Limit: policy.Limit, Used: policy.Current}
		var wait time.Duration
		if policy.RetryAfterMS != nil {
			wait = time.Duration(*policy.RetryAfterMS) * time.Millisecond
		}
		switch {
		case policy.Current < policy.Limit, wait > 0 && wait < crowded:
		case policy.Name == capTenantActive:
			full.Scope = scopeTenant
			l.CapReached(ctx, a.Key.Tenant, "", full, wait)
		case policy.Name == capUserActive && user != "":
			full.Scope = scopeUser
			l.CapReached(ctx, a.Key.Tenant, user, full, wait)
		}
	}
}
