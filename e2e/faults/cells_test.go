package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// frozenCell is the cell whose PostgreSQL, a server of its own, is stopped.
const frozenCell = 2

// cellTenant is a tenant with its cell, and what is known of its jobs.
type cellTenant struct {
	stack.Tenant
	cell     int
	accepted sync.Map // id → true, of jobs whose submit was answered
	refused  atomic.Int64
	done     atomic.Int64
}

type cellStack struct {
	*testing.T
	*stack.Cluster
	urls    []string
	tenants []*cellTenant
}

// Three cells, of which one has a PostgreSQL server of its own. That server is frozen: its tenants are
// refused, and the others' jobs go on. Thawed, all that was accepted is done once.
func TestCells(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	up := stack.Up(t, stack.Folder(t), "--demo=false")
	names := []string{"first", "second", "third"}
	c := &cellStack{T: t, urls: []string{stack.NewDatabase(t), stack.NewDatabase(t), up.SecondDatabase(t)}}
	listed := []map[string]any{{"name": names[0]}, {"name": names[1], "dsn": c.urls[1], "weight": 2}, {"name": names[2], "dsn": c.urls[2]}}
	text, err := json.Marshal(listed)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cells.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	settings := stack.PushSettings()
	settings["FORGEQUEUE_CELLS"] = file
	c.Cluster = stack.NewCluster(t, stack.ClusterOptions{Cells: names, Gateways: 2, DatabaseURL: c.urls[0], Settings: settings})
	admin := c.Client(t, stack.Operator)
	for i, name := range names {
		made, err := admin.CreateTenant(t.Context(), api.TenantRequest{Name: name, Plan: new("unlimited"), Cell: &names[i]})
		if err != nil || made.Cell != name {
			t.Fatalf("tenant in %s: %+v, %v", name, made, err)
		}
		key, err := admin.CreateKey(t.Context(), made.ID, api.KeyRequest{Scopes: api.Scopes()})
		if err != nil {
			t.Fatal(err)
		}
		c.tenants = append(c.tenants, &cellTenant{Tenant: stack.Tenant{ID: made.ID, Key: key.Secret}, cell: i})
	}
	begun := time.Now()
	c.features()
	featured := time.Since(begun)
	c.freeze(up)
	t.Logf("%v for what there is in each cell, %v for the freeze", featured.Round(time.Second), (time.Since(begun) - featured).Round(time.Second))
	c.lists(admin)
	for cell := range c.urls {
		if n := stack.Query[int](t.Context(), t, c.urls[cell], `SELECT count(DISTINCT tenant_id)::integer FROM finished_jobs`); len(n) != 1 || n[0] != 1 {
			t.Errorf("cell %d has jobs of %v tenants", cell, n)
		}
	}
	if lines := c.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
}

// features: schedules, webhooks, dead letters in each cell.
func (c *cellStack) features() {
	c.Helper()
	var called sync.Map
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event api.WebhookEvent
		if json.NewDecoder(r.Body).Decode(&event) == nil {
			called.Store(r.URL.Path, true)
		}
	}))
	c.Cleanup(receiver.Close)
	for _, owner := range c.tenants {
		own := c.Client(c.T, owner.Key)
		if _, err := own.PutWebhook(c.Context(), "ends", api.WebhookRequest{URL: receiver.URL + "/" + owner.ID, Events: []string{api.EventJobDeadLetter}}); err != nil {
			c.Fatal(err)
		}
		if _, err := own.PutSchedule(c.Context(), "tick", api.ScheduleRequest{EveryMS: new(int64(1000)), Job: api.ScheduleJob{Type: "tick", Queue: "ticks"}}); err != nil {
			c.Fatal(err)
		}
		id := stack.Submit(c.T, own, api.SubmitRequest{Type: "fails", Queue: "fails"})
		job := stack.ClaimOne(c.T, own, "w", "fails")
		if _, err := own.Fail(c.Context(), job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Error: &api.JobError{Type: "x", Message: "y"}, Permanent: true}); err != nil {
			c.Fatal(err)
		}
		if dead, err := own.DeadLetters(c.Context(), api.DeadLetterFilter{}, client.PageRequest{}); err != nil || len(dead.Items) != 1 || dead.Items[0].Job.ID != id {
			c.Errorf("dead letters in cell %d: %+v, %v", owner.cell, dead, err)
		}
		if _, err := own.Redrive(c.Context(), id); err != nil {
			c.Errorf("redrive in cell %d: %v", owner.cell, err)
		}
		job = stack.ClaimOne(c.T, own, "w", "fails")
		if _, err := own.Complete(c.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil || job.ID != id {
			c.Errorf("the redriven job in cell %d: %v", owner.cell, err)
		}
		job = stack.ClaimOne(c.T, own, "w", "ticks")
		if _, err := own.Complete(c.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
			c.Errorf("a tick in cell %d: %v", owner.cell, err)
		}
		if err := own.DeleteSchedule(c.Context(), "tick"); err != nil {
			c.Error(err)
		}
		c.emptied(owner, "ticks") // more than one has come by now, if the machine is slow
		c.types(owner)
		stack.Eventually(c.T, time.Minute, "the webhook was called", func() bool {
			_, there := called.Load("/" + owner.ID)
			return there
		})
	}
}

