// Package enginetest is one core in memory on a database of its own, for the tests of what runs in memory.
package enginetest

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/explain"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/watch"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Core is an Engine with what the handlers of calls do besides.
type Core struct {
	*engine.Engine
	*claims.Claims
	*submits.Submits
	*explain.Explainer
	*publish.Publisher

	Metrics *metrics.Jobs

	store *cell.Cell
}

// NewCore makes a Core that nobody runs.
func NewCore(o engine.Options) *Core {
	e := engine.New(o)
	return &Core{Engine: e, Claims: e.Claims, Submits: e.Submits, Explainer: e.Explainer, Publisher: e.Publisher, Metrics: o.Metrics, store: o.Store}
}

// Fixture is one core on a database of its own. Its Core does not run:
// nothing polls and nothing refreshes but what a test asks for.
type Fixture struct {
	*testing.T
	Store  *cell.Cell
	D      *Core
	Tenant tenant.ID
	// Direct is a connection for reads and changes without the store.
	Direct *pgx.Conn
	URL    string

	mu        sync.Mutex
	published []lanes.ID
}

// Published gives the lanes that other cores were told of since the last call, one for each job.
func (f *Fixture) Published() []lanes.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.published = nil }()
	return f.published
}

// New makes a Fixture.
func New(t *testing.T) *Fixture {
	t.Helper()
	f := &Fixture{T: t, URL: celltest.URL(t)}
	f.Store = celltest.OpenURL(t, f.URL)
	f.Direct = celltest.Connect(t, f.URL)
	f.D = f.NewCore(f.Store)
	f.Tenant = f.NewTenant()
	return f
}

// NewCore makes a Core such as another core has.
func (f *Fixture) NewCore(store *cell.Cell) *Core { return f.NewCoreUnder(store, 0) }

// NewCoreUnder makes one with a cap on the jobs that run in the whole installation.
func (f *Fixture) NewCoreUnder(store *cell.Cell, maxRunning int64) *Core {
	return f.NewCoreWith(engine.Options{Store: store, MaxRunning: maxRunning, Hints: publish.Hints{Ready: func(lists []jobs.Waiting) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, list := range lists {
			for range list.Jobs {
				f.published = append(f.published, list.Lane)
			}
		}
	}}})
}

// NewCoreWith makes one with options; without metrics and a logger it has its own.
func (f *Fixture) NewCoreWith(o engine.Options) *Core {
	if o.Metrics == nil {
		o.Metrics = metrics.NewJobs(prometheus.NewRegistry())
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return NewCore(o)
}

// NewTenant makes another tenant.
func (f *Fixture) NewTenant() tenant.ID {
	f.Helper()
	id := uuid.Must(uuid.NewV7())
	if _, err := f.Store.Tenants.Create(f.Context(), id, api.TenantRequest{Name: "test"}); err != nil {
		f.Fatal(err)
	}
	return id
}

// Run runs the Core until the test ends.
func (f *Fixture) Run() {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f.D.Run(ctx); err != nil {
			f.Errorf("Run = %v", err)
		}
	}()
	f.Cleanup(func() { cancel(); <-done })
}

// Call submits jobs of the fixture's tenant.
func (f *Fixture) Call(jobs ...api.SubmitRequest) submits.Call {
	call := submits.Call{Tenant: f.Tenant, Jobs: jobs, Batch: len(jobs) != 1, Render: celltest.Render}
	for range jobs {
		call.IDs = append(call.IDs, uuid.Must(uuid.NewV7()))
	}
	return call
}

// Submit stores each job with a call of its own, all in one flush.
func (f *Fixture) Submit(jobs ...api.SubmitRequest) []uuid.UUID {
	f.Helper()
	calls := make([]submits.Call, len(jobs))
	ids := make([]uuid.UUID, len(jobs))
	for i := range jobs {
		calls[i] = f.Call(jobs[i])
		ids[i] = calls[i].IDs[0]
	}
	f.Accepted(f.D.Submit(f.Context(), calls)...)
	return ids
}

// Accepted fails the test unless all was accepted.
func (f *Fixture) Accepted(answers ...submits.Answer) {
	f.Helper()
	for i, answer := range answers {
		if answer.Err != nil || answer.Problem != nil {
			f.Fatalf("submit %d: %v, %v", i, answer.Err, answer.Problem)
		}
	}
}

// ClaimCall is a claim of all that is ready, without a wait.
func (f *Fixture) ClaimCall(queues ...string) claims.Call {
	if len(queues) == 0 {
		queues = []string{"default"}
	}
	return claims.Call{Owner: f.Tenant, WorkerID: "w1", Queues: queues, Max: 1000}
}

// Claim claims, and fails the test where that fails.
func (f *Fixture) Claim(call claims.Call) []claim.Job {
	f.Helper()
	jobs, err := f.D.Claim(f.Context(), call)
	if err != nil {
		f.Fatal(err)
	}
	return jobs
}

