package pages_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A page token that was changed in any place is refused, and so is one of another list,
// tenant, user or filter.
func TestPageTokensAreBound(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	for range 3 {
		calltest.One[any](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(func(r *api.SubmitRequest) { r.User = new("bob") }))
	}
	bob := calltest.UserOf(f.Tenant, "bob")
	page := calltest.One[api.Page[api.JobSummary]](f, hop.ListJobs.Path, bob, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageSize: 1}})
	token := *page.NextPageToken
	ask1 := func(p hop.Principal, path string, request hop.Filtered[api.JobFilter]) int {
		return calltest.Ask[any](f, path, calltest.Item(p, request))[0].Status
	}
	if got := ask1(bob, hop.ListJobs.Path, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageSize: 1, PageToken: token}}); got != http.StatusOK {
		t.Fatalf("the token itself: %d", got)
	}
	for i := range token {
		flipped := []byte(token)
		flipped[i] = "AB"[strings.IndexByte("A", flipped[i])+1]
		if got := ask1(bob, hop.ListJobs.Path, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageSize: 1, PageToken: string(flipped)}}); got != http.StatusBadRequest {
			t.Errorf("changed in place %d: %d", i, got)
		}
	}
	for name, got := range map[string]int{
		"another filter": ask1(bob, hop.ListJobs.Path, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageToken: token}, Filter: api.JobFilter{Type: "test"}}),
		"another user":   ask1(calltest.UserOf(f.Tenant, "eve"), hop.ListJobs.Path, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageToken: token}}),
		"no user":        ask1(f.Tenant, hop.ListJobs.Path, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageToken: token}}),
		"another tenant": ask1(calltest.UserOf(f.NewTenant(), "bob"), hop.ListJobs.Path, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageToken: token}}),
		"another list":   ask1(bob, hop.ListDeadLetters.Path, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageToken: token}}),
		"a bare place":   ask1(bob, hop.ListJobs.Path, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageToken: page.Items[0].ID}}),
	} {
		if got != http.StatusBadRequest {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// A page of parents needs the caller's right each time: a worker that has lost the job reads no further.
func TestPagesOfParents(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	after := []api.Dependency{{JobID: f.Submit()}, {JobID: f.Submit()}, {JobID: f.Submit()}}
	child := calltest.Job(func(r *api.SubmitRequest) { r.After = after })
	calltest.One[any](f, hop.SubmitJobs.Path, f.Tenant, child)
	other := calltest.Job(func(r *api.SubmitRequest) { r.After = after[:2] })
	calltest.One[any](f, hop.SubmitJobs.Path, f.Tenant, other)
	for range after {
		lease := f.Claim()
		f.Outcome(f.Tenant, api.OutcomeRequest{JobID: lease.ID, Kind: api.KindComplete, LeaseToken: lease.LeaseToken, Result: []byte(`"` + lease.ID + `"`)})
	}
	if _, err := f.Store.Jobs.FollowUp(t.Context(), uuid.MustParse(f.Tenant.Tenant)); err != nil {
		t.Fatal(err)
	}
	reader := f.Tenant
	reader.Scopes = []string{api.ScopeRead}
	read := func(p hop.Principal, request hop.PageFor) hop.Result[api.Page[api.JobParent]] {
		return calltest.Ask[api.Page[api.JobParent]](f, hop.ListParents.Path, calltest.Item(p, request))[0]
	}
	request := hop.PageFor{For: child.IDs[0], PageRequest: hop.PageRequest{PageSize: 2}}
	first := read(reader, request)
	if first.Status != http.StatusOK || len(first.Value.Items) != 2 || first.Value.NextPageToken == nil || first.Value.Items[1].JobID != after[1].JobID {
		t.Fatalf("%+v %v", first.Value, first.Problem)
	}
	request.PageToken = *first.Value.NextPageToken
	second := read(reader, request)
	if second.Status != http.StatusOK || len(second.Value.Items) != 1 || second.Value.NextPageToken != nil || string(second.Value.Items[0].Result) != `"`+after[2].JobID+`"` {
		t.Fatalf("%+v %v", second.Value, second.Problem)
	}
	for name, wrong := range map[string]hop.PageFor{
		"another job":  {For: other.IDs[0], PageRequest: hop.PageRequest{PageToken: request.PageToken}},
		"a bare place": {For: child.IDs[0], PageRequest: hop.PageRequest{PageToken: after[1].JobID}},
		"nonsense":     {For: child.IDs[0], PageRequest: hop.PageRequest{PageToken: "nonsense"}},
	} {
		if got := read(reader, wrong); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, got.Status)
		}
	}
	if got := read(f.Tenant, request); got.Status != http.StatusNotFound {
		t.Errorf("a worker without the lease: %d", got.Status)
	}
	held := f.Claim()
	request.For = held.ID
	request.PageToken = ""
	request.PageSize = 1
	holder := read(f.Tenant, request)
	if holder.Status != http.StatusOK || holder.Value.NextPageToken == nil {
		t.Fatalf("%+v %v", holder.Value, holder.Problem)
	}
	request.PageToken = *holder.Value.NextPageToken
	if got := read(f.Tenant, request); got.Status != http.StatusOK {
		t.Errorf("the holder's second page: %d", got.Status)
	}
	f.Outcome(f.Tenant, api.OutcomeRequest{JobID: held.ID, Kind: api.KindRelease, LeaseToken: held.LeaseToken})
	if got := read(f.Tenant, request); got.Status != http.StatusNotFound {
		t.Errorf("the second page after the lease: %d", got.Status)
	}
}