// types: a type that is set through one gateway applies in the other.
func (c *cellStack) types(owner *cellTenant) {
	c.Helper()
	first, second := c.clientOf(c.Gateways[0], owner.Key, new(atomic.Int64)), c.clientOf(c.Gateways[1], owner.Key, new(atomic.Int64))
	if _, err := first.PutType(c.Context(), "typed", api.JobTypeRequest{PayloadSchema: json.RawMessage(`{"required":["to"]}`)}); err != nil {
		c.Fatal(err)
	}
	typed := func(with *client.Client, payload string) error {
		_, err := with.Submit(c.Context(), api.SubmitRequest{Type: "typed", Queue: "typed", Payload: json.RawMessage(payload)})
		return err
	}
	mismatch := func(err error) bool {
		p, ok := problem.From(err)
		return ok && p.Code == problem.SchemaMismatch && p.Status == http.StatusUnprocessableEntity
	}
	if err := typed(first, `{}`); !mismatch(err) {
		c.Errorf("cell %d: a payload that does not fit: %v", owner.cell, err)
	}
	stack.Eventually(c.T, time.Minute, "the other gateway knows the type", func() bool { return mismatch(typed(second, `{}`)) })
	if err := typed(second, `{"to":"x"}`); err != nil {
		c.Errorf("cell %d: a payload that fits: %v", owner.cell, err)
	}
	c.emptied(owner, "typed")
}

// emptied completes what waits in a queue.
func (c *cellStack) emptied(owner *cellTenant, queue string) {
	c.Helper()
	own := c.Client(c.T, owner.Key)
	for left := 1; left > 0; {
		claimed, err := own.Claim(c.Context(), api.ClaimRequest{WorkerID: "w", Queues: []string{queue}, WaitMS: new(int64(0)), Max: new(10)})
		if err != nil {
			c.Fatal(err)
		}
		for _, job := range claimed.Jobs {
			if _, err := own.Complete(c.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
				c.Fatal(err)
			}
		}
		counts := stack.Query[int](c.Context(), c.T, c.urls[owner.cell], `SELECT count(*)::integer FROM jobs WHERE queue = $1`, queue)
		if len(counts) != 1 {
			c.Fatal("the cell does not answer")
		}
		left = counts[0]
	}
}

