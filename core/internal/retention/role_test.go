package retention_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Core needs a role that owns its database and may nothing else: it migrates, does jobs,
// and makes and drops days.
func TestAnOwnerOfTheDatabaseIsEnough(t *testing.T) {
	t.Parallel()
	database := celltest.EmptyURL(t)
	admin := celltest.Connect(t, database)
	at, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(at.Path, "/")
	role := name + "_core"
	if _, err := admin.Exec(t.Context(), `CREATE ROLE `+role+` LOGIN PASSWORD 'secret' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
		ALTER DATABASE `+name+` OWNER TO `+role); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		admin, err := pgx.Connect(context.WithoutCancel(t.Context()), database)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
		if _, err := admin.Exec(context.WithoutCancel(t.Context()), `REASSIGN OWNED BY `+role+` TO CURRENT_USER; DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	at.User = url.UserPassword(role, "secret")
	f := &fixture{&celltest.Fixture{T: t, URL: at.String()}}
	f.Store = celltest.OpenURL(t, f.URL)
	if _, err := f.Store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Direct = celltest.Connect(t, f.URL)
	f.Tenant = f.NewTenant()
	f.Lane = f.NewLane(f.Tenant, "default")
	f.Submit(f.Job())
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})

	f.Exec(dropDaysSQL)
	due := f.attachDay("finished_jobs", 9)
	opened := f.retaining(retention.Periods{Finished: 7 * someDays, DeadLetters: 30 * someDays})
	if dropped, err := opened.Retention.DropPartitions(t.Context()); err != nil || len(dropped) != 1 || dropped[0].Name != due {
		t.Errorf("dropped %+v, %v; want %s", dropped, err, due)
	}
	if err := opened.Retention.MakePartitions(t.Context()); err != nil {
		t.Error(err)
	}
	f.Submit(f.Job())
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})

	if info, err := store.InspectServer(t.Context(), f.URL); err != nil || !info.MayCreate || !info.Migrated {
		t.Errorf("doctor: %+v, %v", info, err)
	}
	opened.Close()
	f.Store.Close()
	_ = f.Direct.Close(t.Context())
	one, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 1, PoolWait: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if _, err := one.Counts.Recount(t.Context()); err != nil {
		t.Error(err)
	}
}
