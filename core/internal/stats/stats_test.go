package stats_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestMain(m *testing.M) { celltest.Main(m) }

type fixture struct{ *celltest.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{celltest.NewFixture(t)}
}

func nothingWaits(tenant.QueueKey) bool { return false }

// append appends n submits of a queue at a time.
func (f *fixture) append(name string, at time.Time, n int64) {
	f.Helper()
	r := stats.NewJobRecorder(nothingWaits)
	r.Record(stats.Event{QueueKey: tenant.QueueKey{Tenant: f.Tenant, Name: name}, At: at, Counts: stats.Counts{Submitted: n}})
	pending, _ := r.Take()
	if err := f.Store.Stats.AppendStats(f.Context(), pending); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) read(request hop.StatsRequest) api.Stats {
	f.Helper()
	made, err := f.Store.Stats.JobStats(f.Context(), f.Tenant, request)
	if err != nil {
		f.Fatal(err)
	}
	return made
}

func submitted(made api.Stats) (n int64) {
	for _, item := range made.Items {
		n += item.Submitted
	}
	return n
}

func event(owner tenant.ID, name string, minute int) stats.Event {
	return stats.Event{
		QueueKey: tenant.QueueKey{Tenant: owner, Name: name}, At: time.Date(2026, 11, 24, 10, minute, 30, 0, time.UTC),
		Counts: stats.Counts{Submitted: 1, Running: time.Second},
	}
}

// A tenant's row is the sum of its queues' rows, also after counts were put back; queues beyond the bound count for
// their tenant, and nothing is counted twice.
func TestRecorder(t *testing.T) {
	t.Parallel()
	owner := uuid.New()
	r := stats.NewJobRecorder(nothingWaits)
	if pending, _ := r.Take(); len(pending) != 0 {
		t.Errorf("%v", pending)
	}
	r.Record(event(owner, "a", 1), event(owner, "a", 1), event(owner, "b", 1), event(owner, "a", 2))
	pending, _ := r.Take()
	r.Record(event(owner, "a", 1))
	r.Restore(pending)
	pending, lost := r.Take()
	all, minutes := stats.Total(pending, "")
	a, _ := stats.Total(pending, "a")
	if all.Submitted != 5 || all.Running != 5*time.Second || minutes != 2 || a.Submitted != 4 || lost != 0 {
		t.Errorf("all %+v in %d minutes, a %+v, lost %d", all, minutes, a, lost)
	}
	const more = 100
	for i := range stats.MaxKeys + more {
		r.Record(event(owner, fmt.Sprint("q", i), 1))
	}
	pending, lost = r.Take()
	if all, _ = stats.Total(pending, ""); all.Submitted != stats.MaxKeys+more || lost != 0 || len(pending) > stats.MaxKeys+1 {
		t.Errorf("%d of %d jobs are counted for the tenant, lost %d, keys %d", all.Submitted, stats.MaxKeys+more, lost, len(pending))
	}
	for range 2*stats.MaxKeys + more {
		r.Record(event(uuid.New(), "q", 1))
	}
	if pending, lost = r.Take(); stats.Events(pending)+lost != 2*stats.MaxKeys+more || lost != more {
		t.Errorf("%d are counted, %d lost", stats.Events(pending), lost)
	}
}

func TestStatsAreReadBySteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	f.append("mail", at.Add(10*time.Second), 1)
	f.append("mail", at.Add(50*time.Second), 2)
	f.append("other", at.Add(61*time.Second), 4)
	f.append("mail", at.Add(2*time.Hour), 8)
	other := f.Tenant
	f.Tenant = f.NewTenant()
	f.append("mail", at, 1000)
	f.Tenant = other

	made := f.read(hop.StatsRequest{From: new(api.At(at.Add(40 * time.Second))), To: new(api.At(at.Add(3 * time.Minute)))})
	if len(made.Items) != 3 || made.Items[0].Submitted != 3 || made.Items[1].Submitted != 4 || made.Items[2] != (api.StatsItem{At: api.At(at.Add(2 * time.Minute))}) {
		t.Errorf("%+v", made.Items)
	}
	if made.Step != api.StepMinute || made.Queue != nil || !made.From.Equal(at) || !made.Items[1].At.Equal(at.Add(time.Minute)) {
		t.Errorf("%+v", made)
	}
	made = f.read(hop.StatsRequest{Queue: "mail", From: new(api.At(at)), To: new(api.At(at.Add(121 * time.Minute))), Step: api.StepHour})
	if len(made.Items) != 3 || made.Items[0].Submitted != 3 || made.Items[2].Submitted != 8 || *made.Queue != "mail" {
		t.Errorf("%+v", made)
	}
	made = f.read(hop.StatsRequest{From: new(api.At(at)), To: new(api.At(at.Add(25 * time.Hour)))})
	if made.Step != api.StepHour || len(made.Items) != 25 || submitted(made) != 15 {
		t.Errorf("%+v", made)
	}
	if made = f.read(hop.StatsRequest{From: new(api.At(at)), To: new(api.At(at.Add(30 * time.Hour))), Step: api.StepDay}); len(made.Items) != 2 || made.Items[0].Submitted != 15 {
		t.Errorf("%+v", made)
	}
	if made = f.read(hop.StatsRequest{}); len(made.Items) != 61 && len(made.Items) != 60 || time.Since(made.To.Time).Abs() > time.Minute {
		t.Errorf("%d items to %v", len(made.Items), made.To)
	}
	for _, wrong := range []struct {
		request hop.StatsRequest
		field   string
		says    string
	}{
		{hop.StatsRequest{From: new(api.At(at)), To: new(api.At(at))}, "from", "before to"},
		{hop.StatsRequest{From: new(api.At(time.Now().Add(time.Hour)))}, "from", "before to"},
		{hop.StatsRequest{From: new(api.At(at)), To: new(api.At(at.Add(48*time.Hour + 1))), Step: api.StepMinute}, "step", "step=hour"},
		{hop.StatsRequest{From: new(api.At(at)), To: new(api.At(at.AddDate(1, 0, 0))), Step: api.StepMinute}, "step", "step=day"},
		{hop.StatsRequest{From: new(api.At(at)), To: new(api.At(at.AddDate(1, 0, 0)))}, "step", "step=day"},
		{hop.StatsRequest{From: new(api.At(at.AddDate(-40, 0, 0))), To: new(api.At(at.AddDate(400, 0, 0))), Step: api.StepDay}, "from", "days"},
	} {
		_, err := f.Store.Stats.JobStats(t.Context(), f.Tenant, wrong.request)
		refused, ok := errors.AsType[*problem.Problem](err)
		if !ok || refused.Code != problem.InvalidRequest || refused.Errors[0].Field != wrong.field || !strings.Contains(refused.Errors[0].Message, wrong.says) {
			t.Errorf("%+v: %v %+v, want %s %s", wrong.request, err, refused, wrong.field, wrong.says)
		}
	}
	if exact := f.read(hop.StatsRequest{From: new(api.At(at)), To: new(api.At(at.Add(48 * time.Hour))), Step: api.StepMinute}); len(exact.Items) != api.MaxStatsItems {
		t.Errorf("%d items", len(exact.Items))
	}
}

