package read_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestListPagesAndFilters(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	bob := "bob"
	var ids []uuid.UUID
	for i := range 30 {
		ids = append(ids, f.Submit(f.Job(func(j *submit.NewJob) {
			j.Type = []string{"a", "b"}[i%2]
			j.Metadata = []byte(fmt.Sprintf(`{"n":"%d","all":"x"}`, i))
			if i%3 == 0 {
				j.User, j.Tags = &bob, []string{"red"}
			}
			if i%10 == 0 { // three: one of them has ended
				j.DedupeKey = new(fmt.Sprint("key ", i))
			}
		}))...)
	}
	// Some are finished, some dead, some running: a list goes over all of them.
	for i, claimed := range f.Claim(12, time.Minute) {
		switch i % 3 {
		case 0:
			f.MustEnd(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindComplete})
		case 1:
			f.MustEnd(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindFail, Permanent: true})
		}
	}
	stranger := f.NewTenant()
	f.TrySubmit(submit.Submission{Tenant: stranger, Jobs: []submit.NewJob{f.Job()}})

	all := func(filter api.JobFilter, size int) (found []string) {
		t.Helper()
		for token := ""; ; {
			page, err := f.Store.JobReads.List(t.Context(), f.Tenant, filter, size, token)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Items {
				found = append(found, item.ID)
			}
			if page.NextPageToken == nil {
				return found
			}
			token = *page.NextPageToken
		}
	}
	var newest []string
	for _, id := range slices.Backward(ids) {
		newest = append(newest, id.String())
	}
	for _, size := range []int{1, 7, 29, 30, 31, 200} {
		if got := all(api.JobFilter{}, size); !slices.Equal(got, newest) {
			t.Fatalf("pages of %d: %d jobs, want all 30, newest first", size, len(got))
		}
	}
	past, future := api.At(time.Now().Add(-time.Hour)), api.At(time.Now().Add(time.Hour))
	for name, test := range map[string]struct {
		filter api.JobFilter
		want   int
	}{
		"type": {api.JobFilter{Type: "a"}, 15}, "user": {api.JobFilter{User: "bob"}, 10}, "tag": {api.JobFilter{Tag: "red"}, 10},
		"metadata": {api.JobFilter{Metadata: map[string]string{"n": "7", "all": "x"}}, 1}, "queue": {api.JobFilter{Queue: "other"}, 0},
		"dedupe key of a live one": {api.JobFilter{DedupeKey: "key 20"}, 1}, "of an ended one": {api.JobFilter{DedupeKey: "key 0"}, 1}, "of none": {api.JobFilter{DedupeKey: "key 1"}, 0},
		"completed": {api.JobFilter{States: []string{"completed"}}, 4}, "ends": {api.JobFilter{States: []string{"completed", "dead_letter"}}, 8},
		"running": {api.JobFilter{States: []string{"running"}}, 4}, "queued a": {api.JobFilter{States: []string{"queued"}, Type: "a"}, 9},
		"after": {api.JobFilter{CreatedAfter: &past}, 30}, "not yet": {api.JobFilter{CreatedAfter: &future}, 0}, "before": {api.JobFilter{CreatedBefore: &past}, 0},
	} {
		if got := all(test.filter, 4); len(got) != test.want {
			t.Errorf("%s: %d jobs, want %d", name, len(got), test.want)
		}
	}
	for _, bad := range []string{"x", "AAAA"} {
		if _, err := f.Store.JobReads.List(t.Context(), f.Tenant, api.JobFilter{}, 5, bad); !errors.Is(err, store.ErrPageToken) {
			t.Errorf("the token %q: %v", bad, err)
		}
	}
}
