package jobs_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestCancel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.Submit(f.Job(), f.Job(func(j *submit.NewJob) { j.Delay = time.Hour }), f.Job())
	running := f.ClaimOne()
	if running.ID != ids[0] {
		t.Fatal("the first job was not claimed first")
	}
	for _, want := range []jobs.CancelResult{jobs.CancelEnded, jobs.CancelRepeated} {
		for _, id := range ids[1:] {
			got, did, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", id)
			if err != nil || did != want || got.State != api.StateCancelled || got.FinishedAt == nil {
				t.Fatalf("a waiting job: %+v %v %v", got, did, err)
			}
		}
		got, did, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", running.ID)
		if err != nil || did != jobs.CancelRequested || got.State != api.StateRunning || !got.CancelRequested {
			t.Fatalf("a running job: %+v %v %v", got, did, err)
		}
	}
	f.MustEnd(jobs.Ending{Lease: running.Lease(), Kind: api.KindComplete})
	if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", running.ID); !errors.Is(err, jobs.ErrTerminal) {
		t.Errorf("a completed job: %v", err)
	}
	if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.NewTenant(), "", ids[1]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a foreign job: %v", err)
	}
	if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "bob", ids[1]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another user's job: %v", err)
	}
}

func TestDeadlineExpiresWaitingAndRunning(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	deadline := time.Now().Add(time.Hour)
	with := func(j *submit.NewJob) { j.Deadline = &deadline }
	ids := f.Submit(f.Job(with), f.Job(with), f.Job(with, func(j *submit.NewJob) { j.Delay = time.Minute }), f.Job())
	running := f.ClaimOne()
	f.Exec(`UPDATE jobs SET deadline = statement_timestamp() - interval '1 second' WHERE deadline IS NOT NULL`)
	if got := f.Claim(10, time.Minute); len(got) != 1 || got[0].ID != ids[3] {
		t.Errorf("a job past its deadline was claimed: %+v", got)
	}
	expired, err := f.Store.Jobs.ExpireDeadlines(t.Context(), jobs.AllTime, 10)
	if err != nil || len(expired) != 3 {
		t.Fatalf("%+v %v", expired, err)
	}
	for _, id := range ids[:3] {
		if got := f.Get(id); got.State != api.StateDeadLetter || *got.DeadReason != api.ReasonDeadline {
			t.Errorf("%+v", got.JobSummary)
		}
	}
	if ended := f.End(jobs.Ending{Lease: running.Lease(), Kind: api.KindComplete}); !errors.Is(ended.Err, jobs.ErrLeaseLost) {
		t.Errorf("the holder's outcome: %+v", ended)
	}
}

