package queues_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// names are the queues beside the fixture's own.
func (f *fixture) names() string {
	f.Helper()
	queues, err := f.Store.Queues.List(f.Context(), f.Tenant, queues.Page{Size: 100})
	if err != nil {
		f.Fatal(err)
	}
	var names []string
	for i := range queues {
		if queues[i].Name != api.DefaultQueue {
			names = append(names, queues[i].Name)
		}
	}
	return strings.Join(names, " ")
}

// ensure asks for the lane of a queue, as a submit does.
func (f *fixture) ensure(name string) lanes.ID {
	f.Helper()
	made, err := f.Store.Lanes.Ensure(f.Context(), f.Tenant, []lanes.Ask{{Key: lanes.NewKey(f.Tenant, name, "test", nil)}})
	if err != nil || made[0].ID == 0 {
		f.Fatal(made, err)
	}
	return made[0].ID
}

func (f *fixture) deleteQueue(name string) {
	f.Helper()
	if err := f.Store.Queues.Delete(f.Context(), f.Tenant, name); err != nil {
		f.Fatal(err)
	}
}

// settings are what a core reads of a queue: the newest row.
func (f *fixture) settings(name string) queues.Settings {
	f.Helper()
	all, err := f.Store.Queues.Since(f.Context(), time.Time{})
	if err != nil {
		f.Fatal(err)
	}
	for _, one := range all {
		if one.Tenant == f.Tenant && one.Name == name {
			return one
		}
	}
	f.Fatalf("there is no row of %s", name)
	return queues.Settings{}
}

func (f *fixture) settle() queues.SettledDeleted {
	f.Helper()
	settled, err := f.Store.Queues.SettleDeleted(f.Context(), queues.DeletedPlace{}, 100)
	if err != nil {
		f.Fatal(err)
	}
	return settled
}

// A queue with a live job or a dead letter stays, with all that it is.
func TestDeleteQueueRefusesOneWithJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lane := f.ensure("q")
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "q", api.QueueRequest{MaxAttempts: new(9)}); err != nil {
		t.Fatal(err)
	}
	f.Lane = lanes.Lane{ID: lane, Key: lanes.NewKey(f.Tenant, "q", "test", nil)}
	id := f.Submit(f.Job())[0]
	states := []struct {
		want string
		next func()
	}{
		{"1 queued.", func() {}},
		{"1 scheduled.", func() {
			f.Exec(`UPDATE jobs SET state = 'scheduled', ready_at = NULL, run_at = now() + interval '1 hour' WHERE id = $1`, id)
		}},
		{"1 blocked.", func() { f.Exec(`UPDATE jobs SET state = 'blocked' WHERE id = $1`, id) }},
		{"1 running.", func() {
			f.Exec(`UPDATE jobs SET state = 'queued', ready_at = now() WHERE id = $1`, id)
			f.ClaimOne()
		}},
		{"1 dead_letter.", func() { f.Exec(`UPDATE jobs SET deadline = now() - interval '1 s' WHERE id = $1`, id); f.expire() }},
	}
	for _, state := range states {
		state.next()
		err := f.Store.Queues.Delete(t.Context(), f.Tenant, "q")
		if p, ok := problem.From(err); !ok || p.Code != problem.QueueNotEmpty || !strings.Contains(p.Detail, `"q" is not empty: `+state.want) {
			t.Errorf("%s: %v", state.want, err)
		}
		if got := f.settings("q"); *got.MaxAttempts != 9 || got.Deleted || f.names() != "q" || f.ensure("q") != lane {
			t.Errorf("%s: %+v, queues %s", state.want, got, f.names())
		}
	}
	if _, err := f.Store.DeadLetters.Discard(t.Context(), f.Tenant, "", []uuid.UUID{id}); err != nil {
		t.Fatal(err)
	}
	f.deleteQueue("q")
}

func (f *fixture) expire() {
	f.Helper()
	if ended, err := f.Store.Jobs.ExpireDeadlines(f.Context(), jobs.AllTime, 10); err != nil || len(ended) != 1 {
		f.Fatal(ended, err)
	}
}

