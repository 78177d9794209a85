package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/ledger"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestMain(m *testing.M) { celltest.Main(m) }

// fixture is a database in whose data days go by.
type fixture struct {
	*celltest.Fixture
	// forgetful is the same database with retentions that have always passed.
	forgetful *cell.Cell
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureOn(t, celltest.URL(t))
}

func newFixtureOn(t *testing.T, databaseURL string) *fixture {
	t.Helper()
	f := &fixture{Fixture: celltest.NewFixtureOn(t, databaseURL)}
	var err error
	f.forgetful, err = cell.Open(t.Context(), cell.Options{
		Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: 5 * time.Second}, Retention: retention.Periods{Finished: 24 * time.Hour, DeadLetters: time.Microsecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.forgetful.Close)
	for back := 2; back <= 30; back++ {
		f.Exec(fmt.Sprintf(`DO $$ DECLARE d date := (now() AT TIME ZONE 'UTC')::date - %d; BEGIN
			EXECUTE format('CREATE TABLE past_%d PARTITION OF finished_jobs FOR VALUES FROM (%%L) TO (%%L)', d || ' 00:00:00+00', (d + 1) || ' 00:00:00+00'); END $$`, back, back))
	}
	return f
}

// apart is how many days are between two days of a test: it may run over midnight, and a day is over 5 minutes after that.
const apart = 3

// nextDay moves everything into the past.
func (f *fixture) nextDay() {
	f.Helper()
	for _, sql := range []string{
		`UPDATE jobs SET created_at = created_at - $1 * interval '1 day'`,
		`UPDATE finished_jobs SET created_at = created_at - $1 * interval '1 day', finished_at = finished_at - $1 * interval '1 day', started_at = started_at - $1 * interval '1 day'`,
		`UPDATE dead_letters SET created_at = created_at - $1 * interval '1 day', died_at = died_at - $1 * interval '1 day'`,
		`UPDATE ledger_entries SET day = day - $1::int`,
		// in two steps, so that no key is there twice meanwhile
		`UPDATE ledger SET day = day - 1000 - $1::int`,
		`UPDATE ledger_days SET day = day - 1000 - $1::int`,
	} {
		f.Exec(sql, apart)
	}
	f.Exec(`UPDATE ledger SET day = day + 1000`)
	f.Exec(`UPDATE ledger_days SET day = day + 1000`)
}

// closeDays closes every day that can be closed.
func (f *fixture) closeDays() {
	for {
		day, err := f.Store.Ledger.CloseDay(f.Context())
		if err != nil {
			f.Error(err)
		}
		if err != nil || day == nil || !day.Over {
			return
		}
		if day.Holder != nil {
			f.Error("a day is held")
		}
	}
}

// days gives what the API says of the day of the test that lies so many of them back.
func (f *fixture) days(back int, by string) map[string]counts {
	f.Helper()
	today := time.Now().UTC()
	from, to := today.AddDate(0, 0, -apart*back-1), today.AddDate(0, 0, -apart*back+1)
	return f.usage(from, to, by)
}

func (f *fixture) usage(from, to time.Time, by string) map[string]counts {
	f.Helper()
	got, place := map[string]counts{}, ""
	for {
		const size = 2
		made, err := f.Store.Ledger.Usage(f.Context(), f.Tenant, hop.UsageRequest{From: from.Format(time.DateOnly), To: to.Format(time.DateOnly), By: by}, place, size)
		if err != nil {
			f.Fatal(err)
		}
		if made.Capped {
			f.Error("capped")
		}
		for _, item := range made.Items {
			name := ""
			if item.Type != nil {
				name = *item.Type
			}
			if item.User != nil {
				name = *item.User
			}
			n := got[name]
			n.add(counts{item.Accepted, item.Completed, item.DeadLetter, item.Redriven, item.Cancelled, item.Discarded})
			got[name] = n
			place = ledger.Place(item)
		}
		if by == api.ByDay || len(made.Items) < size {
			return got
		}
	}
}

// counts are what a day has.
type counts struct{ accepted, completed, dead, redriven, cancelled, discarded int64 }

func (c *counts) add(more counts) {
	c.accepted += more.accepted
	c.completed += more.completed
	c.dead += more.dead
	c.redriven += more.redriven
	c.cancelled += more.cancelled
	c.discarded += more.discarded
}

// model is what the ledger must say: a map for each day, by day, type and user.
type model struct {
	f    *fixture
	days []map[string]map[string]counts
	// of are the type and the user of each job; the lists are the jobs in each state.
	of                   map[uuid.UUID][2]string
	live, finished, dead []uuid.UUID
	removed              int
}

func (m *model) count(id uuid.UUID, n counts) {
	today := m.days[len(m.days)-1]
	for by, name := range map[string]string{api.ByDay: "", api.ByType: m.of[id][0], api.ByUser: m.of[id][1]} {
		if today[by] == nil {
			today[by] = map[string]counts{}
		}
		sum := today[by][name]
		sum.add(n)
		today[by][name] = sum
	}
}

// oldID is a UUID v7 of a month ago: jobs are looked for by the time in their id.
func oldID() uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	ms := time.Now().AddDate(0, 0, -30).UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}