// Get reads a job of the tenant.
func (f *Fixture) Get(id uuid.UUID) api.Job {
	f.Helper()
	job, err := f.Store.JobReads.Get(f.Context(), f.Tenant, "", id)
	if err != nil {
		f.Fatal(err)
	}
	return job
}

// Exec runs a statement without the store.
func (f *Fixture) Exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.Direct.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
}

// Count reads a number without the store.
func (f *Fixture) Count(sql string, args ...any) int {
	f.Helper()
	var n int
	if err := f.Direct.QueryRow(f.Context(), sql, args...).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

// Refresh refreshes what the core knows.
func (f *Fixture) Refresh() {
	f.Helper()
	if err := f.D.Refresh(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// LockJobs blocks every statement on jobs until unlock is called.
func (f *Fixture) LockJobs() (unlock func()) {
	f.Helper()
	// a connection of its own: inside a transaction pg_stat_activity stands still
	conn := celltest.Connect(f, f.URL)
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

// Blocked waits until n statements of cores, or more, stand before a lock.
func (f *Fixture) Blocked(n int) { f.BlockedFor(n, 0) }

// BlockedFor waits until so many sessions have waited for it for so long.
func (f *Fixture) BlockedFor(n int, held time.Duration) {
	f.Helper()
	celltest.Eventually(f, "statements before the lock", func() bool {
		return f.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'forgequeue-core' AND wait_event_type = 'Lock' AND clock_timestamp() - query_start >= $1`, held) >= n
	})
}

// Idle waits until no core runs a statement, in several checks in a row:
// a new connection pauses between preparing a statement and running it.
func (f *Fixture) Idle() {
	f.Helper()
	inARow := 0
	celltest.Eventually(f, "cores to be idle", func() bool {
		inARow++
		if f.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'forgequeue-core' AND state <> 'idle'`) > 0 {
			inARow = 0
		}
		return inARow == 4
	})
}

// Answer is what a claim came to.
type Answer struct {
	Jobs []claim.Job
	Err  error
	Took time.Duration
}

// GoClaim claims in the background.
func (f *Fixture) GoClaim(ctx context.Context, call claims.Call) <-chan Answer {
	done := make(chan Answer, 1)
	start := time.Now()
	go func() {
		jobs, err := f.D.Claim(ctx, call)
		done <- Answer{jobs, err, time.Since(start)}
	}()
	return done
}

// Park starts claims and waits until each has scanned once and found nothing.
// Their lanes must be known: a claim without lanes has no scan to wait for.
func (f *Fixture) Park(ctx context.Context, calls ...claims.Call) []<-chan Answer {
	f.Helper()
	before := f.D.ParkedClaims()
	unlock := f.LockJobs()
	parked := make([]<-chan Answer, len(calls))
	for i, call := range calls {
		parked[i] = f.GoClaim(ctx, call)
	}
	celltest.Eventually(f, "the claims to park", func() bool { return f.D.ParkedClaims() == before+len(calls) })
	f.Blocked(1) // one scans for all, and then for those that arrived since
	unlock()
	f.Idle()
	return parked
}

// Database is the name of the fixture's database.
func (f *Fixture) Database() string { return f.Direct.Config().Database }

// AdminURL leads to another database on the server.
func (f *Fixture) AdminURL() string { return strings.Replace(f.URL, "/"+f.Database(), "/postgres", 1) }

// Lane makes a lane known without leaving a job in it.
func (f *Fixture) Lane(request api.SubmitRequest) {
	f.Helper()
	ids := f.Submit(request)
	f.Exec(`DELETE FROM jobs WHERE id = $1`, ids[0])
}

// Plain is a job with defaults.
func Plain() api.SubmitRequest { return api.SubmitRequest{Type: "test"} }

// In is one in a queue.
func In(queue string) api.SubmitRequest { return api.SubmitRequest{Type: "test", Queue: queue} }

// Tagged is one with tags.
func Tagged(tags ...string) api.SubmitRequest { return api.SubmitRequest{Type: "test", Tags: tags} }

// IDs is the set of the jobs.
func IDs(jobs []claim.Job) map[uuid.UUID]bool {
	set := make(map[uuid.UUID]bool, len(jobs))
	for _, job := range jobs {
		set[job.ID] = true
	}
	return set
}

// Decode decodes an answer.
func Decode[T any](f *Fixture, body []byte) T {
	f.Helper()
	var value T
	if err := json.Unmarshal(body, &value); err != nil {
		f.Fatal(err)
	}
	return value
}

// ParkedClaims counts the claims that wait.
func (c *Core) ParkedClaims() int {
	return int(testutil.ToFloat64(c.Metrics.Parked))
}

// WaitJob waits until a job changes.
func (c *Core) WaitJob(ctx context.Context, call watch.Call) (api.Job, error) {
	return c.Watches.Wait(ctx, call)
}

// ShowBreakers sets the source of the breakers of queues in push mode.
func (c *Core) ShowBreakers(ask func(tenant.QueueKey) *api.Breaker) {
	c.Cached.Breakers.Show(ask, func(tenant.QueueKey, int64) {})
}

// ReadAllLanes makes the next refresh read everything.
func (c *Core) ReadAllLanes() { c.Cached.Lanes.ReadAll() }

// Settings are a queue's, as the core knows them.
func (c *Core) Settings(owner tenant.ID, name string) queues.Settings {
	return c.Cached.Settings(owner, name)
}

// PutQueue sets a queue.
func (c *Core) PutQueue(ctx context.Context, owner tenant.ID, name string, request api.QueueRequest) (api.Queue, error) {
	shown, _, err := c.PutPushQueue(ctx, owner, name, request, queues.NewSecret{})
	return shown, err
}

// PutPushQueue sets a queue that may be in push mode.
func (c *Core) PutPushQueue(ctx context.Context, owner tenant.ID, name string, request api.QueueRequest, secret queues.NewSecret) (api.Queue, bool, error) {
	taken, err := c.store.Queues.PutPush(ctx, owner, name, request, secret)
	if err == nil {
		err = c.SettingsChanged(ctx)
	}
	if err != nil {
		return api.Queue{}, false, err
	}
	shown, err := c.Queue(ctx, owner, name)
	return shown, taken, err
}

// PauseQueue pauses or resumes a queue.
func (c *Core) PauseQueue(ctx context.Context, owner tenant.ID, name string, paused bool) (api.Queue, error) {
	if err := c.store.Queues.Pause(ctx, owner, name, paused); err != nil {
		return api.Queue{}, err
	}
	if err := c.SettingsChanged(ctx); err != nil {
		return api.Queue{}, err
	}
	if !paused {
		c.WakeQueue(tenant.QueueKey{Tenant: owner, Name: name})
	}
	return c.Queue(ctx, owner, name)
}

// DeleteQueue deletes a queue.
func (c *Core) DeleteQueue(ctx context.Context, owner tenant.ID, name string) error {
	if err := c.store.Queues.Delete(ctx, owner, name); err != nil {
		return err
	}
	return c.SettingsChanged(ctx)
}

// ProbeQueue lets the next calls of a queue in push mode through.
func (c *Core) ProbeQueue(ctx context.Context, owner tenant.ID, name string) (api.Queue, error) {
	probes, err := c.store.Queues.Probe(ctx, owner, name, audit.Event{Tenant: &owner, Action: api.AuditQueueProbe, Object: name})
	if err != nil {
		return api.Queue{}, err
	}
	c.Cached.Breakers.Probe(tenant.QueueKey{Tenant: owner, Name: name}, probes)
	return c.Queue(ctx, owner, name)
}

// Cancel cancels a job.
func (c *Core) Cancel(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.JobSummary, bool, error) {
	summary, did, err := c.store.Jobs.Cancel(ctx, owner, user, id)
	if err == nil {
		c.Publish(ctx, publish.Cancelled(owner, &summary, id, did))
	}
	return summary, did == jobs.CancelRequested, err
}

// Discard deletes dead letters.
func (c *Core) Discard(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	gone, err := c.store.DeadLetters.Discard(ctx, owner, user, ids)
	c.Publish(ctx, publish.Changes{Deleted: slices.Collect(maps.Keys(gone)), Discarded: len(gone)})
	return gone, err
}

// FollowUp works off some follow-ups.
func (c *Core) FollowUp(ctx context.Context, owner tenant.ID) (done int, more bool, err error) {
	followed, err := c.store.Jobs.FollowUp(ctx, owner)
	c.Publish(ctx, publish.Changes{Jobs: followed.Changes})
	return followed.Done, followed.More, err
}

// PassGates lets jobs of a tenant pass the gates of their keys, as the duty does, until no check is left.
func (c *Core) PassGates(ctx context.Context, owner tenant.ID) error {
	for {
		passed, worked, err := c.store.Gates.Pass(ctx, owner)
		if err != nil || !worked {
			return err
		}
		for _, one := range passed {
			c.WakeHere([]jobs.Waiting{{Ready: jobs.Ready{Lane: one.Lane, Priority: one.Priority, At: one.At, ID: one.ID}, Jobs: 1}})
		}
	}
}

// PutSchedule makes a schedule.
func (c *Core) PutSchedule(ctx context.Context, owner tenant.ID, user, name string, request api.ScheduleRequest) (api.Schedule, error) {
	shown, err := c.store.Schedules.PutSchedule(ctx, owner, user, name, request)
	if err == nil {
		c.Schedules.Kick()
	}
	return shown, err
}

// Run runs the core until ctx ends.
func (c *Core) Run(ctx context.Context) error { return c.Engine.Run(ctx) }
