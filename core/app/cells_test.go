package app_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/diagnosis"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/secret"
)

// stalled passes what is sent to a database on, but for the times in which it is frozen.
type stalled struct {
	mu     sync.Mutex
	frozen chan struct{} // closed at the end of a freeze
}

func (s *stalled) freeze() (thaw func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = make(chan struct{})
	return sync.OnceFunc(func() { close(s.frozen) })
}

func (s *stalled) wait() {
	s.mu.Lock()
	frozen := s.frozen
	s.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// through gives a database's URL behind a proxy that can be frozen.
func through(t *testing.T, databaseURL string) (string, *stalled) {
	t.Helper()
	given, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(given.Host, given.Port)
	listener, s := listen(t), &stalled{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial(network, address)
			if err != nil {
				_ = conn.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				defer func() { _, _ = to.Close(), from.Close() }()
				buffer := make([]byte, 64<<10)
				for {
					n, err := from.Read(buffer)
					s.wait()
					if n > 0 {
						if _, err := to.Write(buffer[:n]); err != nil {
							return
						}
					}
					if err != nil {
						return
					}
				}
			}
			go pass(behind, conn)
			go pass(conn, behind)
		}
	}()
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(given.User, given.Password), Host: listener.Addr().String(), Path: given.Database,
		RawQuery: "sslmode=disable",
	}
	return u.String(), s
}

// installation is several cells, each a database, the first is home.
type installation struct {
	*testing.T
	cfg   app.Config
	names []string
	urls  []string
	// behind are connections to the databases themselves.
	behind []*pgx.Conn
	stalls []*stalled
	file   string
}

func newInstallation(t *testing.T, names ...string) *installation {
	t.Helper()
	in := &installation{T: t, names: names, file: filepath.Join(t.TempDir(), "cells.json")}
	for range names {
		databaseURL := celltest.URL(t)
		in.behind = append(in.behind, celltest.Connect(t, databaseURL))
		via, stall := through(t, databaseURL)
		in.urls, in.stalls = append(in.urls, via), append(in.stalls, stall)
	}
	in.write(nil)
	in.cfg = in.config()
	if _, err := app.Migrate(t.Context(), in.cfg); err != nil {
		t.Fatal(err)
	}
	return in
}

// write writes the file; change is made to the entries first.
func (in *installation) write(change func([]map[string]any)) {
	in.Helper()
	entries := []map[string]any{{"name": in.names[0]}}
	for i := 1; i < len(in.names); i++ {
		entries = append(entries, map[string]any{"name": in.names[i], "dsn": in.urls[i]})
	}
	if change != nil {
		change(entries)
	}
	text, err := json.Marshal(entries)
	if err != nil {
		in.Fatal(err)
	}
	if err := os.WriteFile(in.file, text, 0o600); err != nil {
		in.Fatal(err)
	}
}

func (in *installation) config() app.Config {
	cfg := config(in.T, in.urls[0])
	cfg.Cells = in.file
	cfg.PushKey = secret.Text(strings.Repeat("p", 32))
	return cfg
}

var operator = api.Principal{Kind: api.PrincipalOperator, KeyID: "operator"} //nolint:gochecknoglobals // a constant

var platform = api.Principal{Kind: api.PrincipalPlatform, KeyID: "platform"} //nolint:gochecknoglobals // a constant

func must[Resp, Req any](r *running, path string, p api.Principal, request Req) Resp {
	r.Helper()
	answer := ask[Resp](r, path, p, request)
	if answer.Problem != nil || answer.Value == nil {
		r.Fatalf("%s: %d %+v", path, answer.Status, answer.Problem)
	}
	return *answer.Value
}

func jobOf() (api.HopSubmitRequest, string) {
	id := uuid.Must(uuid.NewV7()).String()
	return api.HopSubmitRequest{IDs: []string{id}, Jobs: []api.SubmitRequest{{Type: "test"}}}, id
}

