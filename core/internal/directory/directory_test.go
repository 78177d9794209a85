package directory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/installation"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestMain(m *testing.M) { celltest.Main(m) }

// pair is a home cell, and one that follows it.
type pair struct {
	*testing.T
	home, other *cell.Cell
	homeURL     string
	id          uuid.UUID
}

func newPair(t *testing.T, other *cell.Cell) *pair {
	t.Helper()
	p := &pair{T: t, homeURL: celltest.URL(t), other: other, id: uuid.New()}
	p.home = celltest.OpenURL(t, p.homeURL)
	if _, err := p.home.Processes.BecomeCell(t.Context(), installation.ThisCell{Name: "home", Installation: p.id, Home: true}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pair) changes(wait time.Duration) hop.DirectoryChanges {
	p.Helper()
	since, err := directory.Copied(p.Context(), p.other.Store)
	if err != nil {
		p.Fatal(err)
	}
	changes, err := directory.Directory{Store: p.home.Store}.Changes(p.Context(), hop.DirectoryRequest{
		Cell: "other", Installation: p.id.String(), Since: since, WaitMS: wait.Milliseconds(),
	})
	if err != nil {
		p.Fatal(err)
	}
	return changes
}

// follow copies what there is, and gives how many things were copied.
func (p *pair) follow() (copied int) {
	p.Helper()
	for {
		since, err := directory.Copied(p.Context(), p.other.Store)
		if err != nil {
			p.Fatal(err)
		}
		changes := p.changes(0)
		if changes.Version == since {
			return copied
		}
		copied += len(changes.Plans) + len(changes.Tenants) + len(changes.Keys)
		if err := directory.Apply(p.Context(), p.other.Store, since, changes); err != nil {
			p.Fatal(err)
		}
	}
}

func (p *pair) key(id string, of *tenant.ID) {
	p.Helper()
	request := hop.CreateKeyRequest{KeyID: id, Kind: hop.PrincipalPlatform, SecretHMAC: make([]byte, 32), Scopes: []string{}}
	if of != nil {
		request.Kind, request.Tenant = hop.PrincipalTenant, of.String()
	}
	if _, err := p.home.Keys.Create(p.Context(), request); err != nil {
		p.Fatal(err)
	}
}

// has says which keys the other cell finds.
func (p *pair) has(ids ...string) {
	p.Helper()
	for _, id := range []string{"aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"} {
		if _, err := p.other.Keys.Lookup(p.Context(), id); (err == nil) != slices.Contains(ids, id) {
			p.Errorf("key %s: %v", id, err)
		}
	}
}

func TestACellFollowsTheHome(t *testing.T) {
	t.Parallel()
	p := newPair(t, celltest.Open(t))
	own, atThird, ofHome := uuid.New(), uuid.New(), uuid.New()
	for id, name := range map[tenant.ID]string{own: "other", atThird: "third", ofHome: ""} {
		if _, err := p.home.Tenants.CreateIn(t.Context(), name, id, api.TenantRequest{Name: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	p.key("aaaaaaaaaaaa", nil)
	p.key("bbbbbbbbbbbb", &own)
	p.key("cccccccccccc", &atThird)
	if copied := p.follow(); copied != 3 { // a tenant, its key and the platform's; the plans are those of the schema
		t.Errorf("%d copied", copied)
	}
	p.has("aaaaaaaaaaaa", "bbbbbbbbbbbb")
	limits, err := p.other.Tenants.LimitsOf(t.Context(), atThird)
	if err != nil || len(limits) != 0 {
		t.Errorf("another cell's tenant: %+v, %v", limits, err)
	}
	if copied := p.follow(); copied != 0 {
		t.Errorf("%d copied again", copied)
	}

	if _, err := p.home.Tenants.Patch(t.Context(), own, api.TenantPatch{Plan: new("free"), Overrides: &api.Overrides{Limits: api.Limits{MaxActive: new(int64(7))}}}); err != nil {
		t.Fatal(err)
	}
	if err := p.home.Keys.Revoke(t.Context(), "aaaaaaaaaaaa"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.home.Tenants.PutPlan(t.Context(), "free", api.PlanRequest{Limits: api.Limits{UserMaxRunning: new(int64(9))}}); err != nil {
		t.Fatal(err)
	}
	p.follow()
	if limits, err = p.other.Tenants.LimitsOf(t.Context(), own); err != nil || len(limits) != 1 || limits[0].Plan != "free" || *limits[0].Overrides.MaxActive != 7 {
		t.Errorf("limits: %+v, %v", limits, err)
	}
	if plan, err := p.other.Tenants.GetPlan(t.Context(), "free"); err != nil || *plan.Limits.UserMaxRunning != 9 {
		t.Errorf("plan: %+v, %v", plan, err)
	}
	p.has("bbbbbbbbbbbb")

	// a tenant that comes to the cell brings its keys, however old they are
	if _, err := celltest.Connect(t, p.homeURL).Exec(t.Context(), `
WITH v AS (UPDATE directory SET version = version + 1 RETURNING version) UPDATE tenants SET cell = 'other', version = v.version FROM v WHERE id = $1`, atThird); err != nil {
		t.Fatal(err)
	}
	p.follow()
	p.has("bbbbbbbbbbbb", "cccccccccccc")

	if _, err := p.home.Tenants.Delete(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	p.follow()
	if limits, err = p.other.Tenants.LimitsOf(t.Context(), own); err != nil || !limits[0].Deleting {
		t.Errorf("the deletion is not copied: %+v, %v", limits, err)
	}
	p.has("cccccccccccc")
}

// After the restore of a backup the home is older than its copies.
func TestAHomeThatWentBackInTime(t *testing.T) {
	t.Parallel()
	p := newPair(t, celltest.Open(t))
	p.key("aaaaaaaaaaaa", nil)
	p.key("bbbbbbbbbbbb", nil)
	p.follow()
	db := celltest.Connect(t, p.homeURL)
	for _, sql := range []string{`DELETE FROM api_keys WHERE key_id = 'bbbbbbbbbbbb'`, `UPDATE directory SET version = version - 1`} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if changes := p.changes(0); !changes.Reset {
		t.Errorf("%+v", changes)
	}
	p.follow()
	p.has("aaaaaaaaaaaa")
}

// More changes than an answer takes come in several, and none is left out or doubled.
func TestManyChanges(t *testing.T) {
	t.Parallel()
	otherURL := celltest.URL(t)
	p := newPair(t, celltest.OpenURL(t, otherURL))
	const tenants, each = 2300, 5
	db := celltest.Connect(t, p.homeURL)
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO tenants (id, name, plan, weight, overrides, created_at, cell, version)
SELECT md5(n::text)::uuid, 't', 'free', 1, '{}', now(), 'other', n FROM generate_series(2, %d) AS n`, tenants+1),
		fmt.Sprintf(`INSERT INTO api_keys (key_id, kind, tenant_id, scopes, secret_hmac, created_at, version)
SELECT 'k' || n || '-' || i, 'tenant', md5(n::text)::uuid, '{}', '\x%064d', now(), n FROM generate_series(2, %d) AS n, generate_series(1, %d) AS i`, 0, tenants+1, each),
		fmt.Sprintf(`UPDATE directory SET version = %d`, tenants+1),
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if copied := p.follow(); copied != tenants*(1+each) {
		t.Errorf("%d copied, want %d", copied, tenants*(1+each))
	}
	var here int
	if err := celltest.Connect(t, otherURL).QueryRow(t.Context(), `SELECT count(*) FROM api_keys`).Scan(&here); err != nil || here != tenants*each {
		t.Errorf("%d keys, %v", here, err)
	}
}

// An answer waits for a change, and a change that is committed late is not passed over by a later one.
func TestAnAnswerWaitsForAChange(t *testing.T) {
	t.Parallel()
	p := newPair(t, celltest.Open(t))
	p.follow()
	answered := make(chan hop.DirectoryChanges, 1)
	go func() { answered <- p.changes(20 * time.Second) }()
	db := celltest.Connect(t, p.homeURL)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE directory SET version = version + 1`); err != nil { // as a change that is not committed yet
		t.Fatal(err)
	}
	made := make(chan struct{})
	go func() {
		defer close(made)
		p.key("aaaaaaaaaaaa", nil)
	}()
	celltest.Eventually(t, "the second change to wait for the first", func() bool {
		var waits int
		err := celltest.Connect(t, p.homeURL).QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits)
		return err == nil && waits == 1
	})
	select {
	case changes := <-answered:
		t.Errorf("answered before a commit: %+v", changes)
	default:
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-made
	if changes := <-answered; changes.Version <= 1 {
		t.Errorf("%+v", changes)
	}
	p.follow()
	p.has("aaaaaaaaaaaa")
}

// A cell of another installation, and what is none, are refused.
func TestAnotherInstallationIsRefused(t *testing.T) {
	t.Parallel()
	p := newPair(t, celltest.Open(t))
	for _, id := range []string{"", uuid.NewString()} {
		if _, err := (directory.Directory{Store: p.home.Store}).Changes(t.Context(), hop.DirectoryRequest{Cell: "other", Installation: id}); !errors.Is(err, directory.ErrOtherInstallation) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := (directory.Directory{Store: p.other.Store}).Changes(t.Context(), hop.DirectoryRequest{Cell: "other"}); !errors.Is(err, directory.ErrOtherInstallation) {
		t.Errorf("asked of a cell that is not the home: %v", err)
	}
}

// A copy that adds a cap makes the counts of the jobs that there are unsettled, as a change by the
// operator does: otherwise these jobs would not be counted.
func TestACopyThatAddsACap(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	p := newPair(t, f.Store)
	f.Exec(`UPDATE directory SET version = 0`)
	if _, err := p.home.Tenants.CreateIn(t.Context(), "other", f.Tenant, api.TenantRequest{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.home.Tenants.PutPlan(t.Context(), "own", api.PlanRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.home.Tenants.Patch(t.Context(), f.Tenant, api.TenantPatch{Plan: new("own")}); err != nil {
		t.Fatal(err)
	}
	p.follow()
	settle := func() {
		t.Helper()
		f.Exec(`
INSERT INTO usage_counts (tenant_id, counter, name, opened_at, settled) VALUES ($1, $2, '', now(), true)
ON CONFLICT (tenant_id, counter, name) DO UPDATE SET settled = true`, f.Tenant, caps.ActiveTenant)
	}
	settled := func(what string, want bool) {
		t.Helper()
		var is bool
		if err := f.Direct.QueryRow(t.Context(), `SELECT settled FROM usage_counts WHERE tenant_id = $1`, f.Tenant).Scan(&is); err != nil || is != want {
			t.Errorf("%s: settled is %v, %v", what, is, err)
		}
	}
	patch := func(limits api.Limits) {
		t.Helper()
		if _, err := p.home.Tenants.Patch(t.Context(), f.Tenant, api.TenantPatch{Overrides: &api.Overrides{Limits: limits}}); err != nil {
			t.Fatal(err)
		}
		p.follow()
	}
	settle()
	patch(api.Limits{MaxRunning: new(int64(3))})
	settled("another cap", true)
	patch(api.Limits{MaxActive: new(int64(3))})
	settled("a cap", false)
	settle()
	patch(api.Limits{MaxActive: new(int64(4))})
	settled("a higher cap", true)
	patch(api.Limits{})
	settle()
	if _, err := p.home.Tenants.PutPlan(t.Context(), "own", api.PlanRequest{Limits: api.Limits{MaxActive: new(int64(5))}}); err != nil {
		t.Fatal(err)
	}
	p.follow()
	settled("a plan with a cap", false)
}

// While the home cell does not answer, the feed says so once and goes on; what it then brings is told.
func TestAHomeThatIsAway(t *testing.T) {
	t.Parallel()
	p := newPair(t, celltest.Open(t))
	var away atomic.Bool
	away.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer(t, w, r, p)
	}))
	t.Cleanup(server.Close)
	home, err := directory.NewHome(server.URL, make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan struct{}, 10)
	feed := &directory.Feed{
		Store: p.other.Store, Cell: "other", Installation: p.id.String(), Home: home, Log: slog.New(slog.DiscardHandler),
		Changed: func(context.Context) { changed <- struct{}{} },
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- feed.Run(ctx) }()
	if err := feed.CatchUp(ctx); err == nil {
		t.Error("it has caught up with a home that is away")
	}
	p.key("aaaaaaaaaaaa", nil)
	away.Store(false)
	<-changed
	p.has("aaaaaaaaaaaa")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for text, good := range map[string]bool{"http://core:8081/cells/home": true, "core:8081": false, "": false, "ftp://core": false, "http://u:p@core": false} {
		if _, err := directory.NewHome(text, nil); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// answer is what the home cell's core answers.
func answer(t *testing.T, w http.ResponseWriter, r *http.Request, p *pair) {
	t.Helper()
	var asked hop.Envelope[hop.DirectoryRequest]
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		t.Error(err)
		return
	}
	changes, err := directory.Directory{Store: p.home.Store}.Changes(r.Context(), asked.Items[0].Request)
	if err != nil { // the feed has ended
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(hop.Results[hop.DirectoryChanges]{Results: []hop.Result[hop.DirectoryChanges]{{Status: http.StatusOK, Value: &changes}}})
}
