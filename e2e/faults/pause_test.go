package faults_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Workers are stopped for longer than their leases and then go on as if nothing
// had happened. Their jobs wait again, run elsewhere or are done by then: every
// late heartbeat and finish is refused, and changes nothing.
func TestWorkerPausedPastItsLease(t *testing.T) {
	t.Parallel()
	const jobs = 5 // that a worker holds
	workers, rounds := 4, lane(1, 25)
	l := newLoad(t, stack.NewCluster(t, stack.ClusterOptions{}), 2*time.Second)
	stopWatch := l.watchLeases()
	refused := 0
	for range rounds {
		refused += l.pausedRound(workers, jobs)
	}
	l.setVisibility(2 * time.Second)
	stopWork := l.work(2, 0)
	l.drain(90 * time.Second)
	stopWork()
	stopWatch()
	if h, _ := l.check(); refused != workers*jobs*rounds || h.StaleRefused() < refused {
		t.Errorf("%d late finishes were refused, want %d", refused, workers*jobs*rounds)
	}
	t.Logf("%d workers paused, %d late finishes refused", workers*rounds, refused)
}

// pausedRound gives how many late finishes were refused as they should be.
func (l *load) pausedRound(workers, jobs int) (refused int) {
	t := l.t
	t.Helper()
	c := l.client()
	var paused []*stack.Process
	var held, queues []string
	for i := range workers {
		// Of its own, so that nobody claims what another's lease has lost.
		queue := fmt.Sprintf("%s-%d", loadQueue, i)
		queues = append(queues, queue)
		l.setVisibilityOf(queue, 2*time.Second)
		for range jobs {
			request := l.request()
			request.Queue = queue
			stack.Submit(t, c, request)
		}
		w := l.process(workerPlan{Mode: "hold", Max: jobs, Queue: queue})
		line, err := w.FirstLine(30 * time.Second)
		if err != nil {
			t.Fatalf("the worker holds nothing: %v\n%s", err, w.Output())
		}
		w.Signal(syscall.SIGSTOP)
		var ids []string
		if err := json.Unmarshal([]byte(line), &ids); err != nil {
			t.Fatal(err)
		}
		paused, held = append(paused, w), append(held, ids...)
	}
	stack.Eventually(t, time.Minute, "every lease was taken back", func() bool {
		taken := stack.Query[int](t.Context(), t, l.cluster.DatabaseURL,
			`SELECT count(DISTINCT job_id)::integer FROM attempts WHERE kind = 'lease_expired' AND job_id = ANY($1::uuid[])`, held)
		return len(taken) == 1 && taken[0] == len(held)
	})
	// A third is done by another worker, a third runs there, a third waits.
	for _, queue := range queues {
		l.setVisibilityOf(queue, stack.Patience(30*time.Second))
	}
	third := len(held) / 3
	most := 2 * third
	again, err := c.Claim(t.Context(), api.ClaimRequest{WorkerID: "another", Queues: queues, Max: &most})
	if err != nil || len(again.Jobs) != most {
		t.Fatalf("claimed %d of %d: %v", len(again.Jobs), most, err)
	}
	for _, job := range again.Jobs[:third] {
		if _, err := c.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
			t.Fatal(err)
		}
	}
	before := l.images(held)
	for _, w := range paused {
		w.Signal(syscall.SIGCONT)
	}
	for _, w := range paused {
		if code := w.Wait(t, 30*time.Second); code != 0 {
			t.Fatalf("exit code %d\n%s", code, w.Output())
		}
	}
	for id, image := range l.images(held) {
		l.noted.Note(invariants.Event{Op: invariants.OpImage, Job: id, Before: before[id], After: image})
	}
	for _, job := range again.Jobs[third:] {
		if _, err := c.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
			t.Errorf("the new holder: %v", err)
		}
	}
	l.drainRest(c, queues)
	h := l.history()
	refused = h.Count(func(e invariants.Event) bool {
		return e.Op == invariants.OpOutcome && e.Epoch == 1 && slices.Contains(held, e.Job) && e.Code == "lease_lost" && e.Status == 409
	})
	told := h.Count(func(e invariants.Event) bool {
		return e.Op == invariants.OpHeartbeat && e.Lease == api.LeaseLost && slices.Contains(held, e.Job)
	})
	if told != len(held) {
		t.Errorf("%d of %d late heartbeats were told that the lease is lost", told, len(held))
	}
	return refused
}