// tenantIn makes tenants until one is in each cell, and gives one of each, by cell.
func (in *installation) tenantsIn(r *running) []api.Principal {
	in.Helper()
	found := make([]api.Principal, len(in.names))
	for range in.names {
		made := must[api.Tenant](r, api.HopTenantCreate, operator, api.HopTenantCreateRequest{
			ID: uuid.Must(uuid.NewV7()).String(), TenantRequest: api.TenantRequest{Name: "t"},
		})
		var name *string
		if err := in.behind[0].QueryRow(in.Context(), `SELECT cell FROM tenants WHERE id = $1`, made.ID).Scan(&name); err != nil {
			in.Fatal(err)
		}
		cell := 0
		for i := range in.names {
			if name != nil && in.names[i] == *name {
				cell = i
			}
		}
		if found[cell].Tenant != "" {
			in.Fatalf("two new tenants in cell %d while another is empty", cell)
		}
		found[cell] = api.Principal{Kind: api.PrincipalTenant, Tenant: made.ID, Scopes: []string{api.ScopeRead}}
	}
	return found
}

func (in *installation) count(cell int, sql string, args ...any) (n int) {
	in.Helper()
	if err := in.behind[cell].QueryRow(in.Context(), sql, args...).Scan(&n); err != nil {
		in.Fatal(err)
	}
	return n
}

// batch sends one call with items of many tenants.
func batch[Resp, Req any](r *running, path string, items ...api.Item[Req]) []api.Result[Resp] {
	r.Helper()
	body, err := json.Marshal(api.Envelope[Req]{Items: items})
	if err != nil {
		r.Fatal(err)
	}
	status, answer := r.fetch("POST", r.url+path, body)
	var results api.Results[Resp]
	if err := json.Unmarshal(answer, &results); err != nil || len(results.Results) != len(items) {
		r.Fatalf("%s: %d %s", path, status, answer)
	}
	return results.Results
}

func TestCellsServeTheirTenants(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second", "third")
	one, two := start(t, in.config()), start(t, in.config())
	tenants := in.tenantsIn(one)
	var items []api.Item[api.HopSubmitRequest]
	var ids []string
	for range 2 {
		for _, owner := range tenants {
			request, id := jobOf()
			items, ids = append(items, api.Item[api.HopSubmitRequest]{Principal: owner, Request: request}), append(ids, id)
		}
	}
	for i, answer := range batch[api.SubmitResponse](two, api.HopSubmit, items...) {
		if answer.Problem != nil || answer.Value.ID != ids[i] {
			t.Fatalf("submit %d: %+v", i, answer)
		}
		if n := in.count(i%len(tenants), `SELECT count(*) FROM jobs WHERE id = $1`, ids[i]); n != 1 {
			t.Errorf("job %d is not in its tenant's cell", i)
		}
	}
	for cell, owner := range tenants {
		if got := must[api.Job](one, api.HopGet, owner, api.HopGetRequest{JobID: ids[cell]}); got.ID != ids[cell] {
			t.Errorf("job of cell %d: %+v", cell, got)
		}
		other := tenants[(cell+1)%len(tenants)]
		if got := ask[api.Job](one, api.HopGet, other, api.HopGetRequest{JobID: ids[cell]}); got.Status != http.StatusNotFound {
			t.Errorf("another tenant sees the job of cell %d: %+v", cell, got)
		}
		// by its tenant's worker
		claimed := must[api.ClaimResponse](two, api.HopClaim, owner, claimOf("own", 20*time.Second))
		if len(claimed.Jobs) != 1 {
			t.Fatalf("claim in cell %d: %+v", cell, claimed)
		}
		done := must[api.OutcomesResponse](one, api.HopOutcome, owner, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{complete(claimed.Jobs[0])}})
		if done.Results[0].Status != http.StatusOK {
			t.Errorf("outcome in cell %d: %+v", cell, done)
		}
	}
	in.platformWorker(one, two, tenants)
	in.audits(one, tenants)
	in.limits(one, two, tenants[1])
	in.deletion(one, two, tenants[2])
	if lines, err := app.Verify(t.Context(), in.cfg); err != nil || len(lines) != 0 {
		t.Errorf("verify: %v %v", lines, err)
	}
}

func complete(j api.ClaimedJob) api.OutcomeRequest {
	return api.OutcomeRequest{JobID: j.ID, Kind: api.KindComplete, LeaseToken: j.LeaseToken}
}

