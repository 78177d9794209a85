package jobs_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestActiveCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(3))
	ids := f.Submit(f.Jobs(3, limits)...)
	one := f.Job(limits)
	refused := f.TrySubmit(submit.Submission{Tenant: f.Tenant, Jobs: []submit.NewJob{one}})[0]
	if refused.Problem == nil || refused.Problem.Code != problem.ActiveCapReached {
		t.Fatalf("a fourth job of three: %+v", refused)
	}
	want := problem.Policy{Name: "tenant-active", Limit: 3, Current: 3}
	if got := refused.Problem.Policies; len(got) != 1 || got[0].RetryAfterMS != nil || got[0].Name != want.Name || got[0].Limit != 3 || got[0].Current != 3 {
		t.Errorf("policies = %+v, want %+v", got, want)
	}
	if refused.Problem.RetryAfterMS == nil {
		t.Error("a refusal says when to come back")
	}

	// Running is active, and so is a job that waits for its retry.
	claimed := f.ClaimOne()
	f.End(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindFail, Error: &api.JobError{Message: "no"}})
	if got := f.Admitted(f.Job(limits)); got != 0 {
		t.Error("a retry gave its slot away")
	}
	if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", claimed.ID); err != nil {
		t.Fatal(err)
	}
	if got := f.Admitted(f.Jobs(2, limits)...); got != 1 {
		t.Errorf("after a cancel %d were admitted, want 1", got)
	}
	for range 2 { // of the three first ones
		next := f.ClaimOne()
		f.End(jobs.Ending{Lease: next.Lease(), Kind: api.KindComplete})
	}
	if got := f.Admitted(f.Jobs(3, limits)...); got != 2 {
		t.Errorf("after two finishes %d were admitted, want 2", got)
	}
	_ = ids
	f.NoDrift()
}

// Every cap that is full is named, and a queue's has a code of its own.
func TestCapsOfUserAndQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bob := []func(*submit.NewJob){celltest.Of("bob"), celltest.Under(f.UserCap("bob", 1), f.QueueCap("default", 2))}
	ann := []func(*submit.NewJob){celltest.Of("ann"), celltest.Under(f.UserCap("ann", 5), f.QueueCap("default", 2))}
	if got := f.Admitted(f.Job(bob...), f.Job(bob...), f.Job(ann...), f.Job(ann...)); got != 2 {
		t.Fatalf("%d were admitted, want one of each", got)
	}
	answers := f.TrySubmit(
		submit.Submission{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job(bob...)}},
		submit.Submission{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job(ann...)}},
	)
	if p := answers[0].Problem; p.Code != problem.ActiveCapReached || len(p.Policies) != 2 || !strings.Contains(p.Detail, `"bob"`) {
		t.Errorf("bob got %v %+v", p, p.Policies)
	}
	if p := answers[1].Problem; p.Code != problem.QueueFull || p.Policies[0].Name != "queue-active" {
		t.Errorf("ann got %v %+v", p, p.Policies)
	}
	f.NoDrift()
}

func TestBatchUnderCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(3))
	atomic := submit.Submission{Tenant: f.Tenant, Jobs: f.Jobs(4, limits), Batch: true, Atomic: true}
	if got := f.TrySubmit(atomic)[0]; got.Problem == nil || got.Problem.Code != problem.ActiveCapReached || got.Accepted != 0 {
		t.Fatalf("an atomic batch of four under three: %+v", got)
	}
	plain := submit.Submission{Tenant: f.Tenant, Jobs: f.Jobs(4, limits), Batch: true}
	if got := f.TrySubmit(plain)[0]; got.Accepted != 3 || !strings.Contains(string(celltest.ResponseTo(&got).Body), `"rejected":1`) {
		t.Fatalf("a batch of four under three: %d, %s", got.Accepted, celltest.ResponseTo(&got).Body)
	}
	f.NoDrift()
}