// whole reads a list to its end, in the largest pages there are, and checks the size of each.
func whole[T any](f *calltest.Core, ask func(hop.PageRequest) api.Page[T]) (all []T, pages int) {
	f.Helper()
	page := hop.PageRequest{PageSize: api.MaxPageSize}
	for {
		got := ask(page)
		all, pages = append(all, got.Items...), pages+1
		text, err := json.Marshal(got)
		if err != nil {
			f.Fatal(err)
		}
		if most := api.MaxPageBytes + api.MaxPayload + 64<<10; len(text) > most {
			f.Errorf("page %d has %d items in %d bytes", pages, len(got.Items), len(text))
		}
		if got.NextPageToken == nil {
			return all, pages
		}
		page.PageToken = *got.NextPageToken
	}
}

// A page of large items ends early, and the pages together have all.
func TestPagesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	const schedules, jobs, attempts = 9, 60, 100
	payload := json.RawMessage(`"` + strings.Repeat("x", api.MaxPayload-2) + `"`)
	for i := range schedules {
		calltest.One[api.Schedule](f, hop.PutSchedule.Path, f.Tenant, hop.Put[api.ScheduleRequest]{
			Name: fmt.Sprint("s", i), Value: api.ScheduleRequest{EveryMS: new(int64(3_600_000)), Job: api.ScheduleJob{Type: "test", Payload: payload}},
		})
	}
	listed, pages := whole(f, func(page hop.PageRequest) api.Page[api.Schedule] {
		return calltest.One[api.Page[api.Schedule]](f, hop.ListSchedules.Path, f.Tenant, page)
	})
	if len(listed) != schedules || pages != 3 || listed[0].Name != "s0" || listed[schedules-1].Name != "s8" {
		t.Errorf("%d schedules on %d pages", len(listed), pages)
	}

	large := map[string]string{}
	for i := range api.MaxMetadata {
		large[fmt.Sprint("k", i)] = strings.Repeat("x", 900)
	}
	var ids []string
	for range jobs {
		request := calltest.Job(func(r *api.SubmitRequest) { r.Metadata = large })
		calltest.One[any](f, hop.SubmitJobs.Path, f.Tenant, request)
		ids = append(ids, request.IDs[0])
	}
	found, pages := whole(f, func(page hop.PageRequest) api.Page[api.JobSummary] {
		return calltest.One[api.Page[api.JobSummary]](f, hop.ListJobs.Path, f.Tenant, hop.Filtered[api.JobFilter]{PageRequest: page})
	})
	if len(found) != jobs || pages != 2 || found[0].ID != ids[jobs-1] || found[jobs-1].ID != ids[0] {
		t.Errorf("%d jobs on %d pages", len(found), pages)
	}

	f.Exec(`INSERT INTO attempts (job_id, tenant_id, epoch, attempt, kind, worker_id, started_at, ended_at, error_type, error_message, error_stack)
		SELECT $1, $2, n, n, 'failed', 'w', now(), now(), 'T', 'm', repeat('s', $3) FROM generate_series(1, $4) AS n`,
		ids[0], f.Tenant.Tenant, api.MaxErrorStack, attempts)
	tried, pages := whole(f, func(page hop.PageRequest) api.Page[api.Attempt] {
		return calltest.One[api.Page[api.Attempt]](f, hop.ListAttempts.Path, f.Tenant, hop.PageFor{For: ids[0], PageRequest: page})
	})
	if len(tried) != attempts || pages != 2 || tried[attempts-1].Epoch != attempts {
		t.Errorf("%d attempts on %d pages", len(tried), pages)
	}
}
