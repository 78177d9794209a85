package coreclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// installation is a core for each of three cells, home first.
type installation struct {
	*testing.T
	names  []string
	cores  []*coretest.Core
	client *coreclient.Client
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	in := &installation{T: t, names: []string{"home", "second", "third"}}
	urls := make([]string, len(in.names))
	for i, name := range in.names {
		in.cores = append(in.cores, coretest.New(t))
		urls[i] = name + "=" + in.cores[i].URL + "/cells/" + name
		in.cores[i].On(hop.GetJob.Path, func(coretest.Item) coretest.Result { return coretest.Value(http.StatusOK, api.Whoami{KeyID: name}) })
		in.cores[i].On(hop.GetTypeSet.Path, func(coretest.Item) coretest.Result {
			return coretest.Value(http.StatusOK, hop.TypeSet{Version: int64(i)})
		})
		for _, path := range []string{hop.RegisterWorker.Path, hop.Leave.Path} {
			in.cores[i].On(path, func(coretest.Item) coretest.Result { return coretest.Value(http.StatusOK, api.Worker{WorkerID: name}) })
		}
		in.claims(i)
		in.beats(i)
		in.outcomes(i)
	}
	in.client = client(t, strings.Join(urls, ","), coretest.Secret)
	return in
}

// claims has a cell answer claims with no jobs, those that wait after a while.
func (in *installation) claims(cell int) {
	in.cores[cell].On(hop.ClaimJobs.Path, func(item coretest.Item) coretest.Result {
		var asked api.ClaimRequest
		_ = json.Unmarshal(item.Request, &asked)
		if asked.WaitMS != nil {
			time.Sleep(time.Duration(*asked.WaitMS) * time.Millisecond)
		}
		return coretest.Value(http.StatusOK, api.ClaimResponse{Jobs: []api.ClaimedJob{}})
	})
}

func jobsOf(name string) coretest.Result {
	return coretest.Value(http.StatusOK, api.ClaimResponse{Jobs: []api.ClaimedJob{{ID: "job of " + name, LeaseToken: "lease of " + name}}})
}

func (in *installation) beats(cell int) {
	in.cores[cell].On(hop.Heartbeat.Path, func(item coretest.Item) coretest.Result {
		var asked hop.WorkerHeartbeat
		_ = json.Unmarshal(item.Request, &asked)
		made := api.HeartbeatResponse{Leases: []api.LeaseStatus{}}
		for _, lease := range asked.Leases {
			status := api.LeaseOK
			if lease.LeaseToken != "lease of "+in.names[cell] {
				status = api.LeaseLost
			}
			made.Leases = append(made.Leases, api.LeaseStatus{JobID: lease.JobID, Status: status, LeaseExpiresAt: new(api.At(time.Unix(1, 0)))})
		}
		return coretest.Value(http.StatusOK, made)
	})
}

func (in *installation) outcomes(cell int) {
	in.cores[cell].On(hop.ReportOutcomes.Path, func(item coretest.Item) coretest.Result {
		var asked api.OutcomesRequest
		_ = json.Unmarshal(item.Request, &asked)
		made := api.OutcomesResponse{Results: []api.OutcomeResult{}}
		for i, outcome := range asked.Outcomes {
			status := http.StatusOK
			if outcome.LeaseToken != "lease of "+in.names[cell] {
				status = http.StatusConflict
			}
			made.Results = append(made.Results, api.OutcomeResult{Index: i, Status: status, Outcome: &api.Outcome{JobID: outcome.JobID}})
		}
		return coretest.Value(http.StatusOK, made)
	})
}

// freeze has a cell answer nothing until thaw is called.
func (in *installation) freeze(cell int) (thaw func()) {
	frozen := make(chan struct{})
	thaw = sync.OnceFunc(func() { close(frozen) })
	in.Cleanup(thaw)
	wait := func(http.ResponseWriter, *http.Request) { <-frozen }
	for _, path := range []string{
		hop.ClaimJobs.Path, hop.Heartbeat.Path, hop.ReportOutcomes.Path, hop.RegisterWorker.Path, hop.Leave.Path, hop.LookUpKey.Path, hop.GetReadiness.Path, hop.GetInstallation.Path,
	} {
		in.cores[cell].Raw(path, wait)
	}
	return thaw
}

func (in *installation) knows(cell int, key hop.KeyRecord) {
	key.Kind = hop.PrincipalTenant
	in.cores[cell].AddKey(key)
}

func ownerOf(key hop.KeyRecord) hop.Principal {
	return hop.Principal{Kind: hop.PrincipalTenant, Tenant: key.Tenant, KeyID: key.KeyID}
}

