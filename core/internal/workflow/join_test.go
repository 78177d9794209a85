package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
)

// join submits n jobs, and adds one after all of them; the n complete with results. It gives the one.
func (f *fixture) join(n int, result func(i int) json.RawMessage) uuid.UUID {
	f.Helper()
	made := newWorkflow()
	for i := range n {
		made.Refs = append(made.Refs, fmt.Sprint("r", i))
	}
	first := f.submission(made, none)
	f.mustSubmit(first)
	last := f.submission(&workflow.New{ID: made.ID, Add: true, Refs: []string{"join"}}, func(int) []string { return made.Refs })
	f.mustSubmit(last)
	places := map[uuid.UUID]int{}
	for i := range first.Jobs {
		places[first.Jobs[i].ID] = i
	}
	var endings []queue.Ending
	for _, one := range f.Claim(n, time.Minute, f.Lane) {
		endings = append(endings, queue.Ending{Lease: one.Lease(), Kind: api.KindComplete, Result: result(places[one.ID])})
	}
	if len(endings) != n {
		f.Fatalf("%d jobs are queued", len(endings))
	}
	f.Store.End(f.Context(), endings[1:])
	f.followUp()
	if got := f.Get(last.Jobs[0].ID); got.State != api.StateBlocked || *got.BlockedBy != 1 || len(got.After) != n {
		f.Fatalf("before the last one: %s, blocked by %d of %d", got.State, *got.BlockedBy, len(got.After))
	}
	f.MustEnd(endings[0])
	f.followUp()
	return last.Jobs[0].ID
}

// pages reads all pages of a job's parents, and gives their sizes.
func pages(t *testing.T, size int, read func(queue.ParentsPage) (api.Page[api.JobParent], error)) (all []api.JobParent, sizes []int) {
	t.Helper()
	at := queue.ParentsPage{Size: size}
	for {
		page, err := read(at)
		if err != nil {
			t.Fatal(err)
		}
		all, sizes = append(all, page.Items...), append(sizes, len(page.Items))
		if page.NextPageToken == nil {
			return all, sizes
		}
		if len(page.Items) == 0 || len(sizes) > 1000 {
			t.Fatalf("no end after %d pages, the last of %d", len(sizes), len(page.Items))
		}
		at.After = uuid.MustParse(*page.NextPageToken)
	}
}

// A job after 1,000 others runs once the last of them has completed, and its holder reads all of their
// results, each once.
func TestAJoinOfAThousand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.join(1000, func(i int) json.RawMessage { return json.RawMessage(fmt.Sprint(i)) })
	if _, err := f.Store.ParentsForHolder(t.Context(), f.Tenant, id, queue.ParentsPage{Size: 1}); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("before the claim: %v", err)
	}
	if held := f.ClaimOne(); held.ID != id {
		t.Fatal(held)
	}
	if _, err := f.Store.ParentsForHolder(t.Context(), f.NewTenant(), id, queue.ParentsPage{Size: 1}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another tenant: %v", err)
	}
	all, sizes := pages(t, 200, func(at queue.ParentsPage) (api.Page[api.JobParent], error) {
		return f.Store.ParentsForHolder(t.Context(), f.Tenant, id, at)
	})
	if want := []int{200, 200, 200, 200, 200}; fmt.Sprint(sizes) != fmt.Sprint(want) {
		t.Errorf("pages of %d", sizes)
	}
	for i, one := range all {
		if *one.Ref != fmt.Sprint("r", i) || one.State != api.StateCompleted || string(one.Result) != fmt.Sprint(i) {
			t.Fatalf("in place %d: %s %s %s", i, *one.Ref, one.State, one.Result)
		}
	}
}

// A page ends where its results reach the bound, and each result is on one page.
func TestAPageOfParentsIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const n = 40
	id := f.join(n, func(i int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`"%-*d"`, api.MaxResult-2, i))
	})
	all, sizes := pages(t, 200, func(at queue.ParentsPage) (api.Page[api.JobParent], error) {
		return f.Store.Parents(t.Context(), f.Tenant, "", id, at)
	})
	if want := []int{api.MaxParentBytes / api.MaxResult, n - api.MaxParentBytes/api.MaxResult}; fmt.Sprint(sizes) != fmt.Sprint(want) {
		t.Errorf("pages of %d, want %d", sizes, want)
	}
	for i, one := range all {
		if *one.Ref != fmt.Sprint("r", i) || len(one.Result) != api.MaxResult || !strings.HasPrefix(string(one.Result), fmt.Sprintf(`"%d `, i)) {
			t.Fatalf("in place %d: %s, %d bytes", i, *one.Ref, len(one.Result))
		}
	}
}

// A key that is bound to a user sees that user's parents, on full pages.
func TestAPageOfAUsersParents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parents := f.Jobs(9)
	for i := range parents {
		parents[i].User = new([]string{"alice", "bob", "carol"}[i%3])
	}
	f.Submit(parents...)
	child := f.Job(func(j *submit.NewJob) { j.User = new("bob") })
	for i := range parents {
		child.After = append(child.After, submit.After{Parent: parents[i].ID, OnFailed: job.CancelChild})
	}
	f.Submit(child)
	all, sizes := pages(t, 2, func(at queue.ParentsPage) (api.Page[api.JobParent], error) {
		return f.Store.Parents(t.Context(), f.Tenant, "bob", child.ID, at)
	})
	if len(all) != 3 || fmt.Sprint(sizes) != "[2 1]" {
		t.Fatalf("%d parents on pages of %d", len(all), sizes)
	}
	for i, one := range all {
		if one.JobID != parents[3*i+1].ID.String() || one.State != api.StateQueued || one.Result != nil {
			t.Errorf("%+v", one)
		}
	}
	if _, err := f.Store.Parents(t.Context(), f.Tenant, "alice", child.ID, queue.ParentsPage{Size: 2}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("alice: %v", err)
	}
}
