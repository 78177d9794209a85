package admission

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// capHints bounds the hints that are being sent to Redis at once; more are
// dropped, each of which costs one call of core.
const capHints = 8

// CapReached stores a hint for all gateways, for 250 ms: core has just refused a
// job of a tenant, or of one user of it where user is not empty, because this cap
// is full. It returns at once; a lost hint costs a call of core.
func (l *Limiter) CapReached(ctx context.Context, tenant, user string, full api.CapUse) {
	if !l.reachable() {
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
		// The error is dropped: only calls that must succeed put Redis in doubt.
		_ = fenced(func() error {
			return l.client.Set(ctx, l.prefix+use.key(hintSuffix(user)), formatCap(full), capHintLife).Err()
		})
	}()
}

// formatCap and parseCap are what a hint's key holds.
func formatCap(full api.CapUse) string {
	return fmt.Sprintf("%s %s %d %d", full.Scope, full.Kind, full.Limit, full.Used)
}

// parseCap is lenient: a hint is a refusal even if its value cannot be read.
func parseCap(hint string) *api.CapUse {
	full := &api.CapUse{}
	parts := strings.Fields(hint)
	if len(parts) != 4 {
		return full
	}
	full.Scope, full.Kind = parts[0], parts[1]
	full.Limit, _ = strconv.ParseInt(parts[2], 10, 64)
	full.Used, _ = strconv.ParseInt(parts[3], 10, 64)
	return full
}

// What core calls the caps that hints are about.
const (
	capTenantActive = "tenant-active"
	capUserActive   = "user-active"
	scopeTenant     = "tenant"
	scopeUser       = "user"
	kindActive      = "active"
)

// NoteCaps looks for full caps in core's refusal of a tenant's submit, and stores hints
// of them for all gateways, so that they refuse the next ones for 250 ms without core.
// A cap of a user is noted if all jobs were that user's. A cap that had some
// capacity, only too little for all of a batch, is not full.
func (l *Limiter) NoteCaps(ctx context.Context, tenant string, work Work, refusal error) {
	p, ok := problem.From(refusal)
	if !ok || p.Code != problem.ActiveCapReached {
		return
	}
	user := work.onlyUser()
	for _, policy := range p.Policies {
		full := api.CapUse{Kind: kindActive, Limit: policy.Limit, Used: policy.Current}
		switch {
		case policy.Current < policy.Limit:
		case policy.Name == capTenantActive:
			full.Scope = scopeTenant
			l.CapReached(ctx, tenant, "", full)
		case policy.Name == capUserActive && user != "":
			full.Scope = scopeUser
			l.CapReached(ctx, tenant, user, full)
		}
	}
}
