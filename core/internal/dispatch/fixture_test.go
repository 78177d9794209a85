package dispatch_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// fixture is one core on a database of its own. Its Dispatcher does not run:
// nothing polls and nothing refreshes but what a test asks for.
type fixture struct {
	*testing.T
	store  *cell.Cell
	d      *dispatch.Dispatcher
	tenant tenant.ID
	// direct is a connection for reads and changes without the store.
	direct *pgx.Conn
	url    string

	mu        sync.Mutex
	published []lanes.ID
	scheduled int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, url: celltest.URL(t)}
	f.store = celltest.OpenURL(t, f.url)
	f.direct = celltest.Connect(t, f.url)
	f.d = f.newCore(f.store)
	f.tenant = f.newTenant()
	return f
}

// newCore makes a Dispatcher such as another core has.
func (f *fixture) newCore(store *cell.Cell) *dispatch.Dispatcher { return f.newCoreUnder(store, 0) }

// newCoreUnder makes one with a cap on the jobs that run in the whole installation.
func (f *fixture) newCoreUnder(store *cell.Cell, maxRunning int64) *dispatch.Dispatcher {
	options := f.options(store, func(lists []jobs.Waiting) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, list := range lists {
			for range list.Jobs {
				f.published = append(f.published, list.Lane)
			}
		}
	})
	options.MaxRunning = maxRunning
	return dispatch.New(options)
}

func (f *fixture) options(store *cell.Cell, tell func([]jobs.Waiting)) dispatch.Options {
	return dispatch.Options{
		Store: store, Metrics: metrics.NewJobs(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler), Publish: tell,
		Scheduled: func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.scheduled++
		},
	}
}

func (f *fixture) newTenant() tenant.ID {
	f.Helper()
	id := uuid.Must(uuid.NewV7())
	if _, err := f.store.Tenants.Create(f.Context(), id, api.TenantRequest{Name: "test"}); err != nil {
		f.Fatal(err)
	}
	return id
}

// run runs the Dispatcher until the test ends.
func (f *fixture) run() {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f.d.Run(ctx); err != nil {
			f.Errorf("Run = %v", err)
		}
	}()
	f.Cleanup(func() { cancel(); <-done })
}

// call submits jobs of the fixture's tenant.
func (f *fixture) call(jobs ...api.SubmitRequest) dispatch.SubmitCall {
	call := dispatch.SubmitCall{Tenant: f.tenant, Jobs: jobs, Batch: len(jobs) != 1, Render: celltest.Render}
	for range jobs {
		call.IDs = append(call.IDs, uuid.Must(uuid.NewV7()))
	}
	return call
}

// submit stores each job with a call of its own, all in one flush.
func (f *fixture) submit(jobs ...api.SubmitRequest) []uuid.UUID {
	f.Helper()
	calls := make([]dispatch.SubmitCall, len(jobs))
	ids := make([]uuid.UUID, len(jobs))
	for i := range jobs {
		calls[i] = f.call(jobs[i])
		ids[i] = calls[i].IDs[0]
	}
	f.accepted(f.d.Submit(f.Context(), calls)...)
	return ids
}

func (f *fixture) accepted(answers ...dispatch.SubmitAnswer) {
	f.Helper()
	for i, answer := range answers {
		if answer.Err != nil || answer.Problem != nil {
			f.Fatalf("submit %d: %v, %v", i, answer.Err, answer.Problem)
		}
	}
}

func (f *fixture) claimCall(queues ...string) dispatch.ClaimCall {
	if len(queues) == 0 {
		queues = []string{"default"}
	}
	return dispatch.ClaimCall{Owner: f.tenant, WorkerID: "w1", Queues: queues, Max: 1000}
}

func (f *fixture) claim(call dispatch.ClaimCall) []claim.Job {
	f.Helper()
	jobs, err := f.d.Claim(f.Context(), call)
	if err != nil {
		f.Fatal(err)
	}
	return jobs
}

