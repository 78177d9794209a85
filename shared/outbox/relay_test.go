package outbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/outbox"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// numbered commits rows of one type with payloads from 1 to n.
func (f *fixture) numbered(n int) (want []string) {
	f.Helper()
	f.exec(`SELECT forgequeue_enqueue('x', to_jsonb(i)) FROM generate_series(1, $1::int) i`, n)
	for i := range n {
		want = append(want, fmt.Sprint(i+1))
	}
	return want
}

// once fails unless the jobs are exactly the wanted ones.
func (f *fixture) once(s *server, want []string) {
	f.Helper()
	got := s.stored()
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		f.Errorf("%d jobs are stored, of %d rows: %v", len(got), len(want), difference(got, want))
	}
}

func difference(got, want []string) (texts []string) {
	counts := map[string]int{}
	for _, one := range got {
		counts[one]++
	}
	for _, one := range want {
		counts[one]--
	}
	for one, n := range counts {
		if n != 0 && len(texts) < 20 {
			texts = append(texts, fmt.Sprintf("%s %+d", one, n))
		}
	}
	return texts
}

func TestRelaySendsWhatWasCommitted(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	want := f.numbered(30)
	f.in(false, func(tx pgx.Tx) { _, _ = outbox.Submit(t.Context(), tx, email{"nobody"}) })
	r, stop := f.relay(s, func(o *outbox.Options) { o.Batch = 7 })
	f.empty()
	f.in(true, func(tx pgx.Tx) {
		if _, err := outbox.Submit(t.Context(), tx, email{"ada"}); err != nil {
			t.Error(err)
		}
	})
	f.empty()
	stop()
	f.once(s, append(want, `{"to":"ada"}`))
	if n := value[int](f, `SELECT (SELECT count(*) FROM forgequeue_outbox) + (SELECT count(*) FROM forgequeue_outbox_batches)`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if c := r.Counts(); c.Sent != 31 || c.Failed != 0 || c.Requests < 6 || c.Errors != 0 {
		t.Errorf("%+v", c)
	}
}

// A notification wakes a relay that polls once an hour; where there is none, the poll finds the rows.
func TestRelayIsWoken(t *testing.T) {
	for _, notified := range []bool{true, false} {
		t.Run(fmt.Sprint(notified), func(t *testing.T) {
			f, s := newFixture(t), newServer(t)
			poll := time.Hour
			if !notified {
				f.exec("ALTER TABLE forgequeue_outbox DISABLE TRIGGER forgequeue_outbox_notify")
				poll = 20 * time.Millisecond
			}
			f.relay(s, func(o *outbox.Options) { o.Poll, o.Senders = poll, 1 })
			f.eventually("it listens", func() bool {
				return value[int](f, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN forgequeue_outbox'`) == 1
			})
			for i := range 3 {
				f.enqueue("x", "")
				f.eventually("it is sent", func() bool { return len(s.stored()) == i+1 })
			}
		})
	}
}

// Answers are lost, requests are refused for the time being, relays come and go, leases run out: each row is one job.
func TestEachRowIsOneJob(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	s.lose = func(int) bool { return rand.N(4) == 0 }
	s.whole = func(int, []api.SubmitRequest) *problem.Problem {
		switch rand.N(8) {
		case 0:
			return problem.New(problem.CoreUnavailable, "down")
		case 1:
			return problem.New(problem.RateLimited, "slowly").WithRetryAfter(10 * time.Millisecond)
		}
		return nil
	}
	s.each = func(api.SubmitRequest) *problem.Problem {
		if rand.N(10) == 0 {
			return problem.New(problem.QueueFull, "full").WithRetryAfter(10 * time.Millisecond)
		}
		return nil
	}
	s.before = func([]api.SubmitRequest) { time.Sleep(rand.N(20 * time.Millisecond)) }
	var want []string
	change := func(o *outbox.Options) { o.Batch, o.Lease = 20, 2*time.Second }
	var stops []func()
	for range 3 {
		_, stop := f.relay(s, change)
		stops = append(stops, stop)
	}
	for round := range 8 {
		f.exec(`SELECT forgequeue_enqueue('x', to_jsonb(i), ordering_key => CASE WHEN i % 3 = 0 THEN 'k' || i % 7 END) FROM generate_series($1::int, $2::int) i`, round*50, round*50+49)
		for i := range 50 {
			want = append(want, fmt.Sprint(round*50+i))
		}
		stops[round%3]()
		_, stops[round%3] = f.relay(s, change)
	}
	// A minute of backoffs is not what this is about.
	s.set(func(s *server) { s.lose, s.whole, s.each = nil, nil, nil })
	f.empty()
	f.once(s, want)
}

func TestRowsOfAKeyAreSentInOrder(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	var mu sync.Mutex
	inFlight := map[string]int{}
	keyOf := func(job api.SubmitRequest) string { return job.Metadata["key"] }
	s.before = func(jobs []api.SubmitRequest) {
		mu.Lock()
		for _, job := range jobs {
			if inFlight[keyOf(job)]++; inFlight[keyOf(job)] > 1 {
				t.Errorf("two rows of %s are in flight", keyOf(job))
			}
		}
		mu.Unlock()
		time.Sleep(rand.N(5 * time.Millisecond))
		mu.Lock()
		defer mu.Unlock()
		for _, job := range jobs {
			inFlight[keyOf(job)]--
		}
	}
	s.each = func(api.SubmitRequest) *problem.Problem {
		if rand.N(10) == 0 {
			return problem.New(problem.QueueFull, "full").WithRetryAfter(time.Millisecond)
		}
		return nil
	}
	for range 3 {
		f.relay(s, func(o *outbox.Options) { o.Batch = 5 })
	}
	const keys, rows = 12, 6
	var group sync.WaitGroup
	for key := range keys {
		group.Go(func() {
			for i := range rows { // one transaction after the other, two rows in each
				f.exec(`SELECT forgequeue_enqueue('x', to_jsonb($2::int), metadata => jsonb_build_object('key', $1::text), ordering_key => $1),
					forgequeue_enqueue('x', to_jsonb($2::int + 1), metadata => jsonb_build_object('key', $1::text), ordering_key => $1)`, fmt.Sprint("k", key), 2*i)
			}
		})
	}
	group.Wait()
	s.set(func(s *server) { s.each = nil })
	f.empty()
	s.mu.Lock()
	defer s.mu.Unlock()
	order := map[string]string{}
	for _, job := range s.jobs {
		order[keyOf(job)] += string(job.Payload) + " "
	}
	for key := range keys {
		if got := order[fmt.Sprint("k", key)]; got != "0 1 2 3 4 5 6 7 8 9 10 11 " {
			t.Errorf("k%d: %s", key, got)
		}
	}
}

// A key with many rows, or many keys that are held up, hold nobody else up.
func TestKeysDoNotHoldOthersUp(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	s.each = func(job api.SubmitRequest) *problem.Problem {
		if job.Type == "bad" {
			return problem.Invalid(problem.FieldError{Field: "jobs[0].type", Message: "is bad"})
		}
		return nil
	}
	f.exec(`SELECT forgequeue_enqueue('x', to_jsonb(i), ordering_key => 'busy') FROM generate_series(1, 2000) i`)
	f.exec(`SELECT forgequeue_enqueue('bad', to_jsonb(i), ordering_key => 'bad' || i) FROM generate_series(1, 60) i`)
	f.exec(`SELECT forgequeue_enqueue('x', '"held"', ordering_key => 'bad1')`)
	f.relay(s, func(o *outbox.Options) { o.Batch = 10 })
	f.eventually("the bad rows have failed", func() bool {
		stats, err := f.table.Stats(t.Context())
		return err == nil && stats.Failed == 60
	})
	f.exec(`SELECT forgequeue_enqueue('x', '"another"', ordering_key => 'zebra'), forgequeue_enqueue('x', '"free"')`)
	f.eventually("others are sent", func() bool {
		stored := s.stored()
		return slices.Contains(stored, `"another"`) && slices.Contains(stored, `"free"`)
	})
	if stored := s.stored(); len(stored) > 2000 || slices.Contains(stored, `"held"`) {
		t.Errorf("%d jobs: they had to wait for the key with many rows, or a key's row went before", len(stored))
	}
}

func TestRefusedRowsAreSetAside(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	bad := func(s *server) {
		s.each = func(job api.SubmitRequest) *problem.Problem {
			if job.Type == "bad" {
				return problem.Invalid(problem.FieldError{Field: "jobs[0].type", Message: "is bad\x00"})
			}
			return nil
		}
	}
	bad(s)
	first := f.enqueue("bad", `'1', ordering_key => 'k'`)
	f.enqueue("x", `'2', ordering_key => 'k'`)
	second := f.enqueue("bad", `'3'`)
	f.enqueue("x", `'4'`)
	r, _ := f.relay(s)
	f.eventually("two have failed, one is sent", func() bool { return r.Counts().Failed == 2 && r.Counts().Sent >= 1 })
	failed, err := f.table.Failed(t.Context(), 0, 10)
	if err != nil || len(failed) != 2 || failed[0].ID != first || failed[1].ID != second {
		t.Fatalf("%+v %v", failed, err)
	}
	if one := failed[0]; one.Error.Code != "invalid_request" || one.Error.Status != 400 || !strings.Contains(one.Error.Detail, "is bad") ||
		one.Type != "bad" || one.Queue != "default" || *one.OrderingKey != "k" {
		t.Errorf("%+v", one)
	}
	if rest, err := f.table.Failed(t.Context(), first, 1); err != nil || len(rest) != 1 || rest[0].ID != second {
		t.Errorf("%+v %v", rest, err)
	}
	// Retried while the server refuses it still: it fails again.
	if ids, err := f.table.Retry(t.Context(), second, 4711); err != nil || !slices.Equal(ids, []int64{second}) {
		t.Errorf("%v %v", ids, err)
	}
	f.eventually("it has failed again", func() bool { return r.Counts().Failed == 3 })
	if ids, err := f.table.Discard(t.Context(), second); err != nil || !slices.Equal(ids, []int64{second}) {
		t.Errorf("%v %v", ids, err)
	}
	if stored := s.stored(); !slices.Equal(stored, []string{"4"}) {
		t.Errorf("%v: the row after a failed one of its key was sent", stored)
	}
	s.set(func(s *server) { s.each = nil })
	if ids, err := f.table.RetryAll(t.Context()); err != nil || !slices.Equal(ids, []int64{first}) {
		t.Errorf("%v %v", ids, err)
	}
	f.empty()
	if stored := s.stored(); !slices.Equal(stored, []string{"4", "1", "2"}) {
		t.Errorf("%v", stored)
	}
}

// A discarded row makes room for the next one of its key.
func TestDiscardLetsAKeyGoOn(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	s.each = func(job api.SubmitRequest) *problem.Problem {
		if job.Type == "bad" {
			return problem.New(problem.Forbidden, "not yours")
		}
		return nil
	}
	bad := f.enqueue("bad", `'1', ordering_key => 'k'`)
	f.enqueue("x", `'2', ordering_key => 'k'`)
	r, _ := f.relay(s)
	f.eventually("it has failed", func() bool { return r.Counts().Failed == 1 })
	if _, err := f.table.Discard(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	f.empty()
	f.once(s, []string{"2"})
}

// A row for which the server refuses a whole request is found, and the others are sent.
func TestOneRowSpoilsNoBatch(t *testing.T) {
	for _, code := range []problem.Code{problem.InvalidJSON, problem.PayloadTooLarge, problem.InvalidRequest} {
		t.Run(string(code), func(t *testing.T) {
			f, s := newFixture(t), newServer(t)
			s.whole = func(_ int, jobs []api.SubmitRequest) *problem.Problem {
				if slices.ContainsFunc(jobs, func(job api.SubmitRequest) bool { return string(job.Payload) == "17" }) {
					return problem.New(code, "spoiled")
				}
				return nil
			}
			want := f.numbered(40)
			r, _ := f.relay(s)
			f.empty()
			f.once(s, slices.DeleteFunc(want, func(one string) bool { return one == "17" }))
			f.eventually("it has failed", func() bool { return r.Counts().Failed > 0 }) // counted after the commit
			if n := r.Counts().Failed; n != 1 {
				t.Errorf("%d rows failed", n)
			}
			if s.came() > 20 {
				t.Errorf("%d requests", s.came())
			}
		})
	}
}

// A batch above a limit's burst is sent in parts.
func TestBatchesAboveABurstAreHalved(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	s.whole = func(_ int, jobs []api.SubmitRequest) *problem.Problem {
		if len(jobs) > 6 {
			return problem.New(problem.CostAboveBurst, "too many")
		}
		return nil
	}
	want := f.numbered(40)
	r, _ := f.relay(s)
	f.empty()
	f.once(s, want)
	if c := r.Counts(); c.Failed != 0 {
		t.Errorf("%+v", c)
	}
}

// A user whose rate is used up does not hold the rows of others up.
func TestARateOfOneUserHoldsNobodyElseUp(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	limited := func(_ int, jobs []api.SubmitRequest) *problem.Problem {
		for _, job := range jobs {
			if job.User != nil && *job.User == "greedy" {
				p := problem.New(problem.RateLimited, "greedy").WithRetryAfter(time.Millisecond)
				p.Policies = []problem.Policy{{Name: "user-jobs"}}
				return p
			}
		}
		return nil
	}
	s.whole = limited
	f.exec(`SELECT forgequeue_enqueue('x', to_jsonb(i), for_user => CASE WHEN i % 10 = 0 THEN 'greedy' ELSE 'modest' END) FROM generate_series(1, 40) i`)
	f.relay(s)
	f.eventually("the others are sent", func() bool { return len(s.stored()) == 36 })
	s.set(func(s *server) { s.whole = nil })
	f.empty()
	if n := len(s.stored()); n != 40 {
		t.Errorf("%d jobs", n)
	}
}

// A wrong key, or another server, costs no row.
func TestNothingIsLostToAWrongKey(t *testing.T) {
	for _, code := range []problem.Code{problem.Unauthenticated, problem.Forbidden, problem.NotFound} {
		t.Run(string(code), func(t *testing.T) {
			f, s := newFixture(t), newServer(t)
			s.whole = func(int, []api.SubmitRequest) *problem.Problem { return problem.New(code, "who?") }
			want := f.numbered(20)
			f.relay(s)
			f.eventually("it was refused", func() bool { return s.came() >= 2 })
			s.set(func(s *server) { s.whole = nil })
			f.empty()
			f.once(s, want)
		})
	}
}

func TestSentRowsAreRetained(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	id := f.enqueue("x", `'1', ordering_key => 'k'`)
	f.enqueue("x", `'2', ordering_key => 'k'`)
	_, stop := f.relay(s, func(o *outbox.Options) { o.Retain = time.Hour })
	f.empty()
	f.once(s, []string{"1", "2"})
	var state, job string
	if err := f.pool.QueryRow(t.Context(), `SELECT state, job_id::text FROM forgequeue_outbox WHERE id = $1`, id).Scan(&state, &job); err != nil || state != "sent" || !strings.HasPrefix(job, "00000000-0000-7000-") {
		t.Errorf("%s %s %v", state, job, err)
	}
	stop()
	f.exec(`UPDATE forgequeue_outbox SET ended_at = ended_at - interval '61 minutes' WHERE id = $1`, id)
	f.relay(s, func(o *outbox.Options) { o.Retain = time.Hour })
	f.eventually("the old one is deleted", func() bool { return value[int](f, `SELECT count(*) FROM forgequeue_outbox`) == 1 })
}

// A row that this version cannot read is set aside, and the rest of its batch is sent.
func TestUnreadableRows(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	f.exec(`INSERT INTO forgequeue_outbox (job, bytes) VALUES ('{"type": "x", "from_the_future": 1}', 40), ('[]', 2)`)
	want := f.numbered(3)
	r, _ := f.relay(s)
	f.empty()
	f.once(s, want)
	f.eventually("two have failed", func() bool { return r.Counts().Failed == 2 })
	failed, err := f.table.Failed(t.Context(), 0, 10)
	if err != nil || len(failed) != 2 || failed[0].Error.Code != "unreadable" || !strings.Contains(failed[0].Error.Detail, "from_the_future") {
		t.Errorf("%+v %v", failed, err)
	}
}

// Batches end by size too.
func TestLargeRowsFitIntoRequests(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	f.exec(`SELECT forgequeue_enqueue('x', to_jsonb(repeat(i::text, 260000))) FROM generate_series(1, 5) i, generate_series(1, 8)`)
	largest := 0
	s.before = func(jobs []api.SubmitRequest) {
		text, _ := json.Marshal(api.BatchRequest{Jobs: jobs})
		s.set(func(*server) { largest = max(largest, len(text)) })
	}
	f.relay(s, func(o *outbox.Options) { o.Batch = 1000 })
	f.empty()
	if n := len(s.stored()); n != 40 || largest > api.MaxBatchBody || largest < api.MaxBatchBody/2 {
		t.Errorf("%d jobs, the largest request has %d bytes", n, largest)
	}
}

// Run ends while it waits for a database that does not answer, and ends the batch in flight.
func TestRunEndsInOrder(t *testing.T) {
	f, s := newFixture(t), newServer(t)
	arrived, answer := make(chan struct{}, 10), make(chan struct{})
	s.before = func([]api.SubmitRequest) { arrived <- struct{}{}; <-answer }
	want := f.numbered(3)
	_, stop := f.relay(s)
	<-arrived
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	close(answer)
	<-stopped
	f.once(s, want)
	f.empty()

	unreachable, err := outbox.Connect(t.Context(), "postgres://nobody@127.0.0.1:1/x", 4)
	if err != nil {
		t.Fatal(err)
	}
	defer unreachable.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	r, _ := (&fixture{t, f.pool, unreachable}).relay(s)
	if err := r.Run(ctx); err != nil {
		t.Errorf("%v", err)
	}
}

func TestRelayOptions(t *testing.T) {
	t.Parallel()
	_, err := outbox.NewRelay(outbox.Options{Batch: 1001, Senders: -1, Poll: 1, Lease: 1, Retain: -1})
	for _, want := range []string{"Table and Client", "batch is 1001", "-1 senders", "poll is 1ns", "lease is 1ns", "retention is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