// platformWorker: it gets the jobs of all cells, and those that come while it waits.
func (in *installation) platformWorker(one, two *running, tenants []api.Principal) {
	in.Helper()
	must[api.Worker](one, api.HopRegister, platform, api.WorkerRequest{WorkerID: "p", Queues: []string{api.DefaultQueue}})
	if got := must[api.Page[api.Worker]](two, api.HopWorkers, platform, api.HopPageRequest{PageSize: 10}); len(got.Items) != 1 || got.NextPageToken != nil {
		in.Errorf("workers of the platform: %+v", got)
	}
	var held []api.ClaimedJob
	owners := map[string]bool{}
	for range tenants {
		claimed := must[api.ClaimResponse](one, api.HopClaim, platform, claimOf("p", 20*time.Second))
		if len(claimed.Jobs) != 1 {
			in.Fatalf("claim of the platform: %+v", claimed)
		}
		held = append(held, claimed.Jobs[0])
		owners[claimed.Jobs[0].Tenant] = true
	}
	if len(owners) != len(tenants) {
		in.Errorf("jobs of %d tenants, want %d", len(owners), len(tenants))
	}
	beat := api.HopHeartbeatRequest{WorkerID: "p"}
	outcomes := api.OutcomesRequest{}
	for _, j := range held {
		beat.Leases = append(beat.Leases, api.Lease{JobID: j.ID, LeaseToken: j.LeaseToken})
		outcomes.Outcomes = append(outcomes.Outcomes, complete(j))
	}
	for i, lease := range must[api.HeartbeatResponse](two, api.HopHeartbeat, platform, beat).Leases {
		if lease.Status != api.LeaseOK || lease.JobID != held[i].ID || lease.LeaseExpiresAt == nil {
			in.Errorf("lease %d: %+v", i, lease)
		}
	}
	for i, done := range must[api.OutcomesResponse](two, api.HopOutcome, platform, outcomes).Results {
		if done.Status != http.StatusOK || done.Index != i || done.Outcome == nil || done.Outcome.JobID != held[i].ID {
			in.Errorf("outcome %d: %+v", i, done)
		}
	}
	for cell, owner := range tenants { // parked in all cells
		answers := make(chan api.Result[api.ClaimResponse], 1)
		go func() {
			answers <- ask[api.ClaimResponse](one, api.HopClaim, platform, claimOf("parked", 25*time.Second))
		}()
		celltest.Eventually(in, "the claim to wait in all cells", func() bool {
			for cell := range tenants {
				if in.count(cell, `SELECT count(*) FROM workers WHERE worker_id = 'parked'`) != 1 {
					return false
				}
			}
			return true
		})
		request, id := jobOf()
		must[api.SubmitResponse](two, api.HopSubmit, owner, request)
		got := <-answers
		if got.Value == nil || len(got.Value.Jobs) != 1 || got.Value.Jobs[0].ID != id {
			in.Fatalf("the parked claim, a job of cell %d: %+v", cell, got)
		}
		must[api.OutcomesResponse](one, api.HopOutcome, platform, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{complete(got.Value.Jobs[0])}})
	}
	if got := ask[struct{}](one, api.HopLeave, platform, api.HopLeaveRequest{WorkerID: "p"}); got.Problem != nil {
		in.Errorf("leave: %+v", got)
	}
}

// audits: what operators and tenants did, from all cells in one order, page by page.
func (in *installation) audits(r *running, tenants []api.Principal) {
	in.Helper()
	manager := func(p api.Principal) api.Principal { p.KeyID = "manager"; return p }
	for range 3 {
		for _, owner := range tenants {
			must[api.Queue](r, api.HopQueuePut, manager(owner), api.HopQueuePutRequest{Name: "q"})
		}
	}
	var all []api.AuditEntry
	token := ""
	for range 50 {
		page := must[api.Page[api.AuditEntry]](r, api.HopAudit, operator, api.HopAuditRequest{PageSize: 2, PageToken: token})
		all = append(all, page.Items...)
		if page.NextPageToken == nil {
			break
		}
		token = *page.NextPageToken
	}
	stored := 0
	for cell := range in.names {
		stored += in.count(cell, `SELECT count(*) FROM audit_log`)
	}
	if len(all) != stored || stored < 4*len(tenants) {
		in.Errorf("%d entries of %d", len(all), stored)
	}
	for i := 1; i < len(all); i++ {
		if all[i].ID >= all[i-1].ID {
			in.Errorf("entry %d is not in order", i)
		}
	}
	if own := must[api.Page[api.AuditEntry]](r, api.HopAudit, manager(tenants[1]), api.HopAuditRequest{PageSize: 50}); len(own.Items) != 4 {
		in.Errorf("a tenant sees %d entries: its making, and its queue three times", len(own.Items))
	}
}