func TestRedriveGivesAnotherLife(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key, deadline := "k", time.Now().Add(time.Hour)
	ids := f.Submit(f.Job(func(j *submit.NewJob) { j.MaxAttempts, j.DedupeKey, j.Deadline = 1, &key, &deadline }), f.Job())
	first := f.ClaimOne()
	ending := jobs.Ending{Lease: first.Lease(), Kind: api.KindFail, Error: &api.JobError{Type: "t", Message: "m"}}
	f.MustEnd(ending)
	f.Exec(`UPDATE dead_letters SET deadline = statement_timestamp() - interval '1 hour'`)

	dead, err := f.Store.DeadLetters.DeadLetters(t.Context(), f.Tenant, "", api.DeadLetterFilter{Reason: "exhausted"}, 10, "")
	if err != nil || len(dead.Items) != 1 || dead.Items[0].Error.Message != "m" || dead.Items[0].Attempts != 1 {
		t.Fatalf("%+v %v", dead, err)
	}
	blocker := f.Submit(f.Job(func(j *submit.NewJob) { j.DedupeKey = &key }))[0]
	if got := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", ids, nil); !errors.Is(got[0].Err, deadletter.ErrDedupeConflict) || !errors.Is(got[1].Err, deadletter.ErrNotDead) {
		t.Fatalf("%+v", got)
	}
	if f.Count("dead_letters") != 1 {
		t.Fatal("a refused redrive lost the dead letter")
	}
	if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", blocker); err != nil {
		t.Fatal(err)
	}
	got := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", []uuid.UUID{ids[0], uuid.New(), ids[0]}, nil)
	if got[0].Err != nil || !errors.Is(got[1].Err, store.ErrNotFound) || !errors.Is(got[2].Err, deadletter.ErrNotDead) {
		t.Fatalf("%+v", got)
	}
	if j := got[0].Job; j.State != api.StateQueued || j.Attempt != 0 || j.Redrives != 1 || j.Epoch != 1 || j.Deadline != nil {
		t.Fatalf("%+v", j)
	}
	f.ClaimOne() // the second job
	again := f.ClaimOne()
	if again.ID != ids[0] || again.Epoch != 2 || again.Attempt != 1 {
		t.Fatalf("%+v", again)
	}
	if ended := f.End(ending); !errors.Is(ended.Err, jobs.ErrLeaseLost) {
		t.Errorf("the first life's holder: %+v", ended)
	}
	attempts, err := f.Store.JobReads.Attempts(t.Context(), f.Tenant, "", ids[0], 0, 50)
	if err != nil || len(attempts) != 2 || attempts[0].Kind != "failed" || attempts[0].Error.Message != "m" || attempts[1].Kind != "running" || attempts[1].Epoch != 2 {
		t.Fatalf("%+v %v", attempts, err)
	}
}

func TestListPagesAndFilters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
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

func TestWorkersAgeAndLoseTheirLeases(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	if _, _, err := f.Store.Workers.SeenClaiming(t.Context(), f.Tenant, "w1", workers.Claiming{Queues: []string{"default"}}); err != nil {
		t.Fatal(err)
	}
	claimed := f.Claim(1, time.Hour)[0]
	ages := []struct {
		silent string
		want   workers.Aged
		status string
	}{
		{"29 seconds", workers.Aged{}, api.WorkerActive},
		{"31 seconds", workers.Aged{Stale: 1}, api.WorkerStale},
		{"121 seconds", workers.Aged{Dead: 1}, api.WorkerDead},
	}
	for _, age := range ages {
		f.Exec(`UPDATE workers SET last_heartbeat_at = statement_timestamp() - $1::interval`, age.silent)
		got, err := f.Store.Workers.Age(t.Context(), time.Time{})
		if err != nil || got != age.want {
			t.Fatalf("silent for %s: %+v %v", age.silent, got, err)
		}
		workers, err := f.Store.Workers.List(t.Context(), f.Tenant, "", 10)
		if err != nil || len(workers) != 1 || workers[0].Status != age.status || workers[0].Leases != 1 {
			t.Fatalf("silent for %s: %+v %v", age.silent, workers, err)
		}
		reaped, err := f.Store.Jobs.ReapDead(t.Context(), 10, celltest.Half)
		if err != nil || (len(reaped) == 1) != (age.status == api.WorkerDead) {
			t.Fatalf("silent for %s: reaped %+v %v", age.silent, reaped, err)
		}
	}
	if got := f.Get(id); got.State != api.StateQueued || got.LastError.Type != "lease_expired" {
		t.Fatalf("%+v", got.JobSummary)
	}
	if ended := f.End(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindComplete}); !errors.Is(ended.Err, jobs.ErrLeaseLost) {
		t.Errorf("the dead worker's outcome: %+v", ended)
	}
	f.Exec(`UPDATE workers SET last_heartbeat_at = statement_timestamp() - interval '25 hours'`)
	if got, err := f.Store.Workers.Age(t.Context(), time.Time{}); err != nil || got.Forgotten != 1 || f.Count("workers") != 0 {
		t.Fatalf("%+v %v", got, err)
	}
}

