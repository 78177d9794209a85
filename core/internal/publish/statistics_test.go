package publish_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// stats appends what was counted and gives the sum of all steps of a queue, or of all.
func (f *fixture) stats(name string) api.StatsItem {
	f.Helper()
	if _, err := f.D.Stats.Append(f.Context()); err != nil {
		f.Fatal(err)
	}
	return f.statsOf(name)
}

func (f *fixture) statsOf(name string) (sum api.StatsItem) {
	f.Helper()
	// wide: the test may cross an hour
	made, err := f.Store.Stats.JobStats(f.Context(), f.Tenant, hop.StatsRequest{
		Queue: name, From: new(api.At(time.Now().Add(-2 * time.Hour))), To: new(api.At(time.Now().Add(time.Hour))),
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, item := range made.Items {
		sum.Submitted += item.Submitted
		sum.Started += item.Started
		sum.Completed += item.Completed
		sum.FailedAttempts += item.FailedAttempts
		sum.DeadLetter += item.DeadLetter
		sum.Cancelled += item.Cancelled
		sum.WaitingMS += item.WaitingMS
		sum.RunningMS += item.RunningMS
	}
	return sum
}

func (f *fixture) wantStats(name string, want api.StatsItem) {
	f.Helper()
	got := f.stats(name)
	got.WaitingMS, got.RunningMS = 0, 0
	if got != want {
		f.Errorf("queue %q: %+v, want %+v", name, got, want)
	}
}

// Every way in which a job is stored, claimed, and ends, or an attempt does, counts once, and what changes nothing
// counts as nothing.
func TestStatsCountEachStepOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keyed := enginetest.Request("ada")
	keyed.DedupeKey = new("k")
	f.Submit(keyed)
	f.Submit(keyed) // deduplicated
	f.Submit(enginetest.Request("ada"), enginetest.Request("ada"), enginetest.Request("ada"), enginetest.Request("ada"), enginetest.Request("ada"), enginetest.Request("ada"))
	f.Submit(api.SubmitRequest{Type: "test", Queue: "other", DelayMS: new(int64(3_600_000))})
	f.wantStats("", api.StatsItem{Submitted: 8})
	f.wantStats("other", api.StatsItem{Submitted: 1})

	found := f.Claim(f.ClaimCall())
	if len(found) != 7 {
		t.Fatalf("%d jobs", len(found))
	}
	f.Exec(`UPDATE jobs SET started_at = started_at - interval '2 s' WHERE state = 'running'`)
	end := func(ending jobs.Ending) {
		f.Helper()
		for range 2 { // a repeat counts as nothing
			if ended := f.D.End(t.Context(), []jobs.Ending{ending})[0]; ended.Err != nil {
				f.Fatal(ended.Err)
			}
		}
	}
	end(jobs.Ending{Lease: found[0].Lease(), Kind: api.KindComplete})
	end(jobs.Ending{Lease: found[1].Lease(), Kind: api.KindFail})
	end(jobs.Ending{Lease: found[2].Lease(), Kind: api.KindFail, Permanent: true})
	end(jobs.Ending{Lease: found[3].Lease(), Kind: api.KindSnooze, Delay: time.Hour})
	f.Exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 s' WHERE id = $1`, found[4].ID)
	reaped, err := f.Store.Jobs.Reap(t.Context(), time.Unix(0, 0), 100, celltest.Half)
	if err != nil || len(reaped) != 1 {
		t.Fatal(reaped, err)
	}
	f.D.Publish(t.Context(), publish.Changes{Jobs: reaped})
	if _, requested, err := f.D.Cancel(t.Context(), f.Tenant, "", found[5].ID); err != nil || !requested {
		t.Fatal(requested, err)
	}
	end(jobs.Ending{Lease: found[5].Lease(), Kind: api.KindFail}) // ends cancelled
	f.D.GiveBack(t.Context(), found[6:])
	stale := jobs.Ending{Lease: found[4].Lease(), Kind: api.KindComplete}
	if ended := f.D.End(t.Context(), []jobs.Ending{stale})[0]; !errors.Is(ended.Err, jobs.ErrLeaseLost) {
		t.Errorf("%v", ended.Err)
	}
	for range 2 {
		if _, _, err := f.D.Cancel(t.Context(), f.Tenant, "", found[3].ID); err != nil { // waits, snoozed
			t.Fatal(err)
		}
	}
	f.Exec(`UPDATE jobs SET deadline = statement_timestamp() - interval '1 s' WHERE queue = 'other'`)
	expired, err := f.Store.Jobs.ExpireDeadlines(t.Context(), jobs.AllTime, 100)
	if err != nil || len(expired) != 1 {
		t.Fatal(expired, err)
	}
	f.D.Publish(t.Context(), publish.Changes{Jobs: expired})

	f.wantStats("default", api.StatsItem{Submitted: 7, Started: 7, Completed: 1, FailedAttempts: 3, DeadLetter: 1, Cancelled: 2})
	f.wantStats("other", api.StatsItem{Submitted: 1, DeadLetter: 1})
	f.wantStats("", api.StatsItem{Submitted: 8, Started: 7, Completed: 1, FailedAttempts: 3, DeadLetter: 2, Cancelled: 2})
	if sum := f.statsOf(""); sum.RunningMS < 7*2000 || sum.RunningMS > 7*2000+600_000 || sum.WaitingMS < 0 {
		t.Errorf("%+v", sum)
	}
	// A redrive is not submitted; a rerun is.
	if redriven := f.D.Redrive(t.Context(), f.Tenant, "", []uuid.UUID{found[2].ID}); redriven[0].Err != nil {
		t.Fatal(redriven[0].Err)
	}
	f.wantStats("default", api.StatsItem{Submitted: 7, Started: 7, Completed: 1, FailedAttempts: 3, DeadLetter: 1, Cancelled: 2})
}

// Children that are cancelled with their parent, and the jobs of a cancelled workflow, count too.
func TestStatsCountCascades(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parent := f.Submit(enginetest.Request("ada"))[0]
	f.Submit(api.SubmitRequest{Type: "test", After: []api.Dependency{{JobID: parent.String()}}})
	if _, _, err := f.D.Cancel(t.Context(), f.Tenant, "", parent); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.D.FollowUp(t.Context(), f.Tenant); err != nil {
		t.Fatal(err)
	}
	f.wantStats("", api.StatsItem{Submitted: 2, Cancelled: 2})
}

// A definite failure keeps the counts for the next time; an unknown outcome drops them, and says so.
func TestStatsAreNeverAppendedTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Request("ada"), enginetest.Request("ada"))
	f.Exec(`ALTER TABLE job_stats RENAME TO hidden`)
	if appended, err := f.D.Stats.Append(t.Context()); appended || err == nil || !store.Definite(err) {
		t.Fatal(appended, err)
	}
	f.Submit(enginetest.Request("ada"))
	f.Exec(`ALTER TABLE hidden RENAME TO job_stats`)
	f.wantStats("", api.StatsItem{Submitted: 3})
	if appended, err := f.D.Stats.Append(t.Context()); appended || err != nil {
		t.Errorf("nothing was counted: %v, %v", appended, err)
	}

	f.Submit(enginetest.Request("ada"))
	conn := celltest.Connect(t, f.URL)
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE job_stats IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := f.D.Stats.Append(t.Context())
		got <- err
	}()
	f.Blocked(1)
	f.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'forgequeue-core' AND wait_event_type = 'Lock'`)
	if err := <-got; err == nil || store.Definite(err) {
		t.Errorf("%v, want an unknown outcome", err)
	}
	if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	f.wantStats("", api.StatsItem{Submitted: 3})
}

// limitStats appends what was noted, and gives the largest use of each limit with the last limit and all refusals, of a
// queue or with an empty one of the tenant.
func (f *fixture) limitStats(name string) (byName map[string]api.LimitStatsItem, refused []api.LimitRefusals) {
	f.Helper()
	if _, err := f.D.Stats.Append(f.Context()); err != nil {
		f.Fatal(err)
	}
	made, err := f.Store.Stats.LimitStats(f.Context(), f.Tenant, hop.StatsRequest{
		Queue: name, From: new(api.At(time.Now().Add(-2 * time.Hour))), To: new(api.At(time.Now().Add(time.Hour))),
	})
	if err != nil {
		f.Fatal(err)
	}
	byName = map[string]api.LimitStatsItem{}
	for _, limit := range made.Limits {
		var all api.LimitStatsItem
		for _, item := range limit.Items {
			all.Used, all.Limit = max(all.Used, item.Used), max(all.Limit, item.Limit)
			all.Refused += item.Refused
		}
		byName[limit.Name] = all
	}
	return byName, made.Refused
}

// The use of a cap is its largest, also after jobs have ended; of users that of the one with the most. Who was refused is
// named, and a job that a cap refuses is one refusal.
func TestUseOfCapsIsNoted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Request("ada")) // under no cap: nothing to note
	if limits, refused := f.limitStats(""); len(limits) != 0 || len(refused) != 0 {
		t.Errorf("%v %v", limits, refused)
	}
	f.Override(api.Overrides{Limits: api.Limits{MaxActive: new(int64(9)), MaxRunning: new(int64(2)), UserMaxActive: new(int64(3))}})
	f.Put("default", api.QueueRequest{MaxActive: new(int64(8))})
	f.Refresh()
	refusals := func(want int, jobs ...api.SubmitRequest) {
		t.Helper()
		call := f.Call(jobs...)
		call.Batch = true
		got := 0
		for _, one := range f.D.Submit(t.Context(), []submits.Call{call})[0].Jobs {
			if one.Row == nil {
				got++
			}
		}
		if got != want {
			t.Fatalf("%d are refused, want %d", got, want)
		}
	}
	refusals(2, enginetest.Request("bob"), enginetest.Request("bob"), enginetest.Request("bob"), enginetest.Request("bob"), enginetest.Request("bob"))
	refusals(0, enginetest.Request("eve"))
	for running := f.Take(100); len(running) > 0; running = f.Take(100) {
		f.End(running)
	}
	refusals(1, enginetest.Request("bob"), enginetest.Request("bob"), enginetest.Request("bob"), enginetest.Request("bob"))
	limits, refused := f.limitStats("")
	for name, want := range map[string]api.LimitStatsItem{
		"tenant-active":  {Used: 5, Limit: 9},
		"user-active":    {Used: 3, Limit: 3, Refused: 3},
		"tenant-running": {Used: 2, Limit: 2},
	} {
		if limits[name] != want {
			t.Errorf("%s: %+v, want %+v", name, limits[name], want)
		}
	}
	if len(limits) != 3 || len(refused) != 1 || refused[0].Name != "user-active" || *refused[0].Whose != "bob" || refused[0].Refused != 3 {
		t.Errorf("%v, refused %+v", limits, refused)
	}
	if limits, _ := f.limitStats("default"); len(limits) != 1 || limits["queue-active"] != (api.LimitStatsItem{Used: 5, Limit: 8}) {
		t.Errorf("of the queue: %v", limits)
	}
}

// What gateways report is added up, beside what core knows itself.
func TestReportsOfGateways(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 2 {
		f.D.Stats.RecordUses(f.Tenant, []hop.LimitUse{
			{Limit: "tenant-requests", Used: 40, Allowed: 600},
			{Limit: "user-requests", Used: 7, Refused: 3},
			{Limit: "user-requests", Name: "bob", Allowed: 60, Refused: 3},
			{Limit: "tenant-active", Used: 5, Allowed: 5, Refused: 2},
		})
	}
	limits, refused := f.limitStats("")
	for name, want := range map[string]api.LimitStatsItem{
		"tenant-requests": {Used: 80, Limit: 600}, "user-requests": {Used: 14, Refused: 6}, "tenant-active": {Used: 5, Limit: 5, Refused: 4},
	} {
		if limits[name] != want {
			t.Errorf("%s: %+v, want %+v", name, limits[name], want)
		}
	}
	if len(limits) != 3 || len(refused) != 2 || refused[0].Name != "user-requests" || *refused[0].Whose != "bob" || refused[0].Refused != 6 {
		t.Errorf("%v, refused %+v", limits, refused)
	}
}

// A refusal that is tried again because room was given back in the same transaction counts once, and so does that of a
// submit with a key that others repeat.
func TestARefusalCountsOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Override(api.Overrides{Limits: api.Limits{MaxActive: new(int64(1))}})
	past := enginetest.Request("")
	past.Deadline = new(api.At(time.Now().Add(-time.Hour)))
	call := f.Call(past)
	second, third := f.Call(enginetest.Request("")), f.Call(enginetest.Request(""))
	answers := f.D.Submit(t.Context(), []submits.Call{call, second, third})
	stored := 0
	for _, one := range answers {
		stored += one.Accepted
	}
	if stored != 1 {
		t.Fatalf("%d are stored", stored)
	}
	if limits, refused := f.limitStats(""); limits["tenant-active"] != (api.LimitStatsItem{Used: 1, Limit: 1, Refused: 1}) || len(refused) != 1 || refused[0].Whose != nil {
		t.Errorf("%v %+v", limits, refused)
	}
}