// freeze runs producers and workers of all tenants, and a platform's worker, and freezes a cell meanwhile.
func (c *cellStack) freeze(up *stack.Stack) {
	c.Helper()
	producing, stopProducing := context.WithCancel(c.Context())
	defer stopProducing()
	working, stopWorking := context.WithCancel(c.Context())
	defer stopWorking()
	var producers, workers sync.WaitGroup
	platformKey := c.NewPlatformKey(c.T)
	for i, gateway := range c.Gateways {
		platform := c.clientOf(gateway, platformKey, new(atomic.Int64))
		workers.Go(func() { c.work(working, platform, fmt.Sprintf("platform-%d", i)) })
		for _, owner := range c.tenants {
			own := c.clientOf(gateway, owner.Key, &owner.refused)
			producers.Go(func() { owner.produce(producing, own) })
			workers.Go(func() { c.work(working, own, fmt.Sprintf("own-%d", i)) })
		}
	}
	progress := func(cells ...int) func() bool {
		var before []int64
		for _, cell := range cells {
			before = append(before, c.tenants[cell].done.Load())
		}
		return func() bool {
			for i, cell := range cells {
				if c.tenants[cell].done.Load() < before[i]+30 {
					return false
				}
			}
			return true
		}
	}
	stack.Eventually(c.T, time.Minute, "jobs of all cells are done", progress(0, 1, 2))

	submits := c.submits(producing, &producers)
	pace(producing, time.Duration(lane(1, 60))*time.Second)
	before := submits()
	thaw := freeze(c.T, postmaster(c.T, up))
	defer thaw()
	// each answer counts, so a call that hangs would hold this up
	victim, refusedBefore := c.tenants[frozenCell], c.tenants[frozenCell].refused.Load()
	stack.Eventually(c.T, time.Minute, "the frozen cell's tenant is refused", func() bool { return victim.refused.Load() >= refusedBefore+5 })
	stack.Eventually(c.T, time.Minute, "jobs of the other cells are done meanwhile", progress(0, 1))
	refusedOthers := c.tenants[0].refused.Load() + c.tenants[1].refused.Load()
	stack.Eventually(c.T, time.Minute, "and more of them", progress(0, 1))
	if now := c.tenants[0].refused.Load() + c.tenants[1].refused.Load(); now != refusedOthers {
		c.Errorf("%d submits of the others were refused", now-refusedOthers)
	}
	pace(producing, time.Duration(lane(1, 60))*time.Second)
	meanwhile := submits()
	c.Logf("submits of the other cells' tenants: %d, p50 %v, p99 %v, longest %v; while a cell is frozen %d, p50 %v, p99 %v, longest %v",
		len(before), percentile(before, 0.5), percentile(before, 0.99), percentile(before, 1),
		len(meanwhile), percentile(meanwhile, 0.5), percentile(meanwhile, 0.99), percentile(meanwhile, 1))
	thaw()
	stack.Eventually(c.T, time.Minute, "jobs of all cells are done again", progress(0, 1, 2))
	stopProducing()
	producers.Wait()
	for _, owner := range c.tenants {
		owner.allDone(c)
	}
	stopWorking()
	workers.Wait()
}

// submits sends jobs of all cells through each gateway until ctx ends, without keys: they may share requests. What
// it gives returns how long those of the cells that are not frozen took since the last time.
func (c *cellStack) submits(ctx context.Context, group *sync.WaitGroup) func() []time.Duration {
	c.Helper()
	var mu sync.Mutex
	var took []time.Duration
	for _, gateway := range c.Gateways {
		for _, owner := range c.tenants {
			own := c.clientOf(gateway, owner.Key, new(atomic.Int64))
			group.Go(func() {
				for ctx.Err() == nil {
					begun := time.Now()
					_, err := own.Submit(ctx, api.SubmitRequest{Type: "unkeyed"})
					if err == nil && owner.cell != frozenCell {
						mu.Lock()
						took = append(took, time.Since(begun))
						mu.Unlock()
					}
					pace(ctx, 20*time.Millisecond)
				}
			})
		}
	}
	return func() []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		since := took
		took = nil
		return since
	}
}

// refusals counts the submits that are answered with 503, those that the client repeats by itself too.
type refusals struct {
	http.RoundTripper
	count *atomic.Int64
}

func (r refusals) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusServiceUnavailable && request.URL.Path == "/v1/jobs" {
		r.count.Add(1)
	}
	return response, err
}

func (c *cellStack) clientOf(gateway *stack.Service, key string, refused *atomic.Int64) *client.Client {
	c.Helper()
	made, err := client.New(client.Options{URL: gateway.URL, APIKey: key, HTTPClient: &http.Client{Transport: refusals{&http.Transport{}, refused}}})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(made.CloseIdleConnections)
	return made
}