func TestQueueSettingsAndDepths(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	visibility := int64(5000)
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "default", api.QueueRequest{VisibilityTimeoutMS: &visibility}); err != nil {
		t.Fatal(err)
	}
	if err := f.Store.Queues.Pause(t.Context(), f.Tenant, "default", true); err != nil {
		t.Fatal(err)
	}
	settings, err := f.Store.Queues.Since(t.Context(), time.Unix(0, 0))
	if err != nil || len(settings) != 1 || !settings[0].Paused || *settings[0].VisibilityTimeout != 5*time.Second {
		t.Fatalf("%+v %v", settings, err)
	}
	f.Submit(f.Job(), f.Job(), f.Job(func(j *submit.NewJob) { j.Delay = time.Hour }), f.Job(func(j *submit.NewJob) { j.MaxAttempts = 1 }))
	f.Claim(1, time.Minute)
	dead := f.Claim(2, time.Minute)[1]
	f.MustEnd(jobs.Ending{Lease: dead.Lease(), Kind: api.KindFail, Permanent: true})
	f.Submit(f.Job())
	f.Exec(`UPDATE jobs SET ready_at = ready_at - interval '10 seconds' WHERE state = 'queued'`)
	if err := f.Store.Queues.Pause(t.Context(), f.Tenant, "empty", true); err != nil {
		t.Fatal(err)
	}
	counts, err := f.Store.Queues.List(t.Context(), f.Tenant, queues.Page{Size: 10})
	if err != nil || len(counts) != 2 || counts[1].Name != "empty" {
		t.Fatal(counts, err)
	}
	got := counts[0]
	if len(got.Ready) != 1 || got.Queued != 1 || got.Running != 2 || got.Scheduled != 1 || got.DeadLetter != 1 || *got.OldestMs < 10_000 || *got.OldestMs > 60_000 {
		t.Fatalf("%+v %v", got, err)
	}
	if empty := counts[1]; empty.OldestMs != nil || empty.Running != 0 || len(empty.Ready) != 0 {
		t.Fatalf("%+v", empty)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	day := 24 * time.Hour
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: time.Second}, Retention: retention.Periods{Finished: 7 * day, DeadLetters: 30 * day, Audit: 365 * day}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	for _, age := range []int{8, 9, 40} {
		for _, table := range []string{"finished_jobs", "attempts"} {
			at := time.Now().UTC().AddDate(0, 0, -age)
			name := table + "_" + at.Format("20060102")
			f.Exec(`CREATE TABLE ` + name + ` (LIKE ` + table + ` INCLUDING ALL)`)
			f.Exec(`ALTER TABLE ` + table + ` ATTACH PARTITION ` + name + ` FOR VALUES FROM ('` + at.Format(time.DateOnly) +
				` 00:00+00') TO ('` + at.AddDate(0, 0, 1).Format(time.DateOnly) + ` 00:00+00')`)
		}
	}
	// One that an earlier run detached and did not live to drop.
	orphan := "finished_jobs_" + time.Now().UTC().AddDate(0, 0, -9).Format("20060102")
	f.Exec(`ALTER TABLE finished_jobs DETACH PARTITION ` + orphan)
	f.Exec(`COMMENT ON TABLE ` + orphan + ` IS 'forgequeue: past its retention, detached to be dropped (finished_jobs)'`)
	dropped, err := store.Retention.DropPartitions(t.Context())
	if err != nil || len(dropped) != 4 { // finished: 8, 9 and 40 days; attempts: 40
		t.Fatalf("%v %v", dropped, err)
	}
	if again, err := store.Retention.DropPartitions(t.Context()); err != nil || len(again) != 0 {
		t.Fatalf("a repeat: %v %v", again, err)
	}

	f.Submit(f.Job(), f.Job())
	for range 2 {
		f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindFail, Permanent: true})
	}
	f.Exec(`UPDATE dead_letters SET died_at = died_at - interval '31 days' WHERE id = (SELECT id FROM dead_letters LIMIT 1)`)
	if n, err := store.DeadLetters.ForgetDead(t.Context(), 10); err != nil || n != 1 || f.Count("dead_letters") != 1 {
		t.Fatalf("%d %v", n, err)
	}

	// Of redrives only those that have ended go, with their age counted from there.
	for range 3 {
		f.Redrive(api.ActionRedrive, api.DeadLetterFilter{}, nil)
	}
	f.Exec(`UPDATE redrives SET created_at = created_at - interval '40 days'`)
	f.Exec(`UPDATE redrives SET state = 'done', ended_at = statement_timestamp() - interval '31 days' WHERE id = (SELECT id FROM redrives LIMIT 1)`)
	if n, err := store.Retention.ForgetRedrives(t.Context(), 10); err != nil || n != 1 || f.Count("redrives") != 2 {
		t.Fatalf("%d redrives, %v", n, err)
	}
	ctx := audit.WithActor(t.Context(), audit.Actor{Kind: "tenant"})
	if err := errors.Join(f.Store.Queues.Put(ctx, f.Tenant, "q", api.QueueRequest{}), f.Store.Queues.Pause(ctx, f.Tenant, "q", true)); err != nil {
		t.Fatal(err)
	}
	f.Exec(`UPDATE audit_log SET at = at - interval '366 days' WHERE action = 'queue.put'`)
	if n, err := store.Retention.ForgetAudit(t.Context(), 10); err != nil || n != 1 || f.Count("audit_log WHERE action = 'queue.put'") != 0 || f.Count("audit_log") != 1 {
		t.Fatalf("%d audit entries, %v", n, err)
	}
}