// A replay takes no slot, a refusal leaves no key, and a dedupe hit needs no capacity.
func TestCapAndKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(1))
	keyed := func(key string, j submit.NewJob) submit.Submission {
		return submit.Submission{Tenant: f.Tenant, Jobs: []submit.NewJob{j}, Idempotency: &submit.Idempotency{Operation: "o", Key: key}}
	}
	dedupe := "d"
	first := f.Job(limits, func(j *submit.NewJob) { j.DedupeKey = &dedupe })
	if got := f.TrySubmit(keyed("a", first))[0]; got.Accepted != 1 {
		t.Fatalf("first: %+v", got)
	}
	if got := f.TrySubmit(keyed("a", f.Job(limits)))[0]; !got.Replayed {
		t.Errorf("the replay is %+v", got)
	}
	if got := f.TrySubmit(keyed("b", f.Job(limits)))[0]; got.Problem == nil || got.Problem.Code != problem.ActiveCapReached {
		t.Errorf("over the cap: %+v", got)
	}
	again := f.Job(limits, func(j *submit.NewJob) { j.DedupeKey = &dedupe })
	if got := f.TrySubmit(submit.Submission{Tenant: f.Tenant, Jobs: []submit.NewJob{again}})[0]; celltest.ResponseTo(&got).Status != 200 || got.Accepted != 0 {
		t.Errorf("a dedupe hit at the cap: %+v", got)
	}
	f.End(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	if got := f.TrySubmit(keyed("b", f.Job(limits)))[0]; got.Accepted != 1 || got.Replayed {
		t.Errorf("the refused key, once there is capacity: %+v", got)
	}
	f.NoDrift()
}

func TestRedriveTakesASlot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := []caps.Cap{f.ActiveCap(2)}
	capsOf := func(string, *string) []caps.Cap { return limits }
	var dead []uuid.UUID
	for range 3 {
		f.Submit(f.Job(celltest.Under(limits...)))
		claimed := f.ClaimOne()
		f.End(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindFail, Permanent: true})
		dead = append(dead, claimed.ID)
	}
	got := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", append(dead, dead[0]), capsOf)
	refused := 0
	for _, one := range got[:3] {
		if p, ok := problem.From(one.Err); ok && p.Code == problem.ActiveCapReached {
			refused++
		} else if one.Err != nil {
			t.Error(one.Err)
		}
	}
	if refused != 1 || got[3].Err == nil {
		t.Errorf("%d of three were refused, want 1; named twice: %v", refused, got[3].Err)
	}
	f.NoDrift()
	if n := f.Admitted(f.Job(celltest.Under(limits...))); n != 0 {
		t.Error("a redriven job has no slot")
	}
}

// A cap that is set when there are jobs counts them, whatever ends at the same time.
func TestCapBackfillsExistingJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Jobs(60)...)
	claimed := f.Claim(40, time.Minute)
	var group sync.WaitGroup
	for _, c := range claimed[:30] {
		group.Go(func() {
			f.Store.Jobs.End(f.Context(), []jobs.Ending{{Lease: c.Lease(), Kind: api.KindComplete}})
		})
	}
	limits := celltest.Under(f.ActiveCap(31))
	f.TrySubmit(submit.Submission{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job(limits)}}) // somewhere among the finishes
	group.Wait()
	f.Backfill(f.ActiveCap(0).CountKey)
	f.NoDrift()
	use, err := f.Store.Tenants.CapUse(t.Context(), []caps.Cap{f.ActiveCap(31)})
	if err != nil {
		t.Fatal(err)
	}
	if live := f.Live(); use[0].Used != live {
		t.Errorf("used = %d, live %d", use[0].Used, live)
	}
	// removed and set again: what was stored in between is counted too
	if err := f.Store.Counts.DropCounts(t.Context(), []caps.CountKey{f.ActiveCap(0).CountKey}); err != nil {
		t.Fatal(err)
	}
	f.Submit(f.Jobs(5)...)
	if got := f.Admitted(f.Job(celltest.Under(f.ActiveCap(f.Live())))); got != 0 {
		t.Error("jobs that were stored without a cap have slots to give")
	}
	f.NoDrift()
}