// limits: a changed plan and a changed tenant are in force in its cell.
func (in *installation) limits(one, two *running, owner api.Principal) {
	in.Helper()
	most := int64(1)
	must[api.Plan](one, api.HopPlanPut, operator, api.HopPlanPutRequest{Name: "small", PlanRequest: api.PlanRequest{Limits: api.Limits{MaxActive: &most}}})
	must[api.Tenant](one, api.HopTenantPatch, operator, api.HopTenantPatchRequest{ID: owner.Tenant, TenantPatch: api.TenantPatch{Plan: new("small")}})
	celltest.Eventually(in, "the cap to be in force in the other core", func() bool {
		request, _ := jobOf()
		answer := ask[json.RawMessage](two, api.HopSubmit, owner, request)
		return answer.Problem != nil && answer.Problem.Code == problem.ActiveCapReached
	})
}

func (in *installation) deletion(one, two *running, owner api.Principal) {
	in.Helper()
	must[api.Key](one, api.HopKeyCreate, operator, api.HopKeyCreateRequest{
		KeyID: "copiedcopied", Kind: api.PrincipalTenant, Tenant: owner.Tenant, SecretHMAC: make([]byte, 32), Scopes: []string{api.ScopeRead},
	})
	celltest.Eventually(in, "the key to be copied to its tenant's cell", func() bool {
		return in.count(2, `SELECT count(*) FROM api_keys WHERE key_id = 'copiedcopied' AND revoked_at IS NULL`) == 1
	})
	if n := in.count(1, `SELECT count(*) FROM api_keys`); n != 0 {
		in.Errorf("%d keys of another cell's tenants", n)
	}
	must[api.Tenant](one, api.HopTenantDelete, operator, api.HopTenantRequest{ID: owner.Tenant})
	celltest.Eventually(in, "its cell to refuse its jobs", func() bool {
		request, _ := jobOf()
		answer := ask[json.RawMessage](two, api.HopSubmit, owner, request)
		return answer.Problem != nil && answer.Problem.Code == problem.Forbidden
	})
	celltest.Eventually(in, "the revoked key to be copied", func() bool {
		return in.count(2, `SELECT count(*) FROM api_keys WHERE revoked_at IS NULL`) == 0
	})
	if got := must[api.Tenant](two, api.HopTenantGet, operator, api.HopTenantRequest{ID: owner.Tenant}); got.Deletion == nil || got.Deletion.State != api.DeletionRunning {
		in.Errorf("deletion: %+v", got.Deletion)
	}
}

// A cell that does not answer refuses its own tenants, soon and for as long as it is frozen, and
// nobody else's calls wait for it.
func TestAFrozenCell(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second", "third")
	core := start(t, in.config())
	tenants := in.tenantsIn(core)
	for _, frozen := range []int{1, 0} {
		in.frozen(core, tenants, frozen)
	}
}