// Rolled up by several cores at once, while others append and read: no read ever sees more or less than was appended.
func TestARollUpKeepsTheSums(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now().UTC().Truncate(time.Hour)
	const queues, parts = 20, 6
	for _, back := range []time.Duration{time.Hour, 49 * time.Hour, 50 * time.Hour} {
		for part := range parts {
			for q := range queues {
				f.append(fmt.Sprint("q", q), now.Add(-back+time.Duration(part%3)*time.Minute), 1)
			}
		}
	}
	request := hop.StatsRequest{From: new(api.At(now.Add(-51 * time.Hour))), To: new(api.At(now)), Step: api.StepHour}
	before, beforeOne := f.read(request), f.read(hop.StatsRequest{Queue: "q7", From: request.From, To: request.To, Step: request.Step})
	if submitted(before) != 3*parts*queues || submitted(beforeOne) != 3*parts {
		t.Fatalf("%d and %d", submitted(before), submitted(beforeOne))
	}
	var group sync.WaitGroup
	over := make(chan struct{})
	group.Go(func() {
		for {
			if made, err := f.Store.Stats.JobStats(t.Context(), f.Tenant, request); err != nil || submitted(made) != 3*parts*queues {
				t.Errorf("while it rolls up: %d, %v", submitted(made), err)
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	var cores sync.WaitGroup
	for range 2 {
		cores.Go(func() {
			for _, rollUp := range []func(since time.Time) (stats.RolledUp, error){
				func(since time.Time) (stats.RolledUp, error) {
					return f.Store.Stats.RollUpMinutes(t.Context(), since, 25)
				},
				func(since time.Time) (stats.RolledUp, error) {
					return f.Store.Stats.RollUpHours(t.Context(), since, 25)
				},
			} {
				var since time.Time
				for {
					done, err := rollUp(since)
					if err != nil {
						t.Error(err)
						return
					}
					if done.Rows == 0 {
						break
					}
					since = *done.Last
				}
			}
		})
	}
	cores.Wait()
	close(over)
	group.Wait()
	// what one core skipped because the other had locked it
	for _, rollUp := range []func() (stats.RolledUp, error){
		func() (stats.RolledUp, error) { return f.Store.Stats.RollUpMinutes(t.Context(), time.Time{}, 100_000) },
		func() (stats.RolledUp, error) { return f.Store.Stats.RollUpHours(t.Context(), time.Time{}, 100_000) },
	} {
		if _, err := rollUp(); err != nil {
			t.Fatal(err)
		}
	}
	for _, pair := range [][2]api.Stats{{before, f.read(request)}, {beforeOne, f.read(hop.StatsRequest{Queue: "q7", From: request.From, To: request.To, Step: request.Step})}} {
		for i := range pair[0].Items {
			if pair[0].Items[i] != pair[1].Items[i] {
				t.Errorf("%+v became %+v", pair[0].Items[i], pair[1].Items[i])
			}
		}
	}
	if n := f.Count("job_stats WHERE grain = 0"); n != 0 {
		t.Errorf("%d parts are left", n)
	}
	if n := f.Count(`job_stats WHERE grain = 1 AND at < now() - interval '48 hours'`); n != 0 {
		t.Errorf("%d old minutes are left", n)
	}
}

// limits appends uses of a limit, each in a recorder of its own, as cores do.
func (f *fixture) limits(limit, name string, at time.Time, counts ...stats.LimitCounts) {
	f.Helper()
	for _, one := range counts {
		r := stats.NewLimitRecorder()
		r.Record(stats.LimitUse{Tenant: f.Tenant, Limit: limit, Name: name, At: at, LimitCounts: one})
		pending, _ := r.Take()
		if err := f.Store.Stats.AppendLimitStats(f.Context(), pending); err != nil {
			f.Fatal(err)
		}
	}
}

// A step has the largest use and all refusals, and rolled up it still does: a sum of uses would be of nothing.
func TestLimitsAreReadBySteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Now().UTC().Truncate(time.Hour).Add(-50 * time.Hour)
	f.limits("tenant-active", "", at, stats.LimitCounts{Used: 7, Allowed: 10}, stats.LimitCounts{Used: 9, Allowed: 10, Refused: 2}, stats.LimitCounts{Used: 3, Allowed: 8})
	f.limits("tenant-active", "", at.Add(2*time.Minute), stats.LimitCounts{Used: 4, Allowed: 8, Refused: 1})
	f.limits("user-active", "", at, stats.LimitCounts{Used: 2, Allowed: 2, Refused: 5})
	f.limits("user-active", "mail", at, stats.LimitCounts{Used: 2, Allowed: 2, Refused: 5}) // a user with the name of a queue
	f.limits("queue-active", "mail", at, stats.LimitCounts{Used: 1, Allowed: 6})
	other := f.Tenant
	f.Tenant = f.NewTenant()
	f.limits("tenant-active", "", at, stats.LimitCounts{Used: 1000, Allowed: 1000, Refused: 1000})
	f.Tenant = other
	read := func(request hop.StatsRequest) api.LimitStats {
		t.Helper()
		request.From, request.To = new(api.At(at)), new(api.At(at.Add(time.Hour)))
		made, err := f.Store.Stats.LimitStats(t.Context(), f.Tenant, request)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	minutes := read(hop.StatsRequest{})
	if len(minutes.Limits) != 2 || minutes.Limits[0].Name != "tenant-active" || len(minutes.Limits[0].Items) != 2 || minutes.Step != api.StepMinute {
		t.Fatalf("%+v", minutes)
	}
	if one := minutes.Limits[0].Items[0]; !one.At.Equal(at) || one.Used != 9 || one.Limit != 10 || one.Refused != 2 {
		t.Errorf("%+v", one)
	}
	if r := minutes.Refused; len(r) != 2 || *r[0].Whose != "mail" || r[0].Name != "user-active" || r[0].Refused != 5 || r[1].Whose != nil || r[1].Refused != 3 || !r[1].LastAt.Equal(at.Add(2*time.Minute)) {
		t.Errorf("%+v", r)
	}
	queue := read(hop.StatsRequest{Queue: "mail"})
	if len(queue.Limits) != 1 || queue.Limits[0].Name != "queue-active" || *queue.Queue != "mail" || queue.Limits[0].Items[0].Limit != 6 {
		t.Errorf("%+v", queue)
	}
	for _, rollUp := range []func() (stats.RolledUp, error){
		func() (stats.RolledUp, error) {
			return f.Store.Stats.RollUpLimitMinutes(t.Context(), time.Time{}, 1000)
		},
		func() (stats.RolledUp, error) { return f.Store.Stats.RollUpLimitHours(t.Context(), time.Time{}, 1000) },
	} {
		if done, err := rollUp(); err != nil || done.Rows == 0 {
			t.Fatal(done, err)
		}
	}
	if f.Count("limit_stats") != 5 || f.Count("limit_stats WHERE grain = 2") != 5 {
		t.Errorf("%d rows, %d of them hours", f.Count("limit_stats"), f.Count("limit_stats WHERE grain = 2"))
	}
	hours := read(hop.StatsRequest{Step: api.StepHour})
	if one := hours.Limits[0].Items; len(one) != 1 || one[0].Used != 9 || one[0].Limit != 10 || one[0].Refused != 3 {
		t.Errorf("%+v", one)
	}
	f.Exec(`UPDATE limit_stats SET at = at - interval '90 days'`)
	for _, want := range []int{3, 2, 0} {
		if n, err := f.Store.Stats.ForgetLimitStats(t.Context(), 3); n != want || err != nil {
			t.Errorf("%d, %v, want %d", n, err, want)
		}
	}
}

// The use of a rate is a sum, at every step and in every grain, and its limit is that of the step. What has no time is of
// the minute in which it is appended.
func TestRatesAreSums(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Now().UTC().Truncate(time.Hour).Add(-50 * time.Hour)
	f.limits("tenant-requests", "", at, stats.LimitCounts{Used: 70, Allowed: 120}, stats.LimitCounts{Used: 30, Allowed: 120, Refused: 4})
	f.limits("tenant-requests", "", at.Add(time.Minute), stats.LimitCounts{Used: 5, Allowed: 60})
	f.limits("user-requests", "", at, stats.LimitCounts{Used: 9, Refused: 4})
	f.limits("user-requests", "ada", at, stats.LimitCounts{Allowed: 60, Refused: 4})
	holds := func(step string, want ...api.LimitStatsItem) {
		t.Helper()
		made, err := f.Store.Stats.LimitStats(t.Context(), f.Tenant, hop.StatsRequest{From: new(api.At(at)), To: new(api.At(at.Add(time.Hour))), Step: step})
		if err != nil || len(made.Limits) != 2 || made.Limits[0].Name != "tenant-requests" || len(made.Limits[0].Items) != len(want) {
			t.Fatalf("%+v, %v", made, err)
		}
		for i, one := range made.Limits[0].Items {
			one.At = api.Time{}
			if one != want[i] {
				t.Errorf("%s: %+v, want %+v", step, one, want[i])
			}
		}
		if users := made.Limits[1].Items[0]; users.Used != 9 || users.Limit != 0 || users.Refused != 4 {
			t.Errorf("of users: %+v", users)
		}
		if len(made.Refused) != 2 || *made.Refused[1].Whose != "ada" || made.Refused[0].Name != "tenant-requests" {
			t.Errorf("refused: %+v", made.Refused)
		}
	}
	holds(api.StepMinute, api.LimitStatsItem{Used: 100, Limit: 120, Refused: 4}, api.LimitStatsItem{Used: 5, Limit: 60})
	hour := api.LimitStatsItem{Used: 105, Limit: 120 * 60, Refused: 4}
	holds(api.StepHour, hour)
	for _, rollUp := range []func() (stats.RolledUp, error){
		func() (stats.RolledUp, error) {
			return f.Store.Stats.RollUpLimitMinutes(t.Context(), time.Time{}, 1000)
		},
		func() (stats.RolledUp, error) { return f.Store.Stats.RollUpLimitHours(t.Context(), time.Time{}, 1000) },
	} {
		if _, err := rollUp(); err != nil {
			t.Fatal(err)
		}
	}
	holds(api.StepHour, hour)

	f.limits("tenant-jobs", "", time.Time{}, stats.LimitCounts{Used: 2, Allowed: 60})
	made, err := f.Store.Stats.LimitStats(t.Context(), f.Tenant, hop.StatsRequest{})
	if err != nil || len(made.Limits) != 1 || made.Limits[0].Name != "tenant-jobs" || made.Limits[0].Items[0].Used != 2 {
		t.Errorf("%+v, %v", made, err)
	}
}

// What was not appended is recorded again, and beyond the bound nothing new is.
func TestLimitRecorder(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 24, 10, 0, 30, 0, time.UTC)
	use := stats.LimitUse{Tenant: uuid.New(), Limit: "tenant-active", At: at, LimitCounts: stats.LimitCounts{Used: 5, Allowed: 9, Refused: 1}}
	r := stats.NewLimitRecorder()
	r.Record(use)
	pending, _ := r.Take()
	use.Used = 4
	r.Record(use)
	r.Restore(pending)
	pending, lost := r.Take()
	for _, counts := range pending {
		if len(pending) != 1 || *counts != (stats.LimitCounts{Used: 5, Allowed: 9, Refused: 2}) || lost != 0 {
			t.Errorf("%d, %+v, lost %d", len(pending), *counts, lost)
		}
	}
	const more = 10
	for range 2 { // what was taken makes room
		for i := range stats.MaxNames + more {
			use.Name = fmt.Sprint(i)
			r.Record(use)
		}
		another := use
		another.Tenant = uuid.New()
		r.Record(another)
		if pending, lost := r.Take(); len(pending) != stats.MaxNames+1 || lost != more {
			t.Errorf("%d keys, %d lost", len(pending), lost)
		}
	}
	for range stats.MaxKeys + more {
		use.Tenant = uuid.New()
		r.Record(use)
	}
	if pending, lost := r.Take(); len(pending) != stats.MaxKeys || lost != more {
		t.Errorf("%d keys, %d lost", len(pending), lost)
	}
}

func TestOldHoursAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, day := range []int{89, 91, 92} {
		f.Exec(`INSERT INTO job_stats (tenant_id, queue, grain, at, submitted, started, completed, failed_attempts, dead_letter, cancelled, waiting_ms, running_ms)
			VALUES ($1, '', 2, now() - $2 * interval '1 day', 1, 0, 0, 0, 0, 0, 0, 0)`, f.Tenant, day)
	}
	for _, want := range []int{1, 1, 0} {
		if n, err := f.Store.Stats.ForgetStats(t.Context(), 1); n != want || err != nil {
			t.Errorf("%d, %v, want %d", n, err, want)
		}
	}
	if f.Count("job_stats") != 1 {
		t.Errorf("%d rows are left", f.Count("job_stats"))
	}
}

// fill makes two days of minutes of many queues.
func fill(f *celltest.Fixture, queues, minutes int) {
	f.Exec(`INSERT INTO job_stats (tenant_id, queue, grain, at, submitted, started, completed, failed_attempts, dead_letter, cancelled, waiting_ms, running_ms)
		SELECT $1, CASE q WHEN 0 THEN '' ELSE 'q' || q END, 1, date_trunc('minute', now()) - m * interval '1 minute', 1, 1, 1, 0, 0, 0, 1, 1
		FROM generate_series(0, $2::int) AS q, generate_series(1, $3::int) AS m`, f.Tenant, queues, minutes)
	f.Exec(`INSERT INTO limit_stats (tenant_id, limit_name, name, grain, at, used, allowed, refused)
		SELECT $1, CASE q WHEN 0 THEN 'tenant-active' ELSE 'queue-active' END, CASE q WHEN 0 THEN '' ELSE 'q' || q END, 1, date_trunc('minute', now()) - m * interval '1 minute', 1, 1,
		  CASE m % 10 WHEN 0 THEN 1 ELSE 0 END
		FROM generate_series(0, $2::int) AS q, generate_series(1, $3::int) AS m`, f.Tenant, queues, minutes)
}

// Every statement stays on its indexes, with statistics and without.
func TestPlans(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixtureOn(t, celltest.NewURL(t))
	f.CheckPlans("empty", stats.Planned())
	fill(f, 50, 400)
	f.CheckPlans("full, without statistics", stats.Planned())
	f.Exec("ANALYZE")
	f.CheckPlans("full, with statistics", stats.Planned())
}