// A finish whose transaction is old and commits late is not lost: rows of the log
// that were written in between have not folded past it.
func TestLateCreditIsFolded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(100))
	f.Submit(f.Jobs(3, limits)...)
	late := celltest.Connect(t, f.URL)
	tx, err := late.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const finish = `
WITH gone AS (DELETE FROM jobs WHERE id = (SELECT id FROM jobs LIMIT 1) RETURNING tenant_id)
INSERT INTO usage_credits (tenant_id, counter, name, n, xid) SELECT tenant_id, 1, '', -1, pg_current_xact_id() FROM gone`
	if _, err := tx.Exec(t.Context(), finish); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.Submit(f.Job(limits))
		if _, _, err := f.Store.Counts.PruneUsage(t.Context(), caps.CountKey{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Submit(f.Job(limits))
	f.NoDrift()
	if got := f.Admitted(f.Jobs(97, limits)...); got != 94 {
		t.Errorf("admitted %d to 6 of 100, want 94", got)
	}
}

// Jobs go in and out from two cores at once, in every way there is; at no commit
// are there more than the caps allow, and no count is wrong at the end.
func TestCapsHoldUnderLoad(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"credits are folded", "an old transaction keeps them from it"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if strings.HasPrefix(name, "an old") {
				f.OpenWriter()
			}
			f.capsHoldUnderLoad()
		})
	}
}