func (in *installation) frozen(core *running, tenants []api.Principal, frozen int) {
	in.Helper()
	owner := tenants[frozen]
	request, before := jobOf()
	must[api.SubmitResponse](core, api.HopSubmit, owner, request)
	key := fmt.Sprintf("keyofcell%03d", frozen)
	other := tenants[2]
	must[api.Key](core, api.HopKeyCreate, operator, api.HopKeyCreateRequest{
		KeyID: key, Kind: api.PrincipalTenant, Tenant: other.Tenant, SecretHMAC: make([]byte, 32), Scopes: []string{api.ScopeRead},
	})
	celltest.Eventually(in, "the key to be copied", func() bool {
		return in.count(2, `SELECT count(*) FROM api_keys WHERE key_id = $1`, key) == 1
	})
	held := in.hold(core, owner, other)
	thaw := in.stalls[frozen].freeze()
	defer thaw()
	celltest.Eventually(in, "the cell's tenant to be refused without being asked", func() bool {
		request, _ := jobOf()
		answer := ask[json.RawMessage](core, api.HopSubmit, owner, request)
		return answer.Problem != nil && answer.Problem.Code == problem.CoreUnavailable
	})
	for range 20 { // while it is frozen, in one call with the others' items
		var items []api.Item[api.HopSubmitRequest]
		for _, p := range tenants {
			request, _ := jobOf()
			items = append(items, api.Item[api.HopSubmitRequest]{Principal: p, Request: request})
		}
		for cell, answer := range batch[json.RawMessage](core, api.HopSubmit, items...) {
			if refused := answer.Status == http.StatusServiceUnavailable; refused != (cell == frozen) || answer.Status >= 500 && answer.Problem.RetryAfterMS == nil {
				in.Errorf("cell %d frozen, submit in cell %d: %+v", frozen, cell, answer)
			}
		}
	}
	// a platform's worker keeps its other jobs, and none is told to be lost
	beat := api.HopHeartbeatRequest{WorkerID: "p"}
	for _, j := range held {
		beat.Leases = append(beat.Leases, api.Lease{JobID: j.ID, LeaseToken: j.LeaseToken})
	}
	leases := must[api.HeartbeatResponse](core, api.HopHeartbeat, platform, beat).Leases
	if len(leases) != 2 || leases[0].Status != api.LeaseOK || leases[0].LeaseExpiresAt != nil || leases[1].Status != api.LeaseOK || leases[1].LeaseExpiresAt == nil {
		in.Errorf("leases while cell %d is frozen: %+v", frozen, leases)
	}
	ended := must[api.OutcomesResponse](core, api.HopOutcome, platform, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{complete(held[0]), complete(held[1])}}).Results
	if len(ended) != 2 || ended[0].Status != http.StatusServiceUnavailable || ended[0].Index != 0 || ended[1].Status != http.StatusOK || ended[1].Index != 1 {
		in.Errorf("outcomes while cell %d is frozen: %+v", frozen, ended)
	}
	got := must[api.ClaimResponse](core, api.HopClaim, platform, claimOf("p", time.Second))
	if len(got.Jobs) != 1 || got.Jobs[0].Tenant == owner.Tenant {
		in.Errorf("claim of the platform while cell %d is frozen: %+v", frozen, got)
	}
	if found := must[api.HopKey](core, api.HopKeyLookup, api.Principal{}, api.HopKeyLookupRequest{KeyID: key}); found.Tenant != other.Tenant {
		in.Errorf("key look-up while cell %d is frozen: %+v", frozen, found)
	}
	status, ready := core.fetch("GET", core.url+"/readyz", nil)
	if status != http.StatusOK || !strings.Contains(string(ready), `"degraded"`) || !strings.Contains(string(ready), `"cell `+in.names[frozen]+`":"down"`) {
		in.Errorf("readyz: %d %s", status, ready)
	}
	made := ask[api.Tenant](core, api.HopTenantCreate, operator, api.HopTenantCreateRequest{
		ID: uuid.Must(uuid.NewV7()).String(), TenantRequest: api.TenantRequest{Name: "t"},
	})
	if (made.Problem != nil) != (frozen == 0) {
		in.Errorf("a new tenant while cell %d is frozen: %+v", frozen, made)
	}
	thaw()
	celltest.Eventually(in, "the cell to answer again", func() bool {
		return ask[api.Job](core, api.HopGet, owner, api.HopGetRequest{JobID: before}).Problem == nil
	})
}

