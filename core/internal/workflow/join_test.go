package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
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
	var endings []jobs.Ending
	for _, one := range f.Claim(n, time.Minute, f.Lane) {
		endings = append(endings, jobs.Ending{Lease: one.Lease(), Kind: api.KindComplete, Result: result(places[one.ID])})
	}
	if len(endings) != n {
		f.Fatalf("%d jobs are queued", len(endings))
	}
	f.Store.Jobs.End(f.Context(), endings[1:])
	f.followUp()
	if got := f.Get(last.Jobs[0].ID); got.State != api.StateBlocked || *got.BlockedBy != 1 || len(got.After) != n {
		f.Fatalf("before the last one: %s, blocked by %d of %d", got.State, *got.BlockedBy, len(got.After))
	}
	f.MustEnd(endings[0])
	f.followUp()
	return last.Jobs[0].ID
}

// pages reads all pages of a job's parents, and gives their sizes.
func pages(t *testing.T, size int, row func(read.ParentsPage) (api.Page[api.JobParent], error)) (all []api.JobParent, sizes []int) {
	t.Helper()
	at := read.ParentsPage{Size: size}
	for {
		page, err := row(at)
		if err != nil {
			t.Fatal(err)
		}
		all, sizes = append(all, page.Items...), append(sizes, len(page.Items))
		if page.NextPageToken == nil {
			return all, sizes
		}
		if len(page.Items) == 0 || len(sizes) > api.MaxWorkflowAfter {
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
	id := f.join(api.MaxWorkflowAfter, func(i int) json.RawMessage { return json.RawMessage(fmt.Sprint(i)) })
	if _, err := f.Store.JobReads.ParentsForHolder(t.Context(), f.Tenant, id, read.ParentsPage{Size: 1}); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("before the claim: %v", err)
	}
	if held := f.ClaimOne(); held.ID != id {
		t.Fatal(held)
	}
	if _, err := f.Store.JobReads.ParentsForHolder(t.Context(), f.NewTenant(), id, read.ParentsPage{Size: 1}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another tenant: %v", err)
	}
	all, sizes := pages(t, 200, func(at read.ParentsPage) (api.Page[api.JobParent], error) {
		return f.Store.JobReads.ParentsForHolder(t.Context(), f.Tenant, id, at)
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
	all, sizes := pages(t, 200, func(at read.ParentsPage) (api.Page[api.JobParent], error) {
		return f.Store.JobReads.Parents(t.Context(), f.Tenant, "", id, at)
	})
	if want := slices.Repeat([]int{api.MaxPageBytes / api.MaxResult}, n*api.MaxResult/api.MaxPageBytes); fmt.Sprint(sizes) != fmt.Sprint(want) {
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
	all, sizes := pages(t, 2, func(at read.ParentsPage) (api.Page[api.JobParent], error) {
		return f.Store.JobReads.Parents(t.Context(), f.Tenant, "bob", child.ID, at)
	})
	if len(all) != 3 || fmt.Sprint(sizes) != "[2 1]" {
		t.Fatalf("%d parents on pages of %d", len(all), sizes)
	}
	for i, one := range all {
		if one.JobID != parents[3*i+1].ID.String() || one.State != api.StateQueued || one.Result != nil {
			t.Errorf("%+v", one)
		}
	}
	if _, err := f.Store.JobReads.Parents(t.Context(), f.Tenant, "alice", child.ID, read.ParentsPage{Size: 2}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("alice: %v", err)
	}
}

// Jobs with many parents fill a claim, and a page of a list, before there are many of them.
func TestManyJobsOfManyParents(t *testing.T) {
	celltest.Large(t, "TestAPageOfParentsIsBoundedInBytes")
	t.Parallel()
	f := newFixture(t)
	parents := f.Jobs(api.MaxWorkflowAfter)
	f.Submit(parents...)
	var endings []jobs.Ending
	for _, one := range f.Claim(len(parents), time.Minute, f.Lane) {
		endings = append(endings, jobs.Ending{Lease: one.Lease(), Kind: api.KindComplete})
	}
	f.Store.Jobs.End(f.Context(), endings)
	const n = 45
	children := f.Jobs(n, func(j *submit.NewJob) { j.Type = "child" })
	for i := range children {
		for j := range parents {
			children[i].After = append(children[i].After, submit.After{Parent: parents[j].ID, OnFailed: job.CancelChild})
		}
	}
	f.Submit(children...)

	seen, token := 0, ""
	var sizes []int
	for len(sizes) == 0 || token != "" {
		page, err := f.Store.JobReads.List(t.Context(), f.Tenant, api.JobFilter{Type: "child"}, 50, token)
		if err != nil || len(sizes) > n {
			t.Fatalf("pages of %d, %v", sizes, err)
		}
		for _, one := range page.Items {
			if seen++; one.ID != children[n-seen].ID.String() || len(one.After) != len(parents) {
				t.Fatalf("in place %d: %s after %d", seen, one.ID, len(one.After))
			}
		}
		sizes, token = append(sizes, len(page.Items)), ""
		if page.NextPageToken != nil {
			token = *page.NextPageToken
		}
	}
	if seen != n || !strings.HasPrefix(fmt.Sprint(sizes), "[20 20 5") {
		t.Errorf("%d jobs on pages of %d", seen, sizes)
	}

	first := f.Claim(n, time.Minute, f.Lane)
	if most := api.MaxClaimBytes / (api.MaxWorkflowAfter * 220); len(first) == 0 || len(first) > most || first[0].Size() < api.MaxWorkflowAfter*220 {
		t.Errorf("%d jobs in a claim, the first of %d bytes", len(first), first[0].Size())
	}
	lease := first[0].Lease()
	f.MustEnd(jobs.Ending{Lease: lease, Kind: api.KindFail, Permanent: true, Error: &api.JobError{Type: "e"}})
	if again := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", []uuid.UUID{lease.Job}, nil); again[0].Err != nil {
		t.Fatal(again[0].Err)
	}
	rest := f.Claim(n, time.Minute, f.Lane)
	if want := n - len(first) + 1; len(rest) != want || rest[want-1].ID != lease.Job || rest[want-1].Size() != first[0].Size() {
		t.Errorf("%d jobs in the second claim, want %d", len(rest), want)
	}
}