// A reader that is older than the removal of a day holds up the removal, and
// nothing else: completes go on.
func TestOldReaderDoesNotHoldUpCompletes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: time.Second}, Retention: retention.Periods{Finished: 24 * time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	at := time.Now().UTC().AddDate(0, 0, -5)
	name := "finished_jobs_" + at.Format("20060102")
	f.Exec(`CREATE TABLE ` + name + ` (LIKE finished_jobs INCLUDING ALL)`)
	f.Exec(`ALTER TABLE finished_jobs ATTACH PARTITION ` + name + ` FOR VALUES FROM ('` + at.Format(time.DateOnly) +
		` 00:00+00') TO ('` + at.AddDate(0, 0, 1).Format(time.DateOnly) + ` 00:00+00')`)

	reader := celltest.Connect(t, f.URL)
	tx, err := reader.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM finished_jobs`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := store.Retention.DropPartitions(background(t))
		done <- err
	}()
	// Until the detach waits for the reader.
	for f.Count(`pg_locks WHERE NOT granted`) == 0 {
		select {
		case err := <-done:
			t.Fatalf("the removal did not wait for the reader: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	for range 20 {
		f.Submit(f.Job())
		f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	}
	if err := store.Retention.MakePartitions(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		t.Fatalf("the removal has ended while the reader was there: %v", err)
	default:
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if f.Count(`pg_class WHERE relname = '`+name+`'`) != 0 {
		t.Error("the day is still there")
	}
}

// A snooze that says why is shown with the job, and is no failed attempt.
func TestSnoozeWithAReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job())
	claimed := f.ClaimOne()
	ended := f.End(jobs.Ending{
		Lease: claimed.Lease(), Kind: api.KindSnooze, Delay: time.Minute, Error: &api.JobError{Type: "no_handler", Message: "no handler for greeet"},
	})
	if ended.Err != nil {
		t.Fatal(ended.Err)
	}
	got, err := f.Store.JobReads.Get(t.Context(), f.Tenant, "", claimed.ID)
	if err != nil || got.LastError == nil || got.LastError.Type != "no_handler" || got.Attempt != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	attempts, err := f.Store.JobReads.Attempts(t.Context(), f.Tenant, "", claimed.ID, 0, 10)
	if err != nil || len(attempts) != 0 {
		t.Errorf("%+v, %v", attempts, err)
	}
}