func ask[Resp, Req any](in *installation, op hop.Op[Req, Resp], how cellclient.How, p hop.Principal, request Req) hop.Result[Resp] {
	in.Helper()
	ctx, cancel := context.WithTimeout(in.Context(), 20*time.Second)
	defer cancel()
	answer, err := coreclient.Call(ctx, in.client, op, how, hop.Item[Req]{Principal: p, Request: request})
	if err != nil {
		in.Errorf("%s: %v", op.Path, err)
	}
	return answer
}

// whereIs is the cell that a tenant's call gets to.
func (in *installation) whereIs(key hop.KeyRecord) string {
	in.Helper()
	answer := ask(in, hop.Op[hop.ID, api.Whoami]{Operation: hop.GetJob.Operation}, cellclient.How{}, ownerOf(key), hop.ID{ID: "j"})
	if answer.Problem != nil {
		return string(answer.Problem.Code)
	}
	return answer.Value.KeyID
}

var platformWorker = hop.Principal{Kind: hop.PrincipalPlatform, KeyID: "p"} //nolint:gochecknoglobals // a constant

func TestURLsOfCells(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"http://core:8081": true, "http://core:8081/": true, "http://core:8081/cells/home": false, "core:8081": false, "": false,
		"home=http://core:8081/cells/home": true, "home=http://core:8081/cells/home, second=https://core-2/cells/second": true,
		"home=http://core:8081,home=http://core:8082": false, "=http://core:8081": false, "home=": false, "home=http://u:p@core": false, "home=http://a,": false,
	} {
		if err := coreclient.CheckURL(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A tenant's calls go to the cell that its key names, and follow it when it is moved.
func TestCallsGoToTheTenantsCell(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	atHome, away := hop.KeyRecord{KeyID: "a", Tenant: "t1"}, hop.KeyRecord{KeyID: "b", Tenant: "t2", Cell: "third"}
	in.knows(0, atHome)
	in.knows(0, away)
	for key, version := range map[string]int64{"a": 0, "b": 2} { // types lie with the jobs
		if found, known, err := in.client.LookUpKey(t.Context(), key); err != nil || !known || found.TypesVersion != version {
			t.Errorf("%s: %+v, %v, %v", key, found, known, err)
		}
	}
	if got, other := in.whereIs(atHome), in.whereIs(away); got != "home" || other != "third" {
		t.Errorf("in %s and %s", got, other)
	}
	// what belongs to no tenant, and the directory, are the home's
	if got := ask(in, hop.Op[hop.ID, api.Whoami]{Operation: hop.GetJob.Operation}, cellclient.How{}, hop.Principal{Kind: hop.PrincipalOperator}, hop.ID{}); got.Value.KeyID != "home" {
		t.Errorf("the operator's: %+v", got)
	}
	in.cores[0].On(hop.RevokeKey.Path, func(coretest.Item) coretest.Result { return coretest.Value(http.StatusOK, struct{}{}) })
	if got := ask(in, hop.RevokeKey, cellclient.How{}, ownerOf(away), hop.ID{}); got.Problem != nil {
		t.Errorf("the directory's: %+v", got)
	}
	// while it is moved it is refused, and then found
	moving := func(coretest.Item) coretest.Result { return coretest.Refuse(problem.TenantMoving, "it is moved") }
	in.cores[2].On(hop.GetJob.Path, moving)
	if got := in.whereIs(away); got != string(problem.TenantMoving) {
		t.Errorf("while it is moved: %s", got)
	}
	away.Cell = "second"
	in.knows(0, away)
	if got := in.whereIs(away); got != "second" {
		t.Errorf("after the move: %s", got)
	}
	in.cores[1].Raw(hop.GetJob.Path, func(w http.ResponseWriter, _ *http.Request) { problem.New(problem.TenantMoving, "").Write(w) })
	away.Cell = ""
	in.knows(0, away)
	if got := in.whereIs(away); got != "home" {
		t.Errorf("after it moved home: %s", got)
	}
	unlisted := hop.KeyRecord{KeyID: "c", Tenant: "t3", Cell: "fourth"}
	in.knows(0, unlisted)
	if _, _, err := in.client.LookUpKey(t.Context(), "c"); !errors.Is(err, cellclient.ErrUnavailable) || !strings.Contains(err.Error(), "FORGEQUEUE_CORE_URL") {
		t.Errorf("a cell that the gateway does not know: %v", err)
	}
}

// So do the calls of a person, by the id of the tenant; without the home the copies know it.
func TestAPersonsCallsGoToTheTenantsCell(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	person := hop.KeyRecord{KeyID: "oidc:ann/abc", Tenant: "t2"}
	in.cores[0].AddTenant(hop.KeyRecord{Tenant: "t2", Cell: "third"})
	if found, known, err := in.client.LookUpTenant(t.Context(), "t2"); err != nil || !known || found.TypesVersion != 2 {
		t.Errorf("%+v, %v, %v", found, known, err)
	}
	if got := in.whereIs(person); got != "third" {
		t.Errorf("in %s", got)
	}
	in.cores[2].On(hop.GetJob.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(problem.TenantMoving, "it is moved") })
	in.cores[0].AddTenant(hop.KeyRecord{Tenant: "t2", Cell: "second"})
	if got := in.whereIs(person); got != "second" {
		t.Errorf("after the move: %s", got)
	}
	if _, known, err := in.client.LookUpTenant(t.Context(), "unknown"); err != nil || known {
		t.Errorf("an unknown tenant: %v, %v", known, err)
	}
	in.cores[2].AddTenant(hop.KeyRecord{Tenant: "t2"})
	in.cores[0].Raw(hop.LookUpTenant.Path, func(w http.ResponseWriter, _ *http.Request) { problem.New(problem.Overloaded, "").Write(w) })
	if found, known, err := in.client.LookUpTenant(t.Context(), "t2"); err != nil || !known || found.Cell != "third" {
		t.Errorf("without the home: %+v, %v, %v", found, known, err)
	}
}

// While the home cell does not answer, keys are looked up in the copies, and its silence costs a look-up little.
func TestKeysWithoutTheHome(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	key := hop.KeyRecord{KeyID: "b", Tenant: "t2"}
	in.knows(2, key) // a copy does not say the cell
	thaw := in.freeze(0)
	for i := range 5 {
		begun := time.Now()
		found, known, err := in.client.LookUpKey(t.Context(), "b")
		if err != nil || !known || found.Cell != "third" {
			t.Fatalf("%+v, %v, %v", found, known, err)
		}
		t.Logf("look-up %d took %v", i, time.Since(begun))
	}
	if got := in.whereIs(key); got != "third" {
		t.Errorf("in %s", got)
	}
	if _, _, err := in.client.LookUpKey(t.Context(), "unknown"); err == nil {
		t.Error("a key that may be the home's is told to be none")
	}
	if status, err := in.client.Ready(t.Context()); err != nil || status != "degraded" {
		t.Errorf("ready: %q, %v", status, err)
	}
	thaw()
}

// A platform's worker gets the jobs of all cells, by tokens that say where its leases are.
func TestAPlatformWorker(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	claim := func(wait int64) []api.ClaimedJob {
		t.Helper()
		how, request := cellclient.How{}, api.ClaimRequest{WorkerID: "w"}
		if wait > 0 {
			how.Parked, request.WaitMS = true, &wait
		}
		raw := ask(in, hop.Raw(hop.ClaimJobs), how, platformWorker, request)
		var answer api.ClaimResponse
		if raw.Value == nil || json.Unmarshal(*raw.Value, &answer) != nil {
			t.Fatalf("%+v", raw)
		}
		return answer.Jobs
	}
	if jobs := claim(0); len(jobs) != 0 {
		t.Errorf("%+v", jobs)
	}
	var held []api.ClaimedJob
	for cell, name := range in.names {
		in.cores[cell].On(hop.ClaimJobs.Path, func(coretest.Item) coretest.Result { return jobsOf(name) })
		jobs := claim(100)
		if len(jobs) != 1 || jobs[0].ID != "job of "+name {
			t.Fatalf("cell %s: %+v", name, jobs)
		}
		held = append(held, jobs[0])
		in.claims(cell)
	}
	slices.Reverse(held)
	beat, outcomes := hop.WorkerHeartbeat{WorkerID: "w"}, api.OutcomesRequest{}
	for _, j := range held {
		beat.Leases = append(beat.Leases, api.Lease{JobID: j.ID, LeaseToken: j.LeaseToken})
		outcomes.Outcomes = append(outcomes.Outcomes, api.OutcomeRequest{JobID: j.ID, LeaseToken: j.LeaseToken, Kind: api.KindComplete})
	}
	for i, lease := range ask(in, hop.Heartbeat, cellclient.How{}, platformWorker, beat).Value.Leases {
		if lease.JobID != held[i].ID || lease.Status != api.LeaseOK || lease.LeaseExpiresAt == nil {
			t.Errorf("lease %d: %+v", i, lease)
		}
	}
	for cell := range in.cores { // a sign of life in each
		if n := len(in.cores[cell].Requests(hop.Heartbeat.Path)); n != 1 {
			t.Errorf("cell %d had %d heartbeats", cell, n)
		}
	}
	for i, done := range ask(in, hop.ReportOutcomes, cellclient.How{Shared: true}, platformWorker, outcomes).Value.Results {
		if done.Index != i || done.Status != http.StatusOK || done.Outcome.JobID != held[i].ID {
			t.Errorf("outcome %d: %+v", i, done)
		}
	}
	ask(in, hop.RegisterWorker, cellclient.How{}, platformWorker, api.WorkerRequest{WorkerID: "w"})
	for cell := range in.cores {
		if n := len(in.cores[cell].Requests(hop.RegisterWorker.Path)); n != 1 {
			t.Errorf("cell %d had %d registrations", cell, n)
		}
	}
}

// The first cell that has jobs answers a claim that waits. What another one leases at the same time is given back.
func TestAClaimThatWaitsInAllCells(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	both := make(chan struct{})
	var arrived atomic.Int64
	for cell, name := range in.names[:2] {
		in.cores[cell].On(hop.ClaimJobs.Path, func(item coretest.Item) coretest.Result {
			var asked api.ClaimRequest
			_ = json.Unmarshal(item.Request, &asked)
			if asked.WaitMS == nil {
				return coretest.Value(http.StatusOK, api.ClaimResponse{Jobs: []api.ClaimedJob{}})
			}
			if arrived.Add(1) == 2 {
				close(both)
			}
			<-both
			return jobsOf(name)
		})
	}
	wait := int64(15_000)
	in.cores[2].On(hop.ClaimJobs.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(http.StatusOK, api.ClaimResponse{Jobs: []api.ClaimedJob{}})
	})
	claimed := ask(in, hop.ClaimJobs, cellclient.How{Parked: true}, platformWorker, api.ClaimRequest{WorkerID: "w", WaitMS: &wait}).Value.Jobs
	if len(claimed) != 1 {
		t.Fatalf("%+v", claimed)
	}
	loser := 0
	if claimed[0].ID == "job of home" {
		loser = 1
	}
	eventually(t, "the other cell's job to be given back", func() bool {
		for _, request := range in.cores[loser].Requests(hop.ReportOutcomes.Path) {
			if strings.Contains(string(request.Body), `"release"`) && strings.Contains(string(request.Body), "lease of "+in.names[loser]) {
				return true
			}
		}
		return false
	})
	if n := len(in.cores[1-loser].Requests(hop.ReportOutcomes.Path)); n != 0 {
		t.Errorf("the job that was taken was given back")
	}
}