func (f *fixture) capsHoldUnderLoad() {
	f.Helper()
	t := f.T
	const limit, running, rounds = 5, 3, 60
	load := &capLoad{fixture: f, active: f.ActiveCap(limit), running: f.RunningCap(running)}
	load.second = celltest.OpenURL(t, f.URL)
	var quiet atomic.Bool
	var watching, group sync.WaitGroup
	watching.Go(func() { load.watch(&quiet, limit, running) })
	// With an old transaction the credits of a count get a mark once they are many: how many there
	// are after so many rounds depends on how often the calls find something to do.
	beside := celltest.Connect(f, f.URL) // the watch has the fixture's connection
	marked := func() (marked bool) {
		if err := beside.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM usage_log WHERE seen IS NOT NULL)`).Scan(&marked); err != nil {
			t.Error(err)
		}
		return marked
	}
	old := strings.HasSuffix(t.Name(), "it")
	for again := range 10 {
		for i := range 12 {
			group.Go(func() { load.play(rand.New(rand.NewPCG(uint64(i), uint64(7+again))), rounds) })
		}
		group.Wait()
		if !old || marked() {
			break
		}
	}
	quiet.Store(true)
	watching.Wait()
	if load.checks.Load() == 0 || load.accepted.Load() < limit || load.refused.Load() == 0 || load.claimed.Load() == 0 {
		t.Fatalf("nothing was shown: %d checks, %d accepted, %d refused, %d claimed",
			load.checks.Load(), load.accepted.Load(), load.refused.Load(), load.claimed.Load())
	}
	if old && !marked() {
		t.Error("no row of the log has a mark")
	}
	f.NoDrift()
	left := limit - int(f.Live())
	if got := f.Admitted(f.Jobs(left+2, celltest.Under(load.active))...); got != left {
		t.Errorf("once quiet %d were admitted, want %d", got, left)
	}
	f.NoDrift()
}

// capLoad is what TestCapsHoldUnderLoad does.
type capLoad struct {
	*fixture
	second                             *cell.Cell
	active, running                    caps.Cap
	checks, accepted, refused, claimed atomic.Int64
	dead                               sync.Map
}

func (l *capLoad) watch(quiet *atomic.Bool, limit, running int64) {
	for !quiet.Load() {
		var active, leased int64
		if err := l.Direct.QueryRow(l.Context(), `SELECT count(*), count(*) FILTER (WHERE state = 'running') FROM jobs`).Scan(&active, &leased); err != nil {
			l.Error(err)
			return
		}
		l.checks.Add(1)
		if active > limit || leased > running {
			l.Errorf("%d active of %d, %d running of %d", active, limit, leased, running)
			return
		}
	}
}

func (l *capLoad) play(random *rand.Rand, rounds int) {
	for range rounds {
		store := l.Store
		if random.IntN(2) == 0 {
			store = l.second
		}
		switch random.IntN(4) {
		case 0, 1:
			l.put(store, random)
		case 2:
			l.work(store, random)
		default:
			l.raise(store)
		}
	}
}

func (l *capLoad) put(store *cell.Cell, random *rand.Rand) {
	submission := submit.Submission{Tenant: l.Tenant, Batch: true, Atomic: random.IntN(3) == 0, Jobs: l.Jobs(1+random.IntN(3), celltest.Under(l.active))}
	if random.IntN(3) == 0 {
		submission.Idempotency, submission.Render = &submit.Idempotency{Operation: "o", Key: fmt.Sprint(random.IntN(50))}, celltest.Render
	}
	answers, err := store.Submits.Submit(l.Context(), []submit.Submission{submission})
	if err != nil {
		l.Error(err)
		return
	}
	l.accepted.Add(int64(answers[0].Accepted))
	if answers[0].Accepted < len(submission.Jobs) {
		l.refused.Add(1)
	}
}

func (l *capLoad) work(store *cell.Cell, random *rand.Rand) {
	taken, err := store.Claims.Claim(l.Context(), claim.Request{
		Lanes:   []claim.Lane{{ID: l.Lane.ID, Tenant: l.Tenant, VisibilityTimeout: time.Minute, Caps: []caps.Cap{l.running}}},
		Workers: []claim.Worker{{ID: "w", Max: 1 + random.IntN(4)}}, Owner: l.Tenant, LeaseID: uuid.New(),
	})
	if err != nil {
		l.Error(err)
		return
	}
	l.claimed.Add(int64(len(taken.Jobs)))
	kinds := []string{api.KindComplete, api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease}
	endings := make([]jobs.Ending, len(taken.Jobs))
	for i, c := range taken.Jobs {
		endings[i] = jobs.Ending{Lease: c.Lease(), Kind: kinds[random.IntN(len(kinds))], Permanent: true}
		if endings[i].Kind == api.KindFail {
			l.dead.Store(c.ID, nil)
		}
	}
	for _, ended := range store.Jobs.End(l.Context(), endings) {
		if ended.Err != nil {
			l.Error(ended.Err)
		}
	}
}

// raise redrives what died and cancels what waits.
func (l *capLoad) raise(store *cell.Cell) {
	var ids []uuid.UUID
	l.dead.Range(func(id, _ any) bool {
		l.dead.Delete(id)
		ids = append(ids, id.(uuid.UUID))
		return len(ids) < 3
	})
	for _, one := range store.DeadLetters.Redrive(l.Context(), l.Tenant, "", ids, func(string, *string) []caps.Cap { return []caps.Cap{l.active} }) {
		if p, ok := problem.From(one.Err); ok && p.Code == problem.ActiveCapReached {
			l.refused.Add(1)
		}
	}
	for _, id := range ids {
		_, _, _ = store.Jobs.Cancel(l.Context(), l.Tenant, "", id) // whatever it is by now
	}
}

// A lease that ends in any way gives its running slot back.
func TestRunningCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Jobs(20)...)
	take := func(most int) []claim.Job {
		taken, err := f.Store.Claims.Claim(t.Context(), claim.Request{
			Lanes:   []claim.Lane{{ID: f.Lane.ID, Tenant: f.Tenant, VisibilityTimeout: time.Minute, Caps: []caps.Cap{f.RunningCap(2)}}},
			Workers: []claim.Worker{{ID: "w", Max: most}}, Owner: f.Tenant, LeaseID: uuid.New(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return taken.Jobs
	}
	for _, end := range []func(claim.Job){
		func(c claim.Job) { f.End(jobs.Ending{Lease: c.Lease(), Kind: api.KindComplete}) },
		func(c claim.Job) { f.End(jobs.Ending{Lease: c.Lease(), Kind: api.KindFail}) },
		func(c claim.Job) { f.End(jobs.Ending{Lease: c.Lease(), Kind: api.KindFail, Permanent: true}) },
		func(c claim.Job) { f.End(jobs.Ending{Lease: c.Lease(), Kind: api.KindSnooze, Delay: time.Hour}) },
		func(c claim.Job) { f.Store.Jobs.GiveBack(t.Context(), []job.Lease{c.Lease()}) },
		func(c claim.Job) {
			if _, err := f.Direct.Exec(t.Context(), `UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 s' WHERE id = $1`, c.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Store.Jobs.Reap(t.Context(), time.Time{}, 10, rand.Float64); err != nil {
				t.Fatal(err)
			}
		},
	} {
		got := take(5)
		if len(got) != 2 || len(take(5)) != 0 {
			t.Fatalf("claimed %d at once, want 2 and then none", len(got))
		}
		for _, c := range got {
			end(c)
		}
		f.NoDrift()
	}
}

