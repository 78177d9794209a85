package caps_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/submit"
)

// BenchmarkCountsWithAnOldWriter shows what a capped tenant's lone submit and claim
// take while a transaction that has written stays open, so that credits that came since
// cannot be folded:
//
//	go test -run '^$' -bench CountsWithAnOldWriter -benchtime 200x ./core/internal/caps
func BenchmarkCountsWithAnOldWriter(b *testing.B) {
	for _, credits := range []int{0, 400_000, 1_000_000} {
		b.Run(fmt.Sprint(credits), func(b *testing.B) {
			url := celltest.URL(b)
			store, direct, writer := celltest.OpenURL(b, url), celltest.Connect(b, url), celltest.Connect(b, url)
			owner := uuid.Must(uuid.NewV7())
			made, err := store.Lanes.Ensure(b.Context(), owner, []lanes.Ask{{Key: lanes.NewKey(owner, "default", "test", nil)}})
			if err != nil {
				b.Fatal(err)
			}
			lane := made[0].Lane
			capOf := func(counter caps.Counter) []caps.Cap {
				return []caps.Cap{{CountKey: caps.CountKey{Tenant: owner, Counter: counter}, Limit: 2_000_000}}
			}
			submit := func() {
				answers, err := store.Submits.Submit(b.Context(), []submit.Submission{{Tenant: owner, Jobs: []submit.NewJob{{
					ID: uuid.Must(uuid.NewV7()), Lane: lane.ID, Queue: "default", Type: "bench", Payload: []byte("1"), Metadata: []byte("{}"),
					MaxAttempts: 1, Retry: job.DefaultRetry(), Caps: capOf(caps.ActiveTenant),
				}}}})
				if err != nil || answers[0].Problem != nil {
					b.Fatal(err, answers)
				}
			}
			claim := func() {
				taken, err := store.Claims.Claim(b.Context(), claim.Request{
					Lanes:   []claim.Lane{{ID: lane.ID, Tenant: owner, VisibilityTimeout: time.Hour, Caps: capOf(caps.RunningTenant)}},
					Workers: []claim.Worker{{ID: "w", Max: 1}}, Owner: owner, LeaseID: uuid.New(),
				})
				if err != nil || len(taken.Jobs) != 1 {
					b.Fatalf("%d claimed: %v", len(taken.Jobs), err)
				}
			}
			submit()
			claim()
			for _, sql := range []string{`BEGIN`, `SELECT pg_current_xact_id()`} {
				if _, err := writer.Exec(b.Context(), sql); err != nil {
					b.Fatal(err)
				}
			}
			for range 10 {
				if _, err := direct.Exec(b.Context(), `INSERT INTO usage_credits
					SELECT $1, c, '', 0, pg_current_xact_id() FROM generate_series(1, $2::int) n, (VALUES (1), (8)) v(c)`, owner, credits/10); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := direct.Exec(b.Context(), `UPDATE usage_counts SET settled = true`); err != nil {
				b.Fatal(err)
			}
			var submits, claims []time.Duration
			for b.Loop() {
				submits, claims = append(submits, took(submit)), append(claims, took(claim))
			}
			for what, all := range map[string][]time.Duration{"submit": submits, "claim": claims} {
				first := all[0]
				slices.Sort(all)
				b.ReportMetric(ms(first), "first-"+what+"-ms")
				b.ReportMetric(ms(all[len(all)/2]), "p50-"+what+"-ms")
				b.ReportMetric(ms(all[len(all)*99/100]), "p99-"+what+"-ms")
			}
		})
	}
}

func took(do func()) time.Duration {
	begun := time.Now()
	do()
	return time.Since(begun)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