// A platform's worker over three cells of which one freezes: what concerns the others is answered, soon and then at once.
func TestAFrozenCellAndAPlatformWorker(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	thaw := in.freeze(1)
	beat := hop.WorkerHeartbeat{WorkerID: "w", Leases: []api.Lease{
		{JobID: "1", LeaseToken: "lease of home"}, {JobID: "2", LeaseToken: "second~lease of second"}, {JobID: "3", LeaseToken: "third~lease of third"},
	}}
	outcomes := api.OutcomesRequest{}
	for _, lease := range beat.Leases {
		outcomes.Outcomes = append(outcomes.Outcomes, api.OutcomeRequest{JobID: lease.JobID, LeaseToken: lease.LeaseToken, Kind: api.KindComplete})
	}
	for i := range 4 {
		begun := time.Now()
		leases := ask(in, hop.Heartbeat, cellclient.How{}, platformWorker, beat).Value.Leases
		for place, lease := range leases { // the frozen cell's lease is neither extended nor told to be lost
			if lease.Status != api.LeaseOK || (lease.LeaseExpiresAt == nil) != (place == 1) {
				t.Errorf("lease %d: %+v", place, lease)
			}
		}
		for place, done := range ask(in, hop.ReportOutcomes, cellclient.How{}, platformWorker, outcomes).Value.Results {
			if (done.Status != http.StatusOK) != (place == 1) || place == 1 && done.Problem.Code != problem.OutcomeUnknown {
				t.Errorf("outcome %d: %+v", place, done)
			}
		}
		in.cores[2].On(hop.ClaimJobs.Path, func(coretest.Item) coretest.Result { return jobsOf("third") })
		if jobs := ask(in, hop.ClaimJobs, cellclient.How{}, platformWorker, api.ClaimRequest{WorkerID: "w"}).Value.Jobs; len(jobs) != 1 {
			t.Errorf("%+v", jobs)
		}
		ask(in, hop.RegisterWorker, cellclient.How{}, platformWorker, api.WorkerRequest{WorkerID: "w"})
		t.Logf("round %d took %v", i, time.Since(begun))
	}
	thaw()
}

