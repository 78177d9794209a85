package enginetest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/watch"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Override overrides the limits of the tenant's plan.
func (f *Fixture) Override(overrides api.Overrides) {
	f.Helper()
	if _, err := f.Store.Tenants.Patch(f.Context(), f.Tenant, api.TenantPatch{Overrides: &overrides}); err != nil {
		f.Fatal(err)
	}
	if err := f.D.Refresh(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// Request is one of a user, or of none.
func Request(user string) api.SubmitRequest {
	r := api.SubmitRequest{Type: "test"}
	if user != "" {
		r.User = &user
	}
	return r
}

// Take claims up to n jobs.
func (f *Fixture) Take(n int) []claim.Job {
	f.Helper()
	call := f.ClaimCall()
	call.Max = n
	return f.Claim(call)
}

// Put sets a queue.
func (f *Fixture) Put(name string, request api.QueueRequest) {
	f.Helper()
	if _, err := f.D.PutQueue(f.Context(), f.Tenant, name, request); err != nil {
		f.Fatal(err)
	}
	f.Refresh()
}

// End completes jobs.
func (f *Fixture) End(jobs []claim.Job) {
	f.Helper()
	for _, ended := range f.D.End(f.Context(), Endings(jobs)) {
		if ended.Err != nil {
			f.Fatal(ended.Err)
		}
	}
}

// Endings complete jobs.
func Endings(found []claim.Job) []jobs.Ending {
	made := make([]jobs.Ending, len(found))
	for i := range found {
		made[i] = jobs.Ending{Lease: found[i].Lease(), Kind: api.KindComplete}
	}
	return made
}

// Long is a wait that no test wants to see the end of.
const Long = 25 * time.Second

// WaitCall is a claim of one job that waits.
func (f *Fixture) WaitCall(queues ...string) claims.Call {
	call := f.ClaimCall(queues...)
	call.Max, call.Wait = 1, Long
	return call
}

// WaitVersion waits for another version of a job than the one given.
func (f *Fixture) WaitVersion(d *Core, id uuid.UUID, version string) <-chan api.Job {
	found := make(chan api.Job, 1)
	go func() {
		one, err := d.WaitJob(f.Context(), watch.Call{Tenant: f.Tenant, ID: id, Wait: Long, Version: version})
		if err != nil {
			f.Error(err)
		}
		found <- one
	}()
	return found
}

// Watched waits until a client that waits for a change of a job has read it.
func (f *Fixture) Watched(id uuid.UUID) {
	f.Helper()
	celltest.Eventually(f, "a watch", func() bool { return slices.Contains(f.D.Watches.Next(1<<20, 0), id) })
	f.Idle()
}