// hold gives a job of each tenant, leased to the platform's worker p for long.
func (in *installation) hold(core *running, owners ...api.Principal) []api.ClaimedJob {
	in.Helper()
	held := make([]api.ClaimedJob, len(owners))
	for i, owner := range owners {
		must[api.Queue](core, api.HopQueuePut, owner, api.HopQueuePutRequest{
			Name: "held", QueueRequest: api.QueueRequest{VisibilityTimeoutMS: new(int64(600_000))},
		})
		request, id := jobOf()
		request.Jobs[0].Queue = "held"
		must[api.SubmitResponse](core, api.HopSubmit, owner, request)
		claim := claimOf("p", 20*time.Second)
		claim.Queues = []string{"held"}
		claimed := must[api.ClaimResponse](core, api.HopClaim, platform, claim)
		if len(claimed.Jobs) != 1 || claimed.Jobs[0].ID != id {
			in.Fatalf("held: %+v", claimed)
		}
		held[i] = claimed.Jobs[0]
	}
	return held
}

// A database that is not the cell that the file says is refused at the start.
func TestWhichCellADatabaseIs(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second", "third")
	other := newInstallation(t, "first", "second")
	core := start(t, in.config())
	in.tenantsIn(core)
	if err := core.end(); err != nil {
		t.Fatal(err)
	}
	refused := func(says string, cfg app.Config) {
		t.Helper()
		if err := app.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	in.write(func(entries []map[string]any) {
		entries[1]["dsn"], entries[2]["dsn"] = entries[2]["dsn"], entries[1]["dsn"]
	})
	refused("swapped", in.config())
	in.write(func(entries []map[string]any) { entries[1]["dsn"] = other.urls[1] })
	refused("another installation", in.config())
	if _, err := app.Migrate(t.Context(), in.config()); err == nil || !strings.Contains(err.Error(), "another installation") {
		t.Errorf("migrate: %v", err)
	}
	in.write(func(entries []map[string]any) { entries[1]["dsn"] = celltest.URL(t) })
	refused("core migrate", in.config())
	in.write(nil)
	refused("FORGEQUEUE_CELLS", config(t, in.urls[0]))
	refused("FORGEQUEUE_CELLS", config(t, in.urls[1]))
	refused("home cell", func() app.Config {
		cfg := in.config()
		cfg.DatabaseURL = secret.Text(in.urls[1])
		in.write(func(entries []map[string]any) {
			entries[0]["name"], entries[1]["name"], entries[1]["dsn"] = "second", "first", in.urls[0]
		})
		return cfg
	}())
}

// A core starts without a cell that is away, and serves its tenants once it is back.
func TestACellThatIsAwayAtTheStart(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second")
	first := start(t, in.config())
	tenants := in.tenantsIn(first)
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	thaw := in.stalls[1].freeze()
	defer thaw()
	core := start(t, in.config())
	if answer := ask[json.RawMessage](core, api.HopSubmit, tenants[1], func() api.HopSubmitRequest { r, _ := jobOf(); return r }()); answer.Status != http.StatusServiceUnavailable {
		t.Errorf("a submit to the cell that is away: %+v", answer)
	}
	request, _ := jobOf()
	must[api.SubmitResponse](core, api.HopSubmit, tenants[0], request)
	thaw()
	celltest.Eventually(t, "the cell's tenants to be served", func() bool {
		request, _ := jobOf()
		return ask[json.RawMessage](core, api.HopSubmit, tenants[1], request).Problem == nil
	})
	_, text := core.fetch("GET", core.metrics+"/metrics", nil)
	for _, name := range in.names {
		if !strings.Contains(string(text), `forgequeue_jobs_submitted_total{cell="`+name+`"} 1`) {
			t.Errorf("no metrics of the cell %s", name)
		}
	}
}

func TestCellsAreListed(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second")
	core := start(t, in.config())
	tenants := in.tenantsIn(core)
	request, _ := jobOf()
	must[api.SubmitResponse](core, api.HopSubmit, tenants[1], request)
	listed, err := app.Cells(t.Context(), in.cfg)
	if err != nil || len(listed) != 2 {
		t.Fatalf("%+v, %v", listed, err)
	}
	for i, one := range listed {
		if one.Name != in.names[i] || one.Tenants != 1 || one.Jobs != int64(i) || one.Bytes == 0 || one.Problem != "" || one.Weight != 1 || !one.AcceptsNew {
			t.Errorf("%+v", one)
		}
	}
	in.write(func(entries []map[string]any) {
		entries[1]["dsn"], entries[1]["accepts_new"] = "postgres://u:hunter2@127.0.0.1:1/x", false
	})
	if listed, err = app.Cells(t.Context(), in.cfg); err != nil || listed[1].Problem == "" || listed[0].Problem != "" {
		t.Fatalf("%+v, %v", listed, err)
	}
	var text strings.Builder
	if err := app.WriteCells(&text, listed); err != nil || !strings.Contains(text.String(), "second") || strings.Contains(text.String(), "hunter2") {
		t.Errorf("%s, %v", text.String(), err)
	}
	if _, err := app.Cells(t.Context(), config(t, in.urls[0])); err == nil || !strings.Contains(err.Error(), "FORGEQUEUE_CELLS") {
		t.Errorf("one database: %v", err)
	}
}

func TestDiagnoseCells(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second")
	diagnose := func() diagnosis.Diagnosis {
		return app.Diagnose(t.Context(), map[string]string{"DATABASE_URL": in.urls[0], "FORGEQUEUE_CELLS": in.file})
	}
	for _, f := range diagnose().Findings {
		if f.Level == diagnosis.LevelFail {
			t.Errorf("%+v", f)
		}
	}
	for says, change := range map[string]func([]map[string]any){
		"cell second: PostgreSQL":       func(entries []map[string]any) { entries[1]["dsn"] = "postgres://u:hunter2@127.0.0.1:1/x" },
		"cell second: which cell it is": func(entries []map[string]any) { entries[1]["name"], entries[1]["dsn"] = "second", celltest.URL(t) },
		"cell second: migrations":       func(entries []map[string]any) { entries[1]["dsn"] = celltest.EmptyURL(t) },
		"which cell it is":              func(entries []map[string]any) { entries[0]["name"] = "another" },
		"PostgreSQL settings":           func(entries []map[string]any) { entries[1]["weight"] = 0 },
	} {
		in.write(change)
		found := false
		for _, f := range diagnose().Findings {
			found = found || f.Check == says && f.Level == diagnosis.LevelFail && f.Advice != ""
			if strings.Contains(f.Detail, "hunter2") {
				t.Errorf("%+v", f)
			}
		}
		if !found {
			t.Errorf("%s: %+v", says, diagnose().Findings)
		}
	}
}

// A tenant may be made in a cell that takes none by itself.
func TestTheCellOfANewTenant(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second")
	in.write(func(entries []map[string]any) { entries[1]["accepts_new"] = false })
	core := start(t, in.config())
	create := func(cell *string) api.Result[api.Tenant] {
		return ask[api.Tenant](core, api.HopTenantCreate, operator, api.HopTenantCreateRequest{
			ID: uuid.Must(uuid.NewV7()).String(), TenantRequest: api.TenantRequest{Name: "t", Cell: cell},
		})
	}
	for range 3 {
		if got := create(nil); got.Value == nil || got.Value.Cell != "first" {
			t.Fatalf("%+v", got)
		}
	}
	named := create(new("second"))
	if named.Value == nil || named.Value.Cell != "second" {
		t.Fatalf("%+v", named)
	}
	if got := must[api.Tenant](core, api.HopTenantGet, operator, api.HopTenantRequest{ID: named.Value.ID}); got.Cell != "second" {
		t.Errorf("%+v", got)
	}
	if got := create(new("absent")); got.Problem == nil || got.Problem.Code != problem.InvalidRequest {
		t.Errorf("%+v", got)
	}
	if listed := must[api.Page[api.Tenant]](core, api.HopTenantList, operator, api.HopPageRequest{PageSize: 10}); len(listed.Items) != 4 || listed.Items[3].Cell != "first" {
		t.Errorf("%+v", listed)
	}
	alone := start(t, config(t, celltest.URL(t)))
	if got := ask[api.Tenant](alone, api.HopTenantCreate, operator, api.HopTenantCreateRequest{
		ID: uuid.Must(uuid.NewV7()).String(), TenantRequest: api.TenantRequest{Name: "t", Cell: new("first")},
	}); got.Problem == nil || got.Problem.Code != problem.InvalidRequest {
		t.Errorf("one database: %+v", got)
	}
}
