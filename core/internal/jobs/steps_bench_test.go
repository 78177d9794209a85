package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/shared/api"
)

// BenchmarkSteps gives what a job costs in each step of its life, by how many are in one call.
// A statement that is linear costs as much a job in calls of 1,000 as in calls of 100.
//
//	go test -run '^$' -bench Steps -benchtime 20x ./core/internal/jobs
func BenchmarkSteps(b *testing.B) {
	url := celltest.URL(b)
	store := celltest.OpenURL(b, url)
	behind := celltest.Connect(b, url)
	for _, step := range allSteps() {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", step.name, n), func(b *testing.B) {
				owner := uuid.Must(uuid.NewV7())
				if _, err := store.Tenants.Create(b.Context(), owner, api.TenantRequest{Name: "test"}); err != nil {
					b.Fatal(err)
				}
				made, err := store.Lanes.Ensure(b.Context(), owner, []lanes.Ask{{Key: lanes.NewKey(owner, "q", "test", nil)}})
				if err != nil {
					b.Fatal(err)
				}
				s := &steps{TB: b, store: store, behind: behind, owner: owner, lane: made[0].Lane, n: n}
				var took time.Duration
				for b.Loop() {
					leases := step.before(s)
					begun := time.Now()
					step.run(s, leases)
					took += time.Since(begun)
					s.exec(`DELETE FROM jobs`)
				}
				b.ReportMetric(float64(took.Microseconds())/float64(b.N*n), "µs/job")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
