package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

func keyedFor(ids ...tenant.ID) []queue.Submission {
	var submissions []queue.Submission
	for _, id := range ids {
		submissions = append(submissions, queue.Submission{Tenant: id, Idempotency: &queue.Idempotency{}})
	}
	return submissions
}

func TestGateLetsOneOfATenantThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g gate
		a, b := uuid.New(), uuid.New()
		type count struct{ inside, most int }
		counts := map[tenant.ID]*count{a: {}, b: {}}
		for i := range 100 {
			go func() {
				// both tenants, named in either order, and one of them twice
				ids := [][]tenant.ID{{a}, {b}, {a, b}, {b, a, b}}[i%4]
				leave, err := g.enter(t.Context(), keyedFor(ids...))
				if err != nil {
					t.Error(err)
					return
				}
				for _, id := range guardedTenants(keyedFor(ids...)) {
					c := counts[id]
					c.inside++ // no lock but the gate: the race detector is watching
					c.most = max(c.most, c.inside)
				}
				time.Sleep(time.Millisecond)
				for _, id := range guardedTenants(keyedFor(ids...)) {
					counts[id].inside--
				}
				leave()
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		leave, err := g.enter(t.Context(), keyedFor(a, b))
		if err != nil || counts[a].most != 1 || counts[b].most != 1 {
			t.Fatalf("%d and %d at once, %v", counts[a].most, counts[b].most, err)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.enter(late, keyedFor(b)); !errors.Is(err, queue.ErrIdempotencyInFlight) {
			t.Errorf("the wait ended with %v", err)
		}
		if through, err := g.enter(late, []queue.Submission{{Tenant: a}}); err != nil {
			t.Errorf("a submit without a key waited: %v", err)
		} else {
			through()
		}
		leave()
		if len(g.tenants) != 0 {
			t.Errorf("%d tenants are still remembered", len(g.tenants))
		}
	})
}
