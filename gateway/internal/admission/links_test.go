package admission_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
)

// A link is used once over all gateways that share a Redis, and over one that has none.
func TestALinkIsUsedOnce(t *testing.T) {
	t.Parallel()
	url := storetest.Redis(t)
	shared := []*admission.Limiter{
		admission.NewLimiter(patient(t, url), admission.LimiterOptions{}), admission.NewLimiter(patient(t, url), admission.LimiterOptions{}),
	}
	alone := admission.LocalLimiter(1)
	for name, gateways := range map[string][]*admission.Limiter{"two gateways": shared, "one without Redis": {alone, alone}} {
		id := uuid.NewString()
		first, err := gateways[0].FirstUse(t.Context(), id)
		again, errAgain := gateways[1].FirstUse(t.Context(), id)
		if !first || again || err != nil || errAgain != nil {
			t.Errorf("%s: first %v %v, then %v %v", name, first, err, again, errAgain)
		}
		if other, err := gateways[1].FirstUse(t.Context(), uuid.NewString()); !other || err != nil {
			t.Errorf("%s: another: %v %v", name, other, err)
		}
	}
}

// Without an answer of the Redis that gateways share it is not known, and so not said, that a link is new.
func TestALinkIsNotUsedWithoutRedis(t *testing.T) {
	t.Parallel()
	gone, err := admission.Connect("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gone.Close() })
	l := admission.NewLimiter(gone, admission.LimiterOptions{})
	if first, err := l.FirstUse(t.Context(), uuid.NewString()); first || !errors.Is(err, admission.ErrNotKnown) {
		t.Errorf("%v %v", first, err)
	}
}