// A deleted queue is not there, and its settings are forgotten, whatever they were. Whatever asks for it
// makes it again.
func TestADeletedQueueSpringsUpAgainWithDefaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stranger := f.NewTenant()
	for name, again := range map[string]func(name string) error{
		"job": func(name string) error { f.ensure(name); return nil },
		"settings": func(name string) error {
			return f.Store.Queues.Put(t.Context(), f.Tenant, name, api.QueueRequest{})
		},
		"pause": func(name string) error { return f.Store.Queues.Pause(t.Context(), f.Tenant, name, false) },
	} {
		f.ensure(name)
		request := api.QueueRequest{MaxActive: new(int64(7)), Push: &api.PushRequest{URL: "https://example.com"}}
		if _, err := f.Store.Queues.PutPush(t.Context(), f.Tenant, name, request, queues.NewSecret{Sealed: []byte("s")}); err != nil {
			t.Fatal(err)
		}
		if err := f.Store.Queues.Pause(t.Context(), f.Tenant, name, true); err != nil {
			t.Fatal(err)
		}
		if err := f.Store.Queues.Delete(t.Context(), stranger, name); err != nil || f.settings(name).Deleted { // it has none of this name
			t.Errorf("%s: another tenant deleted it: %v", name, err)
		}
		for range 2 {
			f.deleteQueue(name)
			if got := f.settings(name); !got.Deleted || got.Push || got.Paused || got.MaxActive != nil || got.Target.URL != "" || f.names() != "" {
				t.Errorf("%s: deleted %+v, queues %s", name, got, f.names())
			}
		}
		if settled := f.settle(); settled.Back+settled.Forgotten != 0 {
			t.Errorf("%s: %+v", name, settled)
		}
		if err := again(name); err != nil {
			t.Fatal(err)
		}
		if got := f.settings(name); got.Deleted || got.Push || got.Paused || got.MaxActive != nil || f.names() != name {
			t.Errorf("%s: again %+v, queues %s", name, got, f.names())
		}
		f.deleteQueue(name)
	}
	f.deleteQueue("never")
}

// A job that was stored in a cached lane while its queue was deleted is in that lane, and is claimed; the
// queue is there again once the duty has seen it, and also if the job is dead by then.
func TestAJobBesideADeletionBringsItsQueueBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane = lanes.Lane{ID: f.ensure("q"), Key: lanes.NewKey(f.Tenant, "q", "test", nil)}
	for round, step := range []func(){
		func() {},
		func() { f.Exec(`UPDATE jobs SET state = 'blocked', ready_at = NULL`) },
		func() { f.ClaimOne() },
		func() { f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindFail, Permanent: true}) },
	} {
		f.deleteQueue("q")
		f.Submit(f.Job(func(j *submit.NewJob) { j.Lane = f.Lane.ID }))
		step()
		if f.names() != "" {
			t.Errorf("round %d: %s", round, f.names())
		}
		if settled := f.settle(); settled.Back != 1 || f.names() != "q" || f.settings("q").Deleted {
			t.Errorf("round %d: %+v, queues %q", round, settled, f.names())
		}
		f.Exec(`DELETE FROM jobs`)
		f.Exec(`DELETE FROM dead_letters`)
	}
	f.deleteQueue("q")
	f.Exec(`UPDATE queues SET updated_at = updated_at - interval '2 hours', deleted_at = deleted_at - interval '2 hours'`)
	if settled := f.settle(); settled.Forgotten != 1 || f.Count("queues") != 1 {
		t.Errorf("%+v, %d rows", settled, f.Count("queues"))
	}
}

// Deleted queues do not count under the tenant's bound.
func TestDeletedQueuesTakeNoPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`INSERT INTO queues (tenant_id, name, created_at, updated_at) SELECT $1, 'q' || n, now(), now() FROM generate_series(2, $2) n`, f.Tenant, lanes.MaxQueues)
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "one-more", api.QueueRequest{}); err == nil {
		t.Fatal("there is no bound")
	}
	f.deleteQueue("q2")
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "one-more", api.QueueRequest{}); err != nil {
		t.Error(err)
	}
	f.deleteQueue("q3")
	f.ensure("another")
}
