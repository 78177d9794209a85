package jobs_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Many at once, through two stores on one database: what they did is written down
// in lists, and has to make sense afterwards.
func TestHistoryMakesSense(t *testing.T) {
	t.Parallel()
	const actors = 10
	actions := celltest.Rounds(40, 120)
	f := newFixture(t)
	h := &history{fixture: f, stores: [2]*cell.Cell{f.Store, celltest.OpenURL(t, f.URL)}, keyed: map[string][]string{}}
	h.pool = openPool(t, f.URL)
	var group sync.WaitGroup
	for i := range actors {
		group.Go(func() {
			a := &actor{history: h, store: h.stores[i%2], random: rand.New(rand.NewPCG(uint64(i), 7))}
			for range actions {
				a.act()
			}
		})
	}
	group.Wait()
	t.Logf("%d accepted, %d claims, %d uses, %d reaped, %d expired, %d redriven, %d discarded",
		len(h.accepted), len(h.claims), len(h.uses), len(h.takings), len(h.expired), len(h.redriven), len(h.gone))
	h.checkLeases()
	h.checkLives()
	h.checkKeys()
}

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// history is what all callers did. began and ended are ticks of one counter, taken
// before and after each call.
type history struct {
	*fixture
	stores [2]*cell.Cell
	pool   *pgxpool.Pool
	clock  atomic.Int64

	mu       sync.Mutex
	accepted []uuid.UUID
	claims   []claimed
	uses     []use
	takings  []jobs.Change // of the reaper
	expired  []uuid.UUID
	redriven []uuid.UUID
	gone     []uuid.UUID
	// keyed are the answers to each Idempotency-Key.
	keyed map[string][]string
}

type claimed struct {
	claim.Job
	ended int64
}

// use is a heartbeat (nil outcome) or an ending that was accepted.
type use struct {
	lease   job.Lease
	began   int64
	outcome *api.Outcome
}

func (h *history) note(write func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	write()
}

// actor does one thing after the other.
type actor struct {
	*history
	store  *cell.Cell
	random *rand.Rand
}

func (a *actor) act() {
	for _, choice := range []struct {
		share int
		do    func()
	}{
		{14, a.submit},
		{10, a.submitKeyed},
		{20, a.claim},
		{16, a.beat},
		{20, a.finish},
		{8, a.expire},
		{8, a.reap},
		{3, a.promote},
		{3, a.cancel},
		{8, a.expireDeadlines},
		{4, a.redrive},
	} {
		if a.random.IntN(100) < choice.share {
			choice.do()
		}
	}
}

func (a *actor) submit() {
	made := a.Job(func(j *submit.NewJob) {
		j.MaxAttempts, j.Priority = 1+a.random.IntN(3), a.random.IntN(10)
		if a.random.IntN(2) == 0 {
			deadline := time.Now().Add(time.Hour)
			j.Deadline = &deadline
		}
	})
	if _, err := a.store.Submits.Submit(a.Context(), []submit.Submission{{Tenant: a.Tenant, Jobs: []submit.NewJob{made}}}); err != nil {
		a.Error(err)
		return
	}
	a.note(func() { a.accepted = append(a.accepted, made.ID) })
}

func (a *actor) submitKeyed() {
	// Now and then all move on to a new key, and meet at it.
	key := strconv.FormatInt(a.clock.Add(1)/24, 10)
	submission := a.Single(celltest.Keyed(key, "a"))
	got, err := a.store.Submits.Submit(a.Context(), []submit.Submission{submission})
	if err != nil || got[0].Problem != nil {
		a.Errorf("%+v %v", got, err)
		return
	}
	a.note(func() {
		a.keyed[key] = append(a.keyed[key], string(got[0].Saved.Body))
		if !got[0].Replayed {
			a.accepted = append(a.accepted, submission.Jobs[0].ID)
		}
	})
}

func (a *actor) claim() {
	got, err := a.store.Claims.Claim(a.Context(), claim.Request{
		Lanes:   []claim.Lane{{ID: a.Lane.ID, VisibilityTimeout: time.Hour}},
		Workers: []claim.Worker{{ID: "w", Max: 1 + a.random.IntN(3)}}, Owner: a.Tenant, LeaseID: uuid.New(),
	})
	if err != nil {
		a.Error(err)
	}
	ended := a.clock.Add(1)
	a.note(func() {
		for _, c := range got.Jobs {
			a.claims = append(a.claims, claimed{c, ended})
		}
	})
}