// What a cell leases to a claim that was answered already is given back.
func TestALateClaimIsGivenBack(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	late := make(chan struct{})
	for cell, name := range in.names {
		in.cores[cell].On(hop.ClaimJobs.Path, func(coretest.Item) coretest.Result {
			if cell == 0 {
				<-late
			}
			return jobsOf(name)
		})
	}
	if jobs := ask(in, hop.ClaimJobs, cellclient.How{}, platformWorker, api.ClaimRequest{WorkerID: "w"}).Value.Jobs; len(jobs) != 1 || jobs[0].ID != "job of second" {
		t.Fatalf("%+v", jobs)
	}
	close(late)
	eventually(t, "the late cell's job to be given back", func() bool { return len(in.cores[0].Requests(hop.ReportOutcomes.Path)) == 1 })
}

// The installation is that of all cells that answer.
func TestTheInstallationOfSeveralCells(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	for cell, name := range in.names {
		in.cores[cell].On(hop.GetInstallation.Path, func(coretest.Item) coretest.Result {
			return coretest.Value(http.StatusOK, api.Installation{Processes: []api.Process{{ID: name}}, Postgres: api.PostgresState{Version: name}})
		})
	}
	operator := hop.Principal{Kind: hop.PrincipalOperator}
	thaw := in.freeze(2)
	got := ask(in, hop.GetInstallation, cellclient.How{}, operator, struct{}{}).Value
	if got.Postgres.Version != "home" || len(got.Cells) != 1 || got.Cells[0].Name != "second" || got.Cells[0].Postgres.Version != "second" || len(got.Processes) != 2 ||
		got.Checks["cell home"] != "ok" || got.Checks["cell third"] != coreclient.Down {
		t.Errorf("%+v", got)
	}
	thaw()
}

