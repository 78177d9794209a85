package queue_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/queue/queuetest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Core needs a role that owns its database and may nothing else: it migrates, does jobs,
// and makes and drops days.
func TestAnOwnerOfTheDatabaseIsEnough(t *testing.T) {
	t.Parallel()
	database := queuetest.EmptyURL(t)
	admin := queuetest.Connect(t, database)
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
		admin, err := pgx.Connect(background(t), database)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = admin.Close(background(t)) }()
		if _, err := admin.Exec(background(t), `REASSIGN OWNED BY `+role+` TO CURRENT_USER; DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	at.User = url.UserPassword(role, "secret")
	f := &fixture{T: t, url: at.String()}
	f.store = queuetest.OpenURL(t, f.url)
	if _, err := f.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.behind = queuetest.Connect(t, f.url)
	f.tenant = f.newTenant()
	f.lane = f.newLane(f.tenant, "default")
	f.submit(f.job())
	f.mustEnd(queue.Ending{Lease: f.claimOne().Lease(), Kind: api.KindComplete})

	f.exec(dropDaysSQL)
	due := f.attachDay("finished_jobs", 9)
	store := f.keeping(queue.Retention{Finished: 7 * someDays, DeadLetters: 30 * someDays})
	if dropped, err := store.DropPartitions(t.Context()); err != nil || len(dropped) != 1 || dropped[0].Name != due {
		t.Errorf("dropped %+v, %v; want %s", dropped, err, due)
	}
	if err := store.MakePartitions(t.Context()); err != nil {
		t.Error(err)
	}
	f.submit(f.job())
	f.mustEnd(queue.Ending{Lease: f.claimOne().Lease(), Kind: api.KindComplete})

	if look, err := queue.LookAt(t.Context(), f.url); err != nil || !look.MayCreate || !look.Migrated {
		t.Errorf("doctor: %+v, %v", look, err)
	}
	store.Close()
	f.store.Close()
	_ = f.behind.Close(t.Context())
	one, err := queue.Open(t.Context(), queue.Options{URL: f.url, MaxConns: 1, PoolWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if _, err := one.Recount(t.Context()); err != nil {
		t.Error(err)
	}
}
