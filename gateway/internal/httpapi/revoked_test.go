package httpapi_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// parkedRequests are the two that wait in core.
func parkedRequests(d *door, key string) map[string]func() answer {
	return map[string]func() answer{
		hop.ClaimJobs.Path: func() answer {
			return d.do("POST", "/v1/claims", key, `{"worker_id":"w","queues":["default"],"wait_ms":25000}`)
		},
		hop.WaitForJob.Path: func() answer { return d.do("GET", "/v1/jobs/"+jobID, key, "", "Prefer", "wait=25") },
	}
}

// A key that is revoked, or that expires, ends what it has parked, here and in core;
// a hint that another key was revoked ends nothing.
func TestRevocationEndsWhatIsParked(t *testing.T) {
	t.Parallel()
	for _, path := range []string{hop.ClaimJobs.Path, hop.WaitForJob.Path} {
		for _, expires := range []bool{false, true} {
			d := newDoor(t)
			parked, gone := make(chan struct{}), make(chan struct{})
			d.core.Raw(path, func(_ http.ResponseWriter, r *http.Request) {
				close(parked)
				<-r.Context().Done()
				close(gone)
			})
			var id string
			key := d.keyWith(func(k *hop.KeyRecord) {
				id, k.Scopes = k.KeyID, []string{api.ScopeRead, api.ScopeWork}
				if expires {
					k.ExpiresInMS = new(int64(300)) // when it has, core knows it no longer
				}
			})
			answered := make(chan answer, 1)
			go func() { answered <- parkedRequests(d, key)[path]() }()
			<-parked
			d.auth.Forget("another")
			d.auth.Forget(id) // of a key that is good
			d.core.RevokeKey(id)
			if !expires {
				d.auth.Forget(id)
			}
			select {
			case got := <-answered:
				got.refused(t, 401, problem.Unauthenticated)
			case <-time.After(20 * time.Second): // less than it would wait
				t.Fatalf("%s, expires %v: it waits on", path, expires)
			}
			<-gone
		}
	}
}

// The hint that a tenant's limits have changed, which a deletion sends, ends what its keys have parked where
// they are no longer good.
func TestADeletionEndsWhatIsParked(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	parked := make(chan struct{})
	d.core.Raw(hop.ClaimJobs.Path, func(_ http.ResponseWriter, r *http.Request) {
		close(parked)
		<-r.Context().Done()
	})
	var id string
	key := d.keyWith(func(k *hop.KeyRecord) { id, k.Scopes = k.KeyID, []string{api.ScopeWork} })
	answered := make(chan answer, 1)
	go func() { answered <- parkedRequests(d, key)[hop.ClaimJobs.Path]() }()
	<-parked
	d.core.RevokeKey(id)
	d.auth.ForgetLimits(hop.LimitsChanged{Tenant: tenantID})
	select {
	case got := <-answered:
		got.refused(t, 401, problem.Unauthenticated)
	case <-time.After(20 * time.Second): // less than it would wait
		t.Fatal("it waits on")
	}
}

// Jobs that core leased at the moment of the revocation go back.
func TestRevocationGivesJobsBack(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	parked := make(chan struct{})
	d.core.Raw(hop.ClaimJobs.Path, func(w http.ResponseWriter, r *http.Request) {
		close(parked)
		<-r.Context().Done() // hung up, and the jobs are leased
		_, _ = w.Write([]byte(`{"results":[{"status":200,"value":{"jobs":[{"id":"` + jobID + `","lease_token":"7.x"}]}}]}`))
	})
	released := make(chan api.OutcomesRequest, 1)
	d.core.On(hop.ReportOutcomes.Path, func(item coretest.Item) coretest.Result {
		var request api.OutcomesRequest
		_ = json.Unmarshal(item.Request, &request)
		released <- request
		return coretest.Value(200, api.OutcomesResponse{Results: []api.OutcomeResult{{Status: 200}}})
	})
	var id string
	key := d.keyWith(func(k *hop.KeyRecord) { id, k.Scopes = k.KeyID, []string{api.ScopeWork} })
	go func() {
		<-parked
		d.core.RevokeKey(id)
		d.auth.Forget(id)
	}()
	parkedRequests(d, key)[hop.ClaimJobs.Path]().refused(t, 401, problem.Unauthenticated)
	if got := <-released; len(got.Outcomes) != 1 || got.Outcomes[0].JobID != jobID || got.Outcomes[0].Kind != api.KindRelease {
		t.Errorf("released %+v", got)
	}
}

// One tenant with far more waiting reads than there are places: another's claims and
// reads wait as if alone, and no answer of either is an error.
func TestOneTenantsWaitsAreNoOneElses(t *testing.T) {
	t.Parallel()
	const places = 20
	d := newDoorWith(t, cellclient.Limits{Parked: places})
	d.core.On(hop.GetJob.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, inState("queued")) })
	claim := make(chan struct{})
	var greedy, other, claims atomic.Int64
	d.core.Raw(hop.WaitForJob.Path, func(w http.ResponseWriter, r *http.Request) {
		var envelope hop.Envelope[json.RawMessage]
		_ = json.NewDecoder(r.Body).Decode(&envelope)
		waits := &greedy
		if envelope.Items[0].Principal.Tenant != tenantID {
			waits = &other
		}
		waits.Add(1)
		select {
		case <-r.Context().Done():
		case <-claim:
			text, _ := json.Marshal(hop.Results[api.Job]{Results: []hop.Result[api.Job]{{Status: 200, Value: new(inState("running"))}}})
			_, _ = w.Write(text)
		}
	})
	d.core.Raw(hop.ClaimJobs.Path, func(w http.ResponseWriter, r *http.Request) {
		claims.Add(1)
		select {
		case <-r.Context().Done():
		case <-claim:
			_, _ = w.Write([]byte(`{"results":[{"status":200,"value":{"jobs":[]}}]}`))
		}
	})
	first := d.key("read")
	second := d.keyWith(func(k *hop.KeyRecord) {
		k.Tenant, k.Scopes = "0190a000-0000-7000-8000-00000000000b", []string{api.ScopeRead, api.ScopeWork}
	})
	var group sync.WaitGroup
	for range 3 * places {
		group.Go(func() {
			if got := parkedRequests(d, first)[hop.WaitForJob.Path](); got.status != 200 {
				t.Errorf("a wait over the share: status %d: %s", got.status, got.body)
			}
		})
	}
	eventually(t, "all places are taken", func() bool { return greedy.Load() == places })
	for _, request := range parkedRequests(d, second) {
		for range places / 2 {
			group.Go(func() {
				if got := request(); got.status != 200 {
					t.Errorf("the other tenant: status %d: %s", got.status, got.body)
				}
			})
		}
	}
	eventually(t, "the other tenant waits", func() bool { return other.Load() == places/2 && claims.Load() == places/2 })
	close(claim)
	group.Wait()
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