// A dump restored on another server brings transaction numbers that mean nothing
// there: the counts are reset.
func TestUsageAfterRestore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(4))
	f.Submit(f.Jobs(3, limits)...)
	if _, err := f.Direct.Exec(t.Context(), `UPDATE usage_log SET bound = '9000000000000'`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.Admitted(f.Jobs(2, limits)...); got != 1 {
		t.Errorf("admitted %d, want 1", got)
	}
	f.NoDrift()
}

// Rows that are folded go; what the count is made of stays.
func TestPruneUsage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(5))
	for range 20 {
		f.Submit(f.Job(limits))
		f.End(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	}
	var last string // transaction of those
	if err := f.Direct.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	left := func() (log, credits int) {
		t.Helper()
		err := f.Direct.QueryRow(t.Context(), `
			SELECT (SELECT count(*) FROM usage_log), (SELECT count(*) FROM usage_credits WHERE xid < $1::xid8)`, last).Scan(&log, &credits)
		if err != nil {
			t.Fatal(err)
		}
		return log, credits
	}
	if log, credits := left(); log < 2 || credits == 0 {
		t.Fatalf("%d rows and %d credits: there is nothing to prune", log, credits)
	}
	// A transaction anywhere on the server, another test's, prevents later credits from
	// being folded, for as long as it takes.
	celltest.EventuallyWithin(t, 5*time.Minute, "everybody sees them", func() (seen bool) {
		if err := f.Direct.QueryRow(t.Context(), `SELECT pg_snapshot_xmin(pg_current_snapshot()) > $1::xid8`, last).Scan(&seen); err != nil {
			t.Fatal(err)
		}
		return seen
	})
	f.Submit(f.Job(limits))
	if _, _, err := f.Store.Counts.PruneUsage(t.Context(), caps.CountKey{}); err != nil {
		t.Fatal(err)
	}
	if log, credits := left(); log != 1 || credits != 0 {
		t.Errorf("%d rows of the log and %d credits are left, want 1 and 0", log, credits)
	}
	f.NoDrift()
	if got := f.Admitted(f.Jobs(6, limits)...); got != 4 {
		t.Errorf("admitted %d, want 4", got)
	}
}

// In one flush: a key's first request is refused, and leaves no key. One with
// another body is then the first of that key, not a mismatch.
func TestKeyAfterARefusedTwin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(1))
	keyed := func(body byte, jobs ...submit.NewJob) submit.Submission {
		return submit.Submission{
			Tenant: f.Tenant, Jobs: jobs, Batch: true, Atomic: true,
			Idempotency: &submit.Idempotency{Operation: "o", Key: "k", Fingerprint: [32]byte{body}},
		}
	}
	answers := f.TrySubmit(keyed(1, f.Jobs(2, limits)...), keyed(2, f.Job(limits)), keyed(1, f.Jobs(2, limits)...), keyed(2, f.Job(limits)), keyed(3, f.Job(limits)))
	codes := make([]string, len(answers))
	for i, answer := range answers {
		codes[i] = fmt.Sprint(celltest.ResponseTo(&answer).Status, " ", answer.Replayed)
		if answer.Problem != nil {
			codes[i] = string(answer.Problem.Code)
		}
	}
	want := "active_cap_reached, 200 false, active_cap_reached, 200 true, idempotency_mismatch"
	if got := strings.Join(codes, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	f.NoDrift()
}
