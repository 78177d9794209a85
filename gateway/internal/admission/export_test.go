package admission

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// What tests outside the package may see of it.

// LocalLimiter decides as a Limiter without Redis, among n gateways.
func LocalLimiter(n int) *Limiter { return NewLimiter(&Redis{}, LimiterOptions{Replicas: n}) }

// SetClock has an IPLimit live by another clock.
func (l *IPLimit) SetClock(now func() time.Time) { l.now = now }

// ChargeUncounted is Charge without the count of uses.
func (l *Limiter) ChargeUncounted(ctx context.Context, a *Payer, cost Cost) error {
	charged, _ := a.request(cost)
	a.Decision = new(l.Admit(ctx, charged))
	if a.Decision.Verdict != bucket.Admitted {
		return &RefusedError{a.Decision}
	}
	return nil
}

// ReportOnce reports what was counted so far.
func (l *Limiter) ReportOnce(ctx context.Context, send func(ctx context.Context, tenant string, uses []hop.LimitUse) error) {
	l.report(ctx, send)
}