// A tenant's audit log is in its cell, but for its keys, which are the home's: one list, in order, whole, whatever the pages.
func TestTheAuditLogOfATenantElsewhere(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	key := hop.KeyRecord{KeyID: "b", Tenant: "t2", Cell: "second"}
	in.knows(0, key)
	if _, _, err := in.client.LookUpKey(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	var want []string
	stored := make([][]string, 2)
	for i := range 23 {
		id := fmt.Sprintf("%02d", 22-i)
		want = append(want, id)
		stored[i*i%7%2] = append(stored[i*i%7%2], id)
	}
	for cell := range stored {
		in.cores[cell].On(hop.ListAudit.Path, func(item coretest.Item) coretest.Result {
			var asked hop.Filtered[api.AuditFilter]
			_ = json.Unmarshal(item.Request, &asked)
			from := 0
			_, _ = fmt.Sscan(asked.PageToken, &from)
			page := api.Page[api.AuditEntry]{Items: []api.AuditEntry{}}
			until := min(from+max(asked.PageSize-cell, 1), len(stored[cell])) // one may end its pages early
			if cell == 1 && from == 4 && asked.PageToken != "4x" {            // and one may have looked at many that do not match
				return coretest.Value(http.StatusOK, api.Page[api.AuditEntry]{Items: []api.AuditEntry{}, NextPageToken: new("4x")})
			}
			for _, id := range stored[cell][from:until] {
				page.Items = append(page.Items, api.AuditEntry{ID: id})
			}
			if until < len(stored[cell]) {
				page.NextPageToken = new(fmt.Sprint(until))
			}
			return coretest.Value(http.StatusOK, page)
		})
	}
	for _, size := range []int{1, 2, 3, 5, 50} {
		var got []string
		token := ""
		for range 200 {
			page := ask(in, hop.ListAudit, cellclient.How{}, ownerOf(key), hop.Filtered[api.AuditFilter]{PageRequest: hop.PageRequest{PageSize: size, PageToken: token}}).Value
			for _, entry := range page.Items {
				got = append(got, entry.ID)
			}
			if len(page.Items) > size {
				t.Errorf("a page of %d", len(page.Items))
			}
			if page.NextPageToken == nil {
				break
			}
			token = *page.NextPageToken
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v", size, got)
		}
	}
	if bad := ask(in, hop.ListAudit, cellclient.How{}, ownerOf(key), hop.Filtered[api.AuditFilter]{PageRequest: hop.PageRequest{PageSize: 5, PageToken: "x"}}); bad.Problem == nil {
		t.Errorf("%+v", bad)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