func (f *fixture) get(id uuid.UUID) api.Job {
	f.Helper()
	job, err := f.store.JobReads.Get(f.Context(), f.tenant, "", id)
	if err != nil {
		f.Fatal(err)
	}
	return job
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.direct.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) count(sql string, args ...any) int {
	f.Helper()
	var n int
	if err := f.direct.QueryRow(f.Context(), sql, args...).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

func (f *fixture) refresh() {
	f.Helper()
	if err := f.d.Refresh(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// lockJobs blocks every statement on jobs until unlock is called.
func (f *fixture) lockJobs() (unlock func()) {
	f.Helper()
	// a connection of its own: inside a transaction pg_stat_activity stands still
	conn := celltest.Connect(f, f.url)
	if _, err := conn.Exec(f.Context(), `BEGIN; LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE`); err != nil {
		f.Fatal(err)
	}
	return func() {
		f.Helper()
		if err := conn.Close(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
}

// blocked waits until n statements of cores, or more, stand before a lock.
func (f *fixture) blocked(n int) { f.blockedFor(n, 0) }

// blockedFor waits until so many sessions have waited for it for so long.
func (f *fixture) blockedFor(n int, held time.Duration) {
	f.Helper()
	celltest.Eventually(f, "statements before the lock", func() bool {
		return f.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'forgequeue-core' AND wait_event_type = 'Lock' AND clock_timestamp() - query_start >= $1`, held) >= n
	})
}

// idle waits until no core runs a statement, in several checks in a row:
// a new connection pauses between preparing a statement and running it.
func (f *fixture) idle() {
	f.Helper()
	inARow := 0
	celltest.Eventually(f, "cores to be idle", func() bool {
		inARow++
		if f.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'forgequeue-core' AND state <> 'idle'`) > 0 {
			inARow = 0
		}
		return inARow == 4
	})
}

// answer is what a claim came to.
type answer struct {
	jobs []claim.Job
	err  error
	took time.Duration
}

func (f *fixture) goClaim(ctx context.Context, call dispatch.ClaimCall) <-chan answer {
	done := make(chan answer, 1)
	start := time.Now()
	go func() {
		jobs, err := f.d.Claim(ctx, call)
		done <- answer{jobs, err, time.Since(start)}
	}()
	return done
}

// park starts claims and waits until each has scanned once and found nothing.
// Their lanes must be known: a claim without lanes has no scan to wait for.
func (f *fixture) park(ctx context.Context, calls ...dispatch.ClaimCall) []<-chan answer {
	f.Helper()
	before := f.d.ParkedClaims()
	unlock := f.lockJobs()
	parked := make([]<-chan answer, len(calls))
	for i, call := range calls {
		parked[i] = f.goClaim(ctx, call)
	}
	celltest.Eventually(f, "the claims to park", func() bool { return f.d.ParkedClaims() == before+len(calls) })
	f.blocked(1) // one scans for all, and then for those that arrived since
	unlock()
	f.idle()
	return parked
}

// database is the name of the fixture's database, and adminURL leads to another
// one on the same server.
func (f *fixture) database() string { return f.direct.Config().Database }

func (f *fixture) adminURL() string { return strings.Replace(f.url, "/"+f.database(), "/postgres", 1) }

// lane makes a lane known without leaving a job in it.
func (f *fixture) lane(request api.SubmitRequest) {
	f.Helper()
	ids := f.submit(request)
	f.exec(`DELETE FROM jobs WHERE id = $1`, ids[0])
}

func plain() api.SubmitRequest { return api.SubmitRequest{Type: "test"} }

func in(queue string) api.SubmitRequest { return api.SubmitRequest{Type: "test", Queue: queue} }

func tagged(tags ...string) api.SubmitRequest { return api.SubmitRequest{Type: "test", Tags: tags} }

func ids(jobs []claim.Job) map[uuid.UUID]bool {
	set := make(map[uuid.UUID]bool, len(jobs))
	for _, job := range jobs {
		set[job.ID] = true
	}
	return set
}

func decode[T any](f *fixture, body []byte) T {
	f.Helper()
	var value T
	if err := json.Unmarshal(body, &value); err != nil {
		f.Fatal(err)
	}
	return value
}
