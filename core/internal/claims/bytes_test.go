package claims_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Workers that ask for far more than an answer may have get what fits into one each,
// at the same time or in sequence, until every job has ended.
func TestClaimsOfManyLargeJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const found, workers = 100, 3
	large := enginetest.Plain()
	large.Payload = json.RawMessage(`"` + strings.Repeat("x", 255_000) + `"`)
	for range found / 4 { // a megabyte at once
		f.many(f.Tenant, 4, large)
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				got, err := f.D.Claim(t.Context(), f.ClaimCall())
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
				for _, ended := range f.D.End(t.Context(), endings) {
					if ended.Err != nil {
						t.Error(ended.Err)
					}
				}
			}
		})
	}
	group.Wait()
	if n := f.Count(`SELECT count(*) FROM finished_jobs WHERE attempt = 1`); n != found {
		t.Errorf("%d jobs have ended at the first attempt, want %d", n, found)
	}
}

// Small requests that share a flush with jobs too large for one answer are each served:
// those whom the flush does not reach by the next one.
func TestClaimsThatAFlushDoesNotReach(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const claims = 60 // 15 MB together
	large := enginetest.Plain()
	large.Payload = json.RawMessage(`"` + strings.Repeat("x", 255_000) + `"`)
	for range claims / 4 {
		f.many(f.Tenant, 4, large)
	}
	unlock := f.LockJobs()
	call := f.ClaimCall()
	call.Max = 1
	answers := []<-chan enginetest.Answer{f.GoClaim(t.Context(), call)}
	f.Blocked(1)
	for range claims - 1 {
		answers = append(answers, f.GoClaim(t.Context(), call))
	}
	unlock()
	for _, one := range answers {
		if got := <-one; len(got.Jobs) != 1 || got.Err != nil {
			t.Fatalf("a claim got %d jobs, %v", len(got.Jobs), got.Err)
		}
	}
}
