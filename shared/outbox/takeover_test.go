package outbox_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/outbox"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const killedBatch = "9d7b1f0e-0000-4000-8000-00000000000a"

// killed leaves all rows in the batch of a relay that was killed after it had sent, or not: nobody knows.
func (f *fixture) killed(ago string) {
	f.Helper()
	f.exec(`INSERT INTO forgequeue_outbox_batches (id, next_at, unknown_since) VALUES ($1::uuid, now(), now() - $2::interval)`, killedBatch, ago)
	f.exec(`UPDATE forgequeue_outbox SET state = 'sending', batch = $1::uuid`, killedBatch)
}

// keys are those of the requests that came.
func (s *server) keys() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.bodies {
		keys = append(keys, key)
	}
	return keys
}

func TestAKilledRelaysBatchIsSentWithItsKey(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	want := f.numbered(20)
	f.killed("22 hours")
	f.relay(s)
	f.empty()
	f.once(s, want)
	if keys := s.keys(); !slices.Equal(keys, []string{"outbox-" + killedBatch}) {
		t.Errorf("%v", keys)
	}
}

// The server may have forgotten the key: only a person can say what to do.
func TestAnUnknownOutcomeIsSetAsideOnceTheServerMayHaveForgotten(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	want := f.numbered(3)
	f.killed("23 hours 1 minute")
	r, _ := f.relay(s)
	f.eventually("they have failed, or were sent", func() bool { return r.Counts().Failed == 3 || s.came() > 0 })
	failed, err := f.table.Failed(t.Context(), 0, 10)
	if err != nil || len(failed) != 3 || failed[0].Error.Code != "outcome_unknown" || s.came() != 0 {
		t.Fatalf("%+v %v", failed, err)
	}
	if _, err := f.table.RetryAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.empty()
	f.once(s, want)
}

// While an earlier request may still arrive, rows that are refused for the time being stay in their batch.
func TestABatchStaysWholeWhileATryIsUnderWay(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	want := f.numbered(20)
	f.killed("1 minute")
	s.each = func(api.SubmitRequest) *problem.Problem {
		return problem.New(problem.QueueFull, "full").WithRetryAfter(time.Millisecond)
	}
	f.relay(s)
	f.eventually("it was refused", func() bool { return s.came() >= 2 })
	s.set(func(s *server) { s.each = nil })
	f.empty()
	f.once(s, want)
	if keys := s.keys(); len(keys) != 1 {
		t.Errorf("%d batches", len(keys))
	}
}

// A first try that was refused frees its rows: they can go with others.
func TestRefusedRowsLeaveABatchThatWasSentOnce(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	f.numbered(2)
	s.each = func(api.SubmitRequest) *problem.Problem {
		return problem.New(problem.QueueFull, "full").WithRetryAfter(time.Hour)
	}
	r, _ := f.relay(s)
	f.eventually("they wait", func() bool { return r.Counts().Postponed == 2 })
	if got := value[string](f, `SELECT string_agg(state || ' ' || refusals || ' ' || (error ->> 'code') || ' ' || (not_before > now() + interval '59 minutes'), ', ') FROM forgequeue_outbox`); got != "waiting 1 queue_full true, waiting 1 queue_full true" {
		t.Errorf("%s", got)
	}
	if n := value[int](f, `SELECT count(*) FROM forgequeue_outbox_batches`); n != 0 {
		t.Errorf("%d batches", n)
	}
}

// A relay whose lease has run out changes nothing of a batch that another one has taken.
func TestALateRefusalIsNotRecorded(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	want := f.numbered(5)
	var first atomic.Bool
	s.before = func([]api.SubmitRequest) {
		if first.CompareAndSwap(false, true) {
			f.exec(`UPDATE forgequeue_outbox_batches SET tries = tries + 1, next_at = now() + interval '2 seconds'`)
			s.set(func(s *server) {
				s.each = func(api.SubmitRequest) *problem.Problem { return problem.New(problem.QueueFull, "full") }
			})
			return
		}
		s.set(func(s *server) { s.each = nil })
	}
	f.relay(s)
	f.empty()
	f.once(s, want)
	if keys := s.keys(); len(keys) != 1 {
		t.Errorf("the rows were sent in %d batches", len(keys))
	}
}

