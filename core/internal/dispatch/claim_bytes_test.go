package dispatch_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Workers that ask for far more than an answer may have get what fits into one each,
// at the same time or in sequence, until every job has ended.
func TestClaimsOfManyLargeJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const found, workers = 100, 3
	large := plain()
	large.Payload = json.RawMessage(`"` + strings.Repeat("x", 255_000) + `"`)
	for range found / 4 { // a megabyte at once
		f.many(f.tenant, 4, large)
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				got, err := f.d.Claim(t.Context(), f.claimCall())
				if err != nil {
					t.Error(err)
					return
				}
				bytes := 0
				endings := make([]jobs.Ending, len(got))
				for i := range got {
					bytes += len(got[i].Payload)
					endings[i] = jobs.Ending{Lease: got[i].Lease(), Kind: api.KindComplete}
				}
				if bytes > api.MaxClaimBytes {
					t.Errorf("%d jobs of %d bytes in one answer", len(got), bytes)
				}
				if len(got) == 0 {
					return
				}
				for _, ended := range f.d.End(t.Context(), endings) {
					if ended.Err != nil {
						t.Error(ended.Err)
					}
				}
			}
		})
	}
	group.Wait()
	if n := f.count(`SELECT count(*) FROM finished_jobs WHERE attempt = 1`); n != found {
		t.Errorf("%d jobs have ended at the first attempt, want %d", n, found)
	}
}

// Small requests that share a flush with jobs too large for one answer are each served:
// those whom the flush does not reach by the next one.
func TestClaimsThatAFlushDoesNotReach(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const claims = 60 // 15 MB together
	large := plain()
	large.Payload = json.RawMessage(`"` + strings.Repeat("x", 255_000) + `"`)
	for range claims / 4 {
		f.many(f.tenant, 4, large)
	}
	unlock := f.lockJobs()
	call := f.claimCall()
	call.Max = 1
	answers := []<-chan answer{f.goClaim(t.Context(), call)}
	f.blocked(1)
	for range claims - 1 {
		answers = append(answers, f.goClaim(t.Context(), call))
	}
	unlock()
	for _, one := range answers {
		if got := <-one; len(got.jobs) != 1 || got.err != nil {
			t.Fatalf("a claim got %d jobs, %v", len(got.jobs), got.err)
		}
	}
}