// produce submits jobs until ctx ends, each until it is accepted: with one key, so that it is stored once.
func (o *cellTenant) produce(ctx context.Context, c *client.Client) {
	for ctx.Err() == nil {
		key := strconv.FormatInt(time.Now().UnixNano(), 36)
		for ctx.Err() == nil {
			one, cancel := context.WithTimeout(ctx, stack.Patience(30*time.Second))
			answer, err := c.Submit(one, api.SubmitRequest{Type: "test"}, client.WithIdempotencyKey(key))
			cancel()
			if err == nil {
				o.accepted.Store(answer.ID, true)
				break
			}
			pace(ctx, 20*time.Millisecond)
		}
		pace(ctx, time.Duration(lane(60, 10))*time.Millisecond)
	}
}

// work claims and completes until ctx ends.
func (c *cellStack) work(ctx context.Context, with *client.Client, worker string) {
	wait := time.Second.Milliseconds()
	for ctx.Err() == nil {
		claimed, err := with.Claim(ctx, api.ClaimRequest{WorkerID: worker, Queues: []string{api.DefaultQueue}, WaitMS: &wait, Max: new(5)})
		if err != nil {
			pace(ctx, 20*time.Millisecond)
			continue
		}
		for _, job := range claimed.Jobs {
			if _, err := with.Complete(ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
				continue
			}
			i := slices.IndexFunc(c.tenants, func(o *cellTenant) bool { return job.Tenant == "" || o.ID == job.Tenant })
			if i >= 0 {
				c.tenants[i].done.Add(1)
			}
		}
	}
}

// allDone waits until every accepted job is completed; a row for each job says that it was once.
func (o *cellTenant) allDone(c *cellStack) {
	c.Helper()
	var ids []string
	o.accepted.Range(func(id, _ any) bool { ids = append(ids, id.(string)); return true })
	stack.Eventually(c.T, 2*time.Minute, "all accepted jobs are completed", func() bool {
		done := stack.Query[int](c.Context(), c.T, c.urls[o.cell],
			`SELECT count(*)::integer FROM finished_jobs WHERE state = 'completed' AND id = ANY($1::uuid[])`, ids)
		left := stack.Query[int](c.Context(), c.T, c.urls[o.cell], `SELECT count(*)::integer FROM jobs`)
		return len(done) == 1 && done[0] == len(ids) && len(left) == 1 && left[0] == 0
	})
	if stored := stack.Query[int](c.Context(), c.T, c.urls[o.cell], `SELECT count(*)::integer FROM finished_jobs WHERE type = 'test'`); len(stored) != 1 ||
		stored[0] < len(ids) || stored[0] > len(ids)+2 { // the last of each producer may have been stored unheard
		c.Errorf("cell %d: %v jobs stored, %d accepted", o.cell, stored, len(ids))
	}
}

// lists: what operators see is of all cells.
func (c *cellStack) lists(admin *client.Client) {
	c.Helper()
	tenants, err := admin.ListTenants(c.Context(), client.PageRequest{})
	if err != nil || len(tenants.Items) != len(c.tenants) {
		c.Errorf("tenants: %+v, %v", tenants, err)
	}
	seen := map[string]bool{}
	page, err := admin.AdminAudit(c.Context(), api.AuditFilter{Action: api.AuditWebhookPut}, client.PageRequest{Size: 2})
	for ; err == nil; page, err = admin.AdminAudit(c.Context(), api.AuditFilter{Action: api.AuditWebhookPut}, client.PageRequest{Size: 2, Token: *page.NextPageToken}) {
		for _, entry := range page.Items {
			seen[*entry.Tenant] = true
		}
		if page.NextPageToken == nil {
			break
		}
	}
	if err != nil || len(seen) != len(c.tenants) {
		c.Errorf("webhooks were made by %d tenants: %v", len(seen), err)
	}
	found, err := admin.Installation(c.Context())
	if err != nil || found.Checks["cell third"] != "ok" || found.Checks["core"] == "" {
		c.Errorf("installation: %+v, %v", found.Checks, err)
	}
}