// A request without an answer is given up within the lease, and repeated.
func TestAHangingServerCostsARepeat(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	want := f.numbered(5)
	release := make(chan struct{})
	var first atomic.Bool
	s.before = func([]api.SubmitRequest) {
		if first.CompareAndSwap(false, true) {
			<-release
		}
	}
	f.relay(s, func(o *outbox.Options) { o.Lease = 2 * time.Second })
	f.eventually("another request comes", func() bool { return len(s.stored()) == 5 })
	close(release)
	f.empty()
	f.once(s, want)
}

// Many keys whose first rows have failed do not keep a relay from the keys after them.
func TestKeysAfterManyThatAreHeldUp(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	f.exec(`SELECT forgequeue_enqueue('x', to_jsonb(i), ordering_key => 'a' || i) FROM generate_series(1, 300) i`)
	f.exec(`UPDATE forgequeue_outbox SET state = 'failed', error = '{"code": "x"}', ended_at = now()`)
	f.exec(`SELECT forgequeue_enqueue('x', '1', ordering_key => 'z'), forgequeue_enqueue('x', '2', ordering_key => 'z')`)
	f.relay(s, func(o *outbox.Options) { o.Batch = 5 })
	f.empty()
	f.once(s, []string{"1", "2"})
}

// A password does not show in an error.
func TestConnectHidesThePassword(t *testing.T) {
	t.Parallel()
	_, err := outbox.Connect(t.Context(), "postgres://u:hunter2@h:port/x", 2)
	if err == nil || strings.Contains(fmt.Sprint(err), "hunter2") {
		t.Errorf("%v", err)
	}
}

// As through a pooler in transaction mode: without prepared statements.
func TestRelayWithoutPreparedStatements(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	want := f.numbered(20)
	f.exec(`SELECT forgequeue_enqueue('x', '21', ordering_key => 'k'), forgequeue_enqueue('bad', '22')`)
	s.each = func(job api.SubmitRequest) *problem.Problem {
		switch {
		case job.Type == "bad":
			return problem.New(problem.Forbidden, "no")
		case len(s.jobs) == 5:
			return problem.New(problem.QueueFull, "full").WithRetryAfter(time.Millisecond)
		}
		return nil
	}
	pooled := connected(t, with(t, f.pool.Config().ConnString(), "default_query_exec_mode", "exec"))
	r, _ := pooled.relay(s, func(o *outbox.Options) { o.Retain = time.Hour })
	f.eventually("the bad one has failed", func() bool { return r.Counts().Failed == 1 })
	s.set(func(s *server) { s.each = nil })
	f.empty()
	f.once(s, append(want, "21"))
	if failed, err := pooled.table.Failed(t.Context(), 0, 10); err != nil || len(failed) != 1 {
		t.Errorf("%+v %v", failed, err)
	}
	if _, err := pooled.table.RetryAll(t.Context()); err != nil {
		t.Error(err)
	}
	f.empty()
}

// The rights that the page names are enough.
func TestRelayWithLeastRights(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	role := fmt.Sprintf("fq_relay_%d", time.Now().UnixNano())
	f.exec("CREATE ROLE " + role)
	t.Cleanup(func() { onServer(t, "DROP ROLE "+role) })
	f.exec("GRANT SELECT, UPDATE, DELETE ON forgequeue_outbox TO " + role + "; GRANT SELECT, INSERT, UPDATE, DELETE ON forgequeue_outbox_batches TO " + role)
	want := f.numbered(20)
	limited := connected(t, with(t, f.pool.Config().ConnString(), "role", role))
	s.each = func(job api.SubmitRequest) *problem.Problem {
		if string(job.Payload) == "7" {
			return problem.New(problem.Forbidden, "no")
		}
		return nil
	}
	r, stop := limited.relay(s)
	f.eventually("one has failed", func() bool { return r.Counts().Failed == 1 })
	s.set(func(s *server) { s.each = nil })
	if _, err := limited.table.RetryAll(t.Context()); err != nil {
		t.Error(err)
	}
	f.empty()
	stop()
	f.once(s, want)
	f.exec("DROP OWNED BY " + role)
	if c := r.Counts(); c.Errors > 0 {
		t.Errorf("%+v", c)
	}
}
