package jobs_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3/lock"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// cutOff ends a call while its statement waits for a lock.
func (f *fixture) cutOff(call func(context.Context) error) error {
	f.Helper()
	const waiting = ` FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	var before []int32 // what was cut off goes on waiting
	if err := f.Direct.QueryRow(f.Context(), `SELECT COALESCE(array_agg(pid), '{}')`+waiting).Scan(&before); err != nil {
		f.Fatal(err)
	}
	ctx, cut := context.WithCancel(f.Context())
	defer cut()
	ended := make(chan error, 1)
	go func() { ended <- call(ctx) }()
	celltest.Eventually(f, "the statement to wait", func() bool { return f.CountOf(`SELECT count(*)`+waiting+` AND pid <> ALL($1::int[])`, before) > 0 })
	cut()
	return <-ended
}

// What a cut-off statement did is unknown, if it could have done anything.
func TestACutOffStatement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	unlock := f.Lock("jobs")
	defer unlock()
	err := f.cutOff(func(ctx context.Context) error {
		_, err := f.Store.Submits.Submit(ctx, []submit.Submission{{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job()}}})
		return err
	})
	if !errors.Is(err, store.ErrOutcomeUnknown) || store.Definite(err) {
		t.Errorf("a write: %v", err)
	}
	err = f.cutOff(func(ctx context.Context) error {
		_, err := f.Store.JobReads.Get(ctx, f.Tenant, "", uuid.New())
		return err
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a read: %v", err)
	}
	err = f.cutOff(func(ctx context.Context) error {
		_, err := f.Store.Claims.Scan(ctx, claim.ReadyList{}, 1)
		return err
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a read: %v", err)
	}
}

// Who never got a connection knows for sure that nothing was done.
func TestNoConnectionIsADefiniteRefusal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	small, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 1, PoolWait: 100 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	unlock := f.Lock("jobs")
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		_, _ = small.Claims.Scan(background(t), claim.ReadyList{}, 1) // holds the only connection
	}()
	celltest.Eventually(t, "the connection to be taken", func() bool {
		return f.CountOf(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	})
	submission := []submit.Submission{{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job()}}}
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, ctx := range map[string]context.Context{
		"the pool's wait is over": t.Context(), "its own time is over": f.Within(20 * time.Millisecond), "its caller has gone": gone,
	} {
		if _, err := small.Submits.Submit(ctx, submission); !errors.Is(err, store.ErrOverloaded) || !store.Definite(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := small.Connections(); got.Used != 1 || got.Max != 1 || got.Refused != 1 || got.Idle != 0 || got.Waiting != 0 {
		t.Errorf("the pool is %+v", got) // callers that left were not refused
	}
	unlock()
	<-busy
	if n := f.Count("jobs"); n != 0 {
		t.Errorf("%d jobs are stored", n)
	}
}

// After a failover a connection may lead to a standby for a while.
func TestAStandbyIsUnavailable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	given := u.Query()
	given.Set("default_transaction_read_only", "on")
	u.RawQuery = given.Encode()
	standby := celltest.OpenURL(t, u.String())
	_, err = standby.Submits.Submit(t.Context(), []submit.Submission{{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job()}}})
	if !errors.Is(err, store.ErrUnavailable) || !store.Definite(err) {
		t.Errorf("submit: %v", err)
	}
	for _, kind := range []string{api.KindComplete, api.KindRelease} {
		ended := standby.Jobs.End(t.Context(), []jobs.Ending{{Lease: job.Lease{Tenant: f.Tenant, Job: uuid.New()}, Kind: kind}})
		if !errors.Is(ended[0].Err, store.ErrUnavailable) {
			t.Errorf("%s: %v", kind, ended[0].Err)
		}
	}
}

// Such as a network that drops everything: no answer, no end.
func TestAFrozenServerHoldsNobodyForEver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	proxyURL, freeze, end := proxy(t, f.URL)
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: proxyURL, MaxConns: 4, PoolWait: time.Second, CallTime: 300 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	defer end() // first: a pool waits for its connections' farewells
	if _, err := store.Jobs.Promote(f.Within(time.Minute), jobs.AllTime, 10); err != nil {
		t.Fatal(err)
	}
	freeze()
	start := time.Now()
	_, promoted := store.Jobs.Promote(t.Context(), jobs.AllTime, 10)
	_, reaped := store.Jobs.Reap(t.Context(), time.Unix(0, 0), 10, celltest.Half)
	_, timeErr := store.Now(t.Context())
	if promoted == nil || reaped == nil || timeErr == nil || time.Since(start) > time.Minute {
		t.Errorf("promote: %v, reap: %v, the time: %v, after %v", promoted, reaped, timeErr, time.Since(start))
	}
}

// proxy stands before a PostgreSQL; once frozen it takes
// connections and passes nothing on.
func proxy(t *testing.T, databaseURL string) (through string, freeze, end func()) {
	t.Helper()
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	frozen, closed := make(chan struct{}), make(chan struct{})
	pass := func(to io.Writer, from io.Reader) {
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			select {
			case <-frozen:
				<-closed
				return
			default:
			}
			if err != nil {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				_ = client.Close()
				continue
			}
			// both ends close together, so that neither reader is left behind
			shut := func() { _, _ = client.Close(), server.Close() }
			group.Go(func() { pass(server, client); shut() })
			group.Go(func() { pass(client, server); shut() })
		}
	})
	end = func() {
		_ = listener.Close()
		close(closed)
		group.Wait()
	}
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	given := url.Values{"sslmode": {"disable"}}
	if schema := u.Query().Get("search_path"); schema != "" {
		given.Set("search_path", schema)
	}
	u.Host, u.RawQuery = listener.Addr().String(), given.Encode()
	return u.String(), func() { close(frozen) }, end
}

// Cores that start together, or during a migration, do not wait for each other.
func TestSchemaPendingTakesNoLock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`SELECT pg_advisory_lock($1)`, lock.DefaultLockID)
	pending, err := f.Store.SchemaPending(f.Within(5 * time.Second))
	if err != nil || pending != 0 {
		t.Errorf("SchemaPending = %d, %v", pending, err)
	}
}

func TestATokenThatNeverWasOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	for _, owner := range []tenant.ID{f.Tenant, tenant.Platform} {
		for id, want := range map[uuid.UUID]error{id: jobs.ErrLeaseLost, uuid.New(): store.ErrNotFound} {
			lease, err := jobs.ParseLease(owner, id, "garbage")
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []string{api.KindComplete, api.KindRelease} {
				if ended := f.End(jobs.Ending{Lease: lease, Kind: kind}); !errors.Is(ended.Err, want) {
					t.Errorf("%s by %s: %v, want %v", kind, owner, ended.Err, want)
				}
			}
		}
	}
}
