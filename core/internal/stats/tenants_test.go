package stats_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// started appends n attempts that started at a time, each of which ran for a second.
func (f *fixture) started(owner tenant.ID, at time.Time, n int64) {
	f.Helper()
	r := stats.NewJobRecorder(nothingWaits)
	r.Record(stats.Event{
		QueueKey: tenant.QueueKey{Tenant: owner, Name: "mail"}, At: at,
		Counts: stats.Counts{Started: n, Completed: 1, Running: time.Duration(n) * time.Second},
	})
	pending, _ := r.Take()
	if err := f.Store.Stats.AppendStats(f.Context(), pending); err != nil {
		f.Fatal(err)
	}
}

func TestTenantStats(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	read := func(request hop.StatsRequest) api.TenantStats {
		t.Helper()
		made, err := f.Store.Stats.TenantStats(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	if made := read(hop.StatsRequest{}); len(made.Tenants) != 0 || made.Others.Tenants != 0 || len(made.Others.Items) < 60 {
		t.Errorf("nothing has happened: %+v", made)
	}
	tenants := make([]tenant.ID, 11)
	for i := range tenants {
		tenants[i] = f.NewTenant()
		f.Exec(`UPDATE tenants SET name = $2, weight = $3 WHERE id = $1`, tenants[i], fmt.Sprint("tenant ", i), i+1)
		f.started(tenants[i], at.Add(time.Duration(i%2)*time.Minute), int64(10*(i+1)))
		f.started(tenants[i], at.Add(-time.Second), 1000) // before the range
	}
	f.started(tenants[10], at.Add(2*time.Minute), 5)
	f.started(f.NewTenant(), at.Add(2*time.Minute), 0) // ended, and nothing started

	made := read(hop.StatsRequest{From: new(api.At(at)), To: new(api.At(at.Add(3 * time.Minute)))})
	if made.Step != api.StepMinute || !made.From.Equal(at) || len(made.Tenants) != api.MaxStatsTenants {
		t.Fatalf("%+v", made)
	}
	first := made.Tenants[0]
	if first.TenantID != tenants[10].String() || first.Name != "tenant 10" || first.Weight != 11 || first.Started != 115 || first.Completed != 2 || first.RunningMS != 115_000 {
		t.Errorf("the first: %+v", first)
	}
	items := []api.TenantStatsItem{{At: api.At(at), Started: 110, RunningMS: 110_000}, {At: api.At(at.Add(time.Minute))}, {At: api.At(at.Add(2 * time.Minute)), Started: 5, RunningMS: 5000}}
	if !reflect.DeepEqual(first.Items, items) {
		t.Errorf("its steps: %+v", first.Items)
	}
	if last := made.Tenants[7]; last.TenantID != tenants[3].String() {
		t.Errorf("the last: %+v", last)
	}
	// tenants 0, 1 and 2, and the completion of one without a start
	if o := made.Others; o.Tenants != 3 || o.Weight != 6 || o.Started != 60 || o.Completed != 4 || o.Items[0].Started != 40 || o.Items[1].Started != 20 || o.Items[2].Started != 0 {
		t.Errorf("the others: %+v", o)
	}
	var refused *problem.Problem
	_, err := f.Store.Stats.TenantStats(t.Context(), hop.StatsRequest{From: new(api.At(at)), To: new(api.At(at.Add(24*time.Hour + 1)))})
	if !errors.As(err, &refused) || refused.Status != 400 || refused.Errors[0].Field != "from" {
		t.Errorf("more than a day: %v", err)
	}
	if made = read(hop.StatsRequest{From: new(api.At(at)), To: new(api.At(at.Add(24 * time.Hour))), Step: api.StepHour}); len(made.Others.Items) != 24 {
		t.Errorf("a day: %+v", made)
	}
}