// drainRest completes what waits, so that rounds do not mix.
func (l *load) drainRest(c *client.Client, queues []string) {
	l.t.Helper()
	most := 100
	rest, err := c.Claim(l.t.Context(), api.ClaimRequest{WorkerID: "another", Queues: queues, Max: &most})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, job := range rest.Jobs {
		if _, err := c.Complete(l.t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
			l.t.Error(err)
		}
	}
}

// images gives jobs' rows, whole, in whichever table.
func (l *load) images(ids []string) map[string]string {
	l.t.Helper()
	images := map[string]string{}
	for _, table := range []string{"jobs", "finished_jobs", "dead_letters"} {
		for _, image := range stack.Query[string](l.t.Context(), l.t, l.cluster.DatabaseURL,
			fmt.Sprintf(`SELECT to_jsonb(r)::text FROM %s r WHERE id = ANY($1::uuid[])`, table), ids) {
			var row struct{ ID string }
			if err := json.Unmarshal([]byte(image), &row); err != nil {
				l.t.Fatal(err)
			}
			images[row.ID] += table + image
		}
	}
	if len(images) != len(ids) {
		l.t.Fatalf("%d images of %d jobs", len(images), len(ids))
	}
	return images
}

// PostgreSQL stands still for longer than a lease. Nobody could keep one meanwhile, so
// nobody loses one: who holds a job gets the time to say so.
func TestHoldersOutliveAFrozenPostgres(t *testing.T) {
	furtherFault(t, "TestPostgresCrashesUnderLoad")
	t.Parallel()
	up := stack.Up(t, stack.Folder(t), "--demo=false")
	c := stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: up.SecondDatabase(t), RedisURL: up.Redis.URL})
	// Shorter than a request may take, with the freeze: a call that ends in it says nothing.
	lease, n := min(stack.Patience(2*time.Second), 20*time.Second), lane(16, 160)
	if inLongLane() { // which has the machine for itself
		lease = 2 * time.Second
	}
	l := newLoad(t, c, lease)
	l.pile(l.client(), n*lane(8, 60))
	holders := l.hold(n, lease*4/3) // beats each third of a lease
	stack.Eventually(t, time.Minute, "everybody to hold a job", func() bool { return holders.beats.Load() >= int64(2*n) })
	for range lane(1, 10) {
		thaw := freeze(t, postmaster(t, up))
		pace(t.Context(), lease*5/4)
		thaw()
		pace(t.Context(), 2*lease)
		t.Log(holders)
		holders.check(t)
	}
	holders.stop()
	h, db := l.check()
	if lost := expiredOf(h, db); lost > 0 || holders.lost.Load() > 0 {
		t.Errorf("%d leases of holders have expired, %d were lost", lost, holders.lost.Load())
	}
	refused := map[string]int{}
	for _, e := range h.Events {
		if e.Op == invariants.OpClaim && !e.OK() {
			refused[e.Code]++
		}
	}
	t.Logf("%d leases in all have expired; claims without an answer: %v", expired(db), refused)
}

// expiredOf counts the expired leases that a worker had received in an answer to its claim. It
// leaves out those of claims that were cut off: no worker held them.
func expiredOf(h invariants.History, db invariants.Database) (n int) {
	type lease struct {
		job   string
		epoch int64
	}
	held := map[lease]bool{}
	for _, e := range h.Events {
		if e.Op == invariants.OpClaim && e.OK() && e.Job != "" {
			held[lease{e.Job, e.Epoch}] = true
		}
	}
	for _, a := range db.Attempts {
		if a.Kind == "lease_expired" && held[lease{a.Job, a.Epoch}] {
			n++
		}
	}
	return n
}