// leases are up to n of those ever given, the latest more often.
func (a *actor) leases(n int) (leases []job.Lease) {
	a.note(func() {
		for range min(n, len(a.claims)) {
			back := min(a.random.IntN(len(a.claims)), a.random.IntN(20))
			leases = append(leases, a.claims[len(a.claims)-1-back].Lease())
		}
	})
	return leases
}

func (a *actor) beat() {
	began := a.clock.Add(1)
	beats, err := a.store.Jobs.Heartbeat(a.Context(), a.leases(5))
	if err != nil {
		a.Error(err)
	}
	a.note(func() {
		for lease := range beats {
			a.uses = append(a.uses, use{lease: lease, began: began})
		}
	})
}

func (a *actor) finish() {
	var endings []jobs.Ending
	for _, lease := range a.leases(3) {
		none := time.Duration(0)
		kind := []string{api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease}[a.random.IntN(4)]
		endings = append(endings, jobs.Ending{Lease: lease, Kind: kind, RetryAfter: &none, Permanent: kind == api.KindFail && a.random.IntN(3) == 0})
	}
	began := a.clock.Add(1)
	for i, e := range a.store.Jobs.End(a.Context(), endings) {
		switch {
		case e.Err == nil && !e.Replayed:
			a.note(func() { a.uses = append(a.uses, use{endings[i].Lease, began, e.Outcome}) })
		case e.Err != nil && !errors.Is(e.Err, jobs.ErrLeaseLost) && !errors.Is(e.Err, jobs.ErrOutcomeConflict) && !errors.Is(e.Err, store.ErrNotFound):
			a.Error(e.Err)
		}
	}
}

func (a *actor) alter(sql string, id uuid.UUID) {
	if _, err := a.pool.Exec(a.Context(), sql, id); err != nil {
		a.Error(err)
	}
}

// expire ends leases, whose holders may act before the reaper.
func (a *actor) expire() {
	for _, lease := range a.leases(3) {
		a.alter(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 millisecond' WHERE id = $1 AND state = 'running'`, lease.Job)
	}
}

func (a *actor) reap() {
	got, err := a.store.Jobs.Reap(a.Context(), time.Unix(0, 0), 1+a.random.IntN(10), celltest.Half)
	if err != nil {
		a.Error(err)
	}
	a.note(func() { a.takings = append(a.takings, got...) })
}

func (a *actor) promote() {
	if _, err := a.store.Jobs.Promote(a.Context(), jobs.AllTime, 10); err != nil {
		a.Error(err)
	}
}

// anyJob is some job's id, Nil before the first.
func (a *actor) anyJob() (id uuid.UUID) {
	a.note(func() {
		if len(a.accepted) > 0 {
			id = a.accepted[a.random.IntN(len(a.accepted))]
		}
	})
	return id
}

func (a *actor) cancel() {
	id := a.anyJob()
	_, _, err := a.store.Jobs.Cancel(a.Context(), a.Tenant, "", id)
	if err != nil && !errors.Is(err, jobs.ErrTerminal) && !errors.Is(err, store.ErrNotFound) {
		a.Error(err)
	}
}

func (a *actor) expireDeadlines() {
	a.alter(`UPDATE jobs SET deadline = statement_timestamp() - interval '1 millisecond' WHERE id = $1 AND deadline IS NOT NULL`, a.anyJob())
	got, err := a.store.Jobs.ExpireDeadlines(a.Context(), jobs.AllTime, 10)
	if err != nil {
		a.Error(err)
	}
	a.note(func() { a.expired = append(a.expired, idsOf(got)...) })
}

func (a *actor) redrive() {
	page, err := a.store.DeadLetters.DeadLetters(a.Context(), a.Tenant, "", api.DeadLetterFilter{}, 3, "")
	if err != nil {
		a.Error(err)
	}
	for _, dead := range page.Items {
		id := uuid.MustParse(dead.Job.ID)
		if a.random.IntN(4) == 0 {
			gone, err := a.store.DeadLetters.Discard(a.Context(), a.Tenant, "", []uuid.UUID{id})
			if err != nil {
				a.Error(err)
			}
			if gone[id] {
				a.note(func() { a.gone = append(a.gone, id) })
			}
			continue
		}
		got := a.store.DeadLetters.Redrive(a.Context(), a.Tenant, "", []uuid.UUID{id}, nil)[0]
		if got.Err == nil {
			a.note(func() { a.redriven = append(a.redriven, id) })
		} else if !errors.Is(got.Err, deadletter.ErrNotDead) && !errors.Is(got.Err, store.ErrNotFound) {
			a.Error(got.Err)
		}
	}
}