func pop(from *[]uuid.UUID) (id uuid.UUID, ok bool) {
	if len(*from) == 0 {
		return id, false
	}
	i := rand.IntN(len(*from))
	id = (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return id, true
}

func (m *model) submit() {
	made := m.f.Job(func(j *submit.NewJob) {
		j.ID, j.Type = oldID(), fmt.Sprint("t", rand.IntN(3))
		if user := rand.IntN(4); user > 0 {
			j.User = new(fmt.Sprint("u", user))
		}
	})
	m.f.Submit(made)
	m.of[made.ID] = [2]string{made.Type, ""}
	if made.User != nil {
		m.of[made.ID] = [2]string{made.Type, *made.User}
	}
	m.live = append(m.live, made.ID)
	m.count(made.ID, counts{accepted: 1})
}

func (m *model) end() {
	for _, claimed := range m.f.Claim(1, 30*time.Second) {
		ending, kind := jobs.Ending{Lease: claimed.Lease(), Kind: api.KindComplete}, counts{completed: 1}
		to := &m.finished
		switch rand.IntN(3) {
		case 0:
			ending.Kind, ending.Permanent = api.KindFail, true
			kind, to = counts{dead: 1}, &m.dead
		case 1:
			if _, _, err := m.f.Store.Jobs.Cancel(m.f.Context(), m.f.Tenant, "", claimed.ID); err != nil {
				m.f.Error(err)
			}
			ending.Kind, kind = api.KindRelease, counts{cancelled: 1}
		}
		if ended := m.f.End(ending); ended.Err != nil {
			m.f.Error(ended.Err)
		}
		m.live = slices.DeleteFunc(m.live, func(id uuid.UUID) bool { return id == claimed.ID })
		*to = append(*to, claimed.ID)
		m.count(claimed.ID, kind)
	}
}

func (m *model) redrive() {
	if id, ok := pop(&m.dead); ok {
		if done := m.f.Store.DeadLetters.Redrive(m.f.Context(), m.f.Tenant, "", []uuid.UUID{id}, nil); done[0].Err != nil {
			m.f.Error(done[0].Err)
		}
		m.live = append(m.live, id)
		m.count(id, counts{redriven: 1})
	}
}

func (m *model) discard() {
	id, ok := pop(&m.dead)
	if !ok {
		return
	}
	if rand.IntN(2) == 0 {
		if done, err := m.f.Store.DeadLetters.Discard(m.f.Context(), m.f.Tenant, "", []uuid.UUID{id}); err != nil || !done[id] {
			m.f.Error(done, err)
		}
	} else if state, err := m.f.Store.EndedJobs.Delete(m.f.Context(), m.f.Tenant, "", id); err != nil || state != job.DeadLetter {
		m.f.Error(state, err)
	}
	m.count(id, counts{discarded: 1})
}

func (m *model) forget() {
	if n, err := m.f.forgetful.DeadLetters.ForgetDead(m.f.Context(), 100_000); err != nil || n != len(m.dead) {
		m.f.Errorf("%d of %d forgotten, %v", n, len(m.dead), err)
	}
	for _, id := range m.dead {
		m.count(id, counts{discarded: 1})
	}
	m.dead = nil
}

func (m *model) remove() {
	if id, ok := pop(&m.finished); ok { // of any day, closed or not
		if _, err := m.f.Store.EndedJobs.Delete(m.f.Context(), m.f.Tenant, "", id); err != nil {
			m.f.Error(err)
		}
		m.removed++
	}
}

func (m *model) step() {
	switch n := rand.IntN(100); {
	case n < 30:
		m.submit()
	case n < 70:
		m.end()
	case n < 80:
		m.redrive()
	case n < 88:
		m.discard()
	case n < 89:
		m.forget()
	default:
		m.remove()
	}
}

// Whatever happens to jobs on any later day, and while the days before are being closed, the ledger has each event once, on
// its day; and it stays so when the partitions are dropped.
func TestTheLedgerIsExact(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := &model{f: f, of: map[uuid.UUID][2]string{}}
	const days, steps = 4, 80
	for range days {
		m.days = append(m.days, map[string]map[string]counts{})
		var closing sync.WaitGroup
		for range 2 { // cores
			closing.Go(f.closeDays)
		}
		for range steps {
			m.step()
		}
		closing.Wait()
		f.nextDay()
	}
	// Retention waits for the ledger.
	if _, err := f.forgetful.Retention.DropPartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.closeDays()
	m.wantAll("closed")
	if n := f.Count(`ledger_entries WHERE day <= (SELECT max(day) FROM ledger_days)`); n != 0 {
		t.Errorf("%d entries of closed days are left", n)
	}
	if _, err := f.forgetful.Retention.DropPartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.Count(`finished_jobs`); n != 0 {
		t.Errorf("%d finished jobs are left: the test shows nothing of a dropped day", n)
	}
	m.wantAll("dropped")
	var sum counts
	for _, n := range f.usage(time.Now().AddDate(0, 0, -40), time.Now().AddDate(0, 0, 1), api.ByDay) {
		sum.add(n)
	}
	if live := sum.accepted - sum.completed - sum.cancelled - sum.dead + sum.redriven; live != int64(f.Count("jobs")) || live != int64(len(m.live)) {
		t.Errorf("the ledger says that %d jobs live, there are %d", live, f.Count("jobs"))
	}
	if kept := sum.dead - sum.redriven - sum.discarded; kept != int64(f.Count("dead_letters")) {
		t.Errorf("the ledger says that %d dead letters are kept, there are %d", kept, f.Count("dead_letters"))
	}
	if sum.accepted == 0 || sum.completed == 0 || sum.dead == 0 || sum.redriven == 0 || sum.cancelled == 0 || sum.discarded == 0 || m.removed == 0 {
		t.Errorf("something did not happen: %+v, %d removed", sum, m.removed)
	}
}

// Days that are not closed are counted when they are read.
func TestAnOpenDayIsCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := func(j *submit.NewJob) { j.User = new("ada") }
	f.Submit(f.Job(user), f.Job(user), f.Job(), f.Job(), f.Job(), f.Job())
	ended := f.Claim(5, 30*time.Second)
	for i, one := range ended {
		kind := []string{api.KindComplete, api.KindFail}[i/2%2]
		f.MustEnd(jobs.Ending{Lease: one.Lease(), Kind: kind, Permanent: true})
	}
	dead := []uuid.UUID{ended[2].ID, ended[3].ID}
	if done := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", dead[:1], nil); done[0].Err != nil {
		t.Fatal(done[0].Err)
	}
	if done, err := f.Store.DeadLetters.Discard(t.Context(), f.Tenant, "", dead[1:]); err != nil || len(done) != 1 {
		t.Fatal(done, err)
	}
	if _, err := f.Store.EndedJobs.Delete(t.Context(), f.Tenant, "", ended[4].ID); err != nil {
		t.Fatal(err)
	}
	from, to := time.Now().UTC().AddDate(0, 0, -1), time.Now().UTC().AddDate(0, 0, 1)
	want := counts{accepted: 6, completed: 3, dead: 2, redriven: 1, discarded: 1}
	if got := f.usage(from, to, api.ByDay)[""]; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := f.usage(from, to, api.ByType); len(got) != 1 || got["test"] != want {
		t.Errorf("%+v", got)
	}
	if got := f.usage(from, to, api.ByUser); len(got) != 2 || got["ada"].accepted != 2 || got[""].accepted != 4 {
		t.Errorf("%+v", got)
	}
	another := f.NewTenant()
	made, err := f.Store.Ledger.Usage(t.Context(), another, hop.UsageRequest{From: from.Format(time.DateOnly), To: to.Format(time.DateOnly)}, "", 0)
	if err != nil || len(made.Items) != 3 || made.Items[1].Accepted != 0 || made.Items[0].Day == nil || *made.Items[0].Day != made.From {
		t.Errorf("%+v, %v", made, err)
	}
	if made.Items[2].Open != true || made.ClosedThrough >= made.To || made.Begins != time.Now().UTC().Format(time.DateOnly) && made.Begins != from.Format(time.DateOnly) {
		t.Errorf("%+v", made)
	}
	if made, err = f.Store.Ledger.Usage(t.Context(), another, hop.UsageRequest{By: api.ByType}, "", 10); err != nil || len(made.Items) != 0 || made.Begins == "" || made.From[8:] != "01" {
		t.Errorf("%+v, %v", made, err)
	}
	f.Exec(`INSERT INTO ledger_entries SELECT $1, (now() AT TIME ZONE 'UTC')::date, 't', '', 1, 0, 0, 0, 0, 0, 0 FROM generate_series(1, $2::int)`, another, api.MaxOpenRows+1)
	if made, err = f.Store.Ledger.Usage(t.Context(), another, hop.UsageRequest{}, "", 0); err != nil || !made.Capped {
		t.Errorf("%+v, %v", made, err)
	}
}

func TestUsageRefusesRanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, wrong := range []struct{ from, to, field string }{
		{"2026-11-24", "2026-11-23", "from"}, {"2025-11-23", "2026-11-24", "from"}, {"24.11.2026", "", "from"}, {"", "soon", "to"},
	} {
		_, err := f.Store.Ledger.Usage(t.Context(), f.Tenant, hop.UsageRequest{From: wrong.from, To: wrong.to}, "", 0)
		if refused, ok := errors.AsType[*problem.Problem](err); !ok || refused.Code != problem.InvalidRequest || refused.Errors[0].Field != wrong.field {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if made, err := f.Store.Ledger.Usage(t.Context(), f.Tenant, hop.UsageRequest{From: "2025-11-24", To: "2026-11-24"}, "", 0); err != nil || len(made.Items) != api.MaxUsageDays {
		t.Errorf("%d items, %v", len(made.Items), err)
	}
}

// What failed attempts took is counted apart from what completed jobs took, on the day on which the attempts ended, and
// stays when the job ends, and when it is deleted.
func TestFailedAttemptsCountApart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want := func(when string, back int, ran, failed int64) {
		t.Helper()
		today := time.Now().UTC()
		from, to := today.AddDate(0, 0, -apart*back-1).Format(time.DateOnly), today.AddDate(0, 0, -apart*back+1).Format(time.DateOnly)
		for by, name := range map[string]string{api.ByDay: "", api.ByType: "=resize", api.ByUser: "=u1"} {
			made, err := f.Store.Ledger.Usage(t.Context(), f.Tenant, hop.UsageRequest{From: from, To: to, By: by}, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			var gotRan, gotFailed int64
			for _, item := range made.Items {
				if name == "" || ledger.Place(item) == name {
					gotRan, gotFailed = gotRan+item.RunningMS, gotFailed+item.FailedRunningMS
				}
			}
			const most = 30_000 // the time that the test itself takes
			if gotRan < ran || gotRan > ran+most || gotFailed < failed || gotFailed > failed+most {
				t.Errorf("%s, by %s: %d ms ran and %d failed, want %d and %d", when, by, gotRan, gotFailed, ran, failed)
			}
		}
	}
	made := f.Job(func(j *submit.NewJob) {
		j.ID, j.Type, j.User, j.MaxAttempts = oldID(), "resize", new("u1"), 5
	})
	f.Submit(made)
	attempt := func(ran time.Duration, ending jobs.Ending) {
		t.Helper()
		f.Exec(`UPDATE jobs SET state = 'queued', ready_at = statement_timestamp() WHERE state = 'scheduled'`)
		claimed := f.Claim(1, time.Hour)
		if len(claimed) != 1 {
			t.Fatalf("%d jobs", len(claimed))
		}
		f.Exec(`UPDATE jobs SET started_at = started_at - $1::interval`, ran)
		ending.Lease = claimed[0].Lease()
		if ending.Kind == "" {
			f.Exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 second' WHERE state = 'running'`)
			if reaped, err := f.Store.Jobs.Reap(t.Context(), time.Time{}, 10, celltest.Half); err != nil || len(reaped) != 1 {
				t.Fatalf("%d reaped, %v", len(reaped), err)
			}
		} else if ended := f.End(ending); ended.Err != nil {
			t.Fatal(ended.Err)
		}
	}
	attempt(100*time.Second, jobs.Ending{Kind: api.KindFail})
	want("after a failure", 0, 0, 100_000)
	attempt(400*time.Second, jobs.Ending{Kind: api.KindRelease})
	attempt(200*time.Second, jobs.Ending{})
	want("after a lost lease", 0, 0, 300_000)
	f.nextDay()
	f.closeDays()
	want("the day before, closed", 1, 0, 300_000)
	attempt(800*time.Second, jobs.Ending{Kind: api.KindComplete})
	want("the day of the completion", 0, 800_000, 0)
	want("the day before it", 1, 0, 300_000)
	if _, err := f.Store.EndedJobs.Delete(t.Context(), f.Tenant, "", made.ID); err != nil {
		t.Fatal(err)
	}
	want("once the job is deleted", 0, 800_000, 0)
	f.nextDay()
	f.closeDays()
	want("closed", 1, 800_000, 0)
	want("the first day", 2, 0, 300_000)
}

// A day is not closed while a transaction is open that began before its end, and might have ended a job on it.
func TestADayWaitsForItsTransactions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	held := func() []ledger.Holder {
		rows, err := f.Direct.Query(t.Context(), ledger.HeldSQL, pgx.NamedArgs{"to": time.Now().Add(24 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		holders, err := pgx.CollectRows(rows, pgx.RowToStructByName[ledger.Holder])
		if err != nil {
			t.Fatal(err)
		}
		return holders
	}
	celltest.Eventually(t, "no transaction", func() bool { return len(held()) == 0 })
	if by, err := f.Store.Ledger.LedgerHeld(t.Context()); err != nil || by != nil {
		t.Errorf("held by %+v, %v", by, err)
	}
	other := celltest.Connect(t, f.URL)
	if _, err := other.Exec(t.Context(), "SET application_name = 'left open'; BEGIN"); err != nil {
		t.Fatal(err)
	}
	by := held()
	if len(by) != 1 || uint32(by[0].PID) != other.PgConn().PID() || by[0].Application != "left open" || by[0].Role == "" || time.Since(by[0].Since) > time.Hour {
		t.Errorf("the day does not wait for the transaction, or does not say for which: %+v", by)
	}
	if _, err := other.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "the end of the transaction", func() bool { return len(held()) == 0 })
}

// Every statement of a read stays on its indexes, with statistics and without.
func TestPlans(t *testing.T) {
	t.Parallel()
	f := newFixtureOn(t, celltest.NewURL(t))
	f.CheckPlans("empty", ledger.Planned())
	f.Exec(`INSERT INTO ledger SELECT $1, 'user', 'u' || u, d::date, 1, 1, 1, 1, 1, 1, 1
		FROM generate_series(1, 500) AS u, generate_series(now() - interval '30 days', now(), interval '1 day') AS d`, f.Tenant)
	f.Exec(`INSERT INTO ledger_entries SELECT $1, now()::date, 't', '', 1, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 5000)`, f.Tenant)
	f.CheckPlans("full, without statistics", ledger.Planned())
	f.Exec("ANALYZE")
	f.CheckPlans("full, with statistics", ledger.Planned())
}

func (m *model) wantAll(when string) {
	m.f.Helper()
	for i, want := range m.days {
		for _, by := range []string{api.ByDay, api.ByType, api.ByUser} {
			got := m.f.days(len(m.days)-i, by)
			maps.DeleteFunc(got, func(_ string, n counts) bool { return n == counts{} })
			if !maps.Equal(got, want[by]) {
				m.f.Errorf("%s: day %d by %s: %+v, want %+v", when, i, by, got, want[by])
			}
		}
	}
}
