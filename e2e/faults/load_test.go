package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// faultsEnv says which faults there are. Not set, as by `make test`: one of each kind. all, as by .ci/run: all of
// them. long, as by `make faults`: all of them, many times. figure: the figure of issue 3.
const faultsEnv = "FORGEQUEUE_FAULTS"

// furtherFault skips a test of whose kind of fault another one, named by like, is the representative.
func furtherFault(t *testing.T, like string) {
	t.Helper()
	if os.Getenv(faultsEnv) == "" {
		t.Skipf("%s is the one of its kind: %s=all runs this one too", like, faultsEnv)
	}
}

// lane is how much of a fault there is: pr in the lane of every change, long by
// `make faults`.
func lane(pr, long int) int {
	if inLongLane() {
		return long
	}
	return pr
}

// inLongLane says whether ratios of speeds are judged: `make faults` has the machine for
// itself. In the lane of every change other tests run beside these, and a ratio would be
// of what they do.
func inLongLane() bool { return os.Getenv(faultsEnv) == "long" }

const loadQueue = "load"

// load is clients of a cluster, all of whose requests are noted.
type load struct {
	t       *testing.T
	cluster *stack.Cluster
	tenant  stack.Tenant
	noted   *invariants.Recorder
	dir     string
	// urls are gateways, used in turn.
	urls []string

	mu      sync.Mutex
	files   []string
	overdue []string
	overCap []string
	drift   []string
	// users, if not 0, is how many users the jobs are spread over.
	users int64
	// keys, if not 0, is how many keys the jobs are spread over; costs, if not nil, is what each may use of budgets.
	keys  int64
	costs api.Amounts
	// delay, if not 0, is how long each job waits for its time.
	delay time.Duration
	// balanced lets every client reach whichever gateway takes connections.
	balanced bool
	// unready are the gateways that no new connection should go to.
	unready sync.Map
	idle    []func()
	made    atomic.Int64
	rings   atomic.Int64
}

// newLoad makes a tenant whose queue has short leases.
func newLoad(t *testing.T, c *stack.Cluster, visibility time.Duration) *load {
	t.Helper()
	l := &load{t: t, cluster: c, tenant: c.NewTenant(t, "load"), noted: invariants.NewRecorder("clients"), dir: t.TempDir()}
	for _, gateway := range c.Gateways {
		l.urls = append(l.urls, gateway.URL)
	}
	l.setVisibility(visibility)
	return l
}

func (l *load) setVisibility(visibility time.Duration) {
	l.t.Helper()
	l.setVisibilityOf(loadQueue, visibility)
}

func (l *load) setVisibilityOf(queue string, visibility time.Duration) {
	l.t.Helper()
	l.cluster.SetQueue(l.t, l.tenant, queue, map[string]any{
		"visibility_timeout_ms": visibility.Milliseconds(), "max_attempts": 20,
		"retry": map[string]any{"base_ms": 20, "cap_ms": 200, "jitter": 0.2},
	})
}

// client gives a client of the next gateway, whose requests are noted.
func (l *load) client() *client.Client {
	l.t.Helper()
	url := l.urls[int(l.rings.Add(1))%len(l.urls)]
	base := &http.Transport{MaxIdleConnsPerHost: 100}
	if l.balanced {
		base.DialContext = l.dialAny
		// Shorter than a gateway's notice, as a balancer must have it: whoever used a
		// connection during the notice was told to let it go, and nobody writes on one
		// that is about to be closed.
		base.IdleConnTimeout = 200 * time.Millisecond
	}
	c, err := client.New(client.Options{URL: url, APIKey: l.tenant.Key, HTTPClient: l.noted.Client(l.tenant.ID, base)})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(base.CloseIdleConnections)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = append(l.idle, base.CloseIdleConnections)
	return c
}

// balance looks at the gateways' readiness, as a balancer does, until the test ends.
func (l *load) balance() {
	l.balanced = true
	look := func() {
		for _, url := range l.urls {
			l.unready.Store(url, !isReady(l.t.Context(), url))
		}
	}
	look()
	var group sync.WaitGroup
	group.Go(func() {
		for l.t.Context().Err() == nil {
			look()
			pace(l.t.Context(), 50*time.Millisecond)
		}
	})
	l.t.Cleanup(group.Wait)
}

func isReady(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, stack.Patience(time.Second))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return false
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// dialAny is a balancer of connections: it dials the gateway that is named if that is
// ready, else another one.
func (l *load) dialAny(ctx context.Context, network, address string) (conn net.Conn, err error) {
	var dialer net.Dialer
	for _, url := range append([]string{"http://" + address}, l.urls...) {
		if away, _ := l.unready.Load(url); away == true {
			continue
		}
		if conn, err = dialer.DialContext(ctx, network, strings.TrimPrefix(url, "http://")); err == nil {
			return conn, nil
		}
	}
	return dialer.DialContext(ctx, network, address)
}

// closeIdle closes the clients' connections that are not in use.
func (l *load) closeIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.idle {
		one()
	}
}

// beside is a load of another tenant on the same cluster, noted with this one.
func (l *load) beside() *load {
	l.t.Helper()
	other := &load{t: l.t, cluster: l.cluster, tenant: l.cluster.NewTenant(l.t, "beside"), noted: l.noted, dir: l.dir, urls: l.urls}
	other.setVisibility(2 * time.Second)
	return other
}

// request makes a job with a mark of its own.
func (l *load) request() api.SubmitRequest { return l.numbered(l.made.Add(1)) }

func (l *load) numbered(n int64) api.SubmitRequest {
	payload, _ := json.Marshal(map[string]any{"mark": invariants.Mark(l.tenant.ID, n), "n": n})
	request := api.SubmitRequest{Type: "load", Queue: loadQueue, Payload: payload}
	if l.delay > 0 {
		ms := l.delay.Milliseconds()
		request.DelayMS = &ms
	}
	if l.users > 0 {
		user := fmt.Sprint("user-", n%l.users)
		request.User = &user
	}
	if l.keys > 0 {
		key := fmt.Sprint("key-", n%l.keys)
		request.Key = &key
	}
	request.Costs = l.costs
	return request
}

// submit stores one job, whatever it takes, with one Idempotency-Key. The error is the
// last one from before ctx ended.
func (l *load) submit(ctx context.Context, c *client.Client) error {
	n := l.made.Add(1)
	request, key := l.numbered(n), fmt.Sprint("key-", n)
	var last error
	for tries := 1; ; tries++ {
		_, err := c.Submit(ctx, request, client.WithIdempotencyKey(key))
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("after %d tries with %s: %w", tries, key, errors.Join(last, err))
		}
		last = err
		pace(ctx, 30*time.Millisecond)
	}
}

// pace spreads a load in time: it waits for d, or until ctx ends.
func pace(ctx context.Context, d time.Duration) { _ = wait.For(ctx, d) }

// produce submits from n goroutines until stop is called, each job until it is
// accepted, most jobs in all at most. stop waits for them.
func (l *load) produce(n, most int, pause time.Duration) (stop func()) {
	stopping, cancel := context.WithCancel(l.t.Context())
	whole, abort := context.WithTimeout(context.WithoutCancel(l.t.Context()), stack.Patience(10*time.Minute))
	var group sync.WaitGroup
	left := atomic.Int64{}
	left.Store(int64(most))
	pause *= time.Duration(lane(2, 1)) // the lane of every change has other tests beside it
	for range n {
		c := l.client()
		group.Go(func() {
			for stopping.Err() == nil && left.Add(-1) >= 0 {
				if err := l.submit(whole, c); err != nil {
					l.t.Errorf("a job could not be submitted: %v", err)
					return
				}
				pace(stopping, pause)
			}
		})
	}
	return func() {
		cancel()
		giveUp := time.AfterFunc(stack.Patience(time.Minute), abort)
		group.Wait()
		giveUp.Stop()
		abort()
	}
}

// work runs n workers in this process until stop is called.
func (l *load) work(n int, hold time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var group sync.WaitGroup
	for i := range n {
		w := &loopWorker{client: l.client(), id: fmt.Sprint("in-process-", i), plan: workerPlan{Queue: loadQueue, Max: 4, HoldMS: int(hold.Milliseconds())}}
		group.Go(func() { w.run(ctx) })
	}
	return func() { cancel(); group.Wait() }
}

// process starts a worker process; the gateway is the next one.
func (l *load) process(plan workerPlan) *stack.Process {
	l.t.Helper()
	n := l.rings.Add(1)
	plan.URL, plan.Key, plan.Tenant = l.urls[int(n)%len(l.urls)], l.tenant.Key, l.tenant.ID
	if plan.Queue == "" {
		plan.Queue = loadQueue
	}
	plan.WorkerID = fmt.Sprint("process-", n)
	plan.File = filepath.Join(l.dir, plan.WorkerID+".jsonl")
	l.mu.Lock()
	l.files = append(l.files, plan.File)
	l.mu.Unlock()
	return startPlan(l.t, plan)
}

// watchLeases notes jobs that stay past their leases, until the returned function
// is called: for runs in which a reaper is up all the time.
func (l *load) watchLeases() (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			// on a machine with much to do the reaper is late too
			rows := stack.Query[string](ctx, l.t, l.cluster.DatabaseURL, `SELECT id || ' for ' || (clock_timestamp() - lease_expires_at) FROM jobs
				WHERE state = 'running' AND lease_expires_at < clock_timestamp() - make_interval(secs => $1)`,
				stack.Patience(invariants.OverdueAfter).Seconds())
			l.mu.Lock()
			l.overdue = append(l.overdue, rows...)
			l.mu.Unlock()
			pace(ctx, 250*time.Millisecond)
		}
	})
	return func() { cancel(); group.Wait() }
}

// drain waits until no job is open.
func (l *load) drain(within time.Duration) {
	l.t.Helper()
	stack.Eventually(l.t, within, "every job has ended", func() bool {
		open := stack.Query[int](l.t.Context(), l.t, l.cluster.DatabaseURL, `SELECT count(*)::integer FROM jobs`)
		return len(open) == 1 && open[0] == 0
	})
}

// history merges what this process and the worker processes have noted.
func (l *load) history() invariants.History {
	l.t.Helper()
	parts := [][]invariants.Event{l.noted.Events()}
	for _, file := range l.files {
		events, err := invariants.ReadFile(file)
		if err != nil && !os.IsNotExist(err) { // killed before it wrote a line
			l.t.Fatal(err)
		}
		parts = append(parts, events)
	}
	return invariants.Merge(parts...)
}

// database reads what is on record.
func (l *load) database() invariants.Database {
	l.t.Helper()
	db, err := invariants.Read(l.t.Context(), l.cluster.DatabaseURL)
	if err != nil {
		l.t.Fatal(err)
	}
	db.Overdue, db.OverCap, db.Drift = l.overdue, l.overCap, l.drift
	return db
}

// check judges the run, once quiet, and logs one line about it.
func (l *load) check() (invariants.History, invariants.Database) {
	l.t.Helper()
	return l.judge(l.history(), l.database())
}

func (l *load) judge(h invariants.History, db invariants.Database) (invariants.History, invariants.Database) {
	l.t.Helper()
	if found := invariants.Check(h, db); len(found) > 0 {
		l.t.Errorf("the run violates:\n%s\n%s", strings.Join(found, "\n"), story(h, db, found))
	}
	claims := h.Count(func(e invariants.Event) bool { return e.Op == invariants.OpClaim && e.Job != "" })
	states := db.Count()
	l.t.Logf("accepted %d, completed %d, dead %d, open %d; %d claims, %d unsuccessful attempts, %d stale finishes refused; "+
		"%d requests disturbed: %d without an answer, %d outcomes unknown",
		len(h.Accepted()), states[api.StateCompleted], states[api.StateDeadLetter], db.Open(), claims, len(db.Attempts), h.StaleRefused(),
		h.Count(disturbed), h.Count(noAnswer), h.Count(unknown))
	if broken := h.Count(func(e invariants.Event) bool { return e.Status >= 500 && e.Status != http.StatusServiceUnavailable }); broken > 0 {
		l.t.Errorf("%d requests were answered with a 5xx that is not 503", broken)
	}
	if len(h.Accepted()) == 0 || claims == 0 {
		l.t.Error("there was no load")
	}
	return h, db
}

var anyJob = regexp.MustCompile(`job ([0-9a-f-]{36})`)

// story tells all that is known of the first job that a violation names.
func story(h invariants.History, db invariants.Database, found []string) string {
	named := anyJob.FindStringSubmatch(strings.Join(found, "\n"))
	if named == nil {
		return ""
	}
	var b strings.Builder
	for _, e := range h.Events {
		if e.Job == named[1] {
			fmt.Fprintf(&b, "%s to %s %s: %s %s epoch %d attempt %d: %d %s %s lease to %s %s\n", e.Sent.Format("05.000"), e.Done.Format("05.000"),
				e.Actor, e.Op, e.Kind, e.Epoch, e.Attempt, e.Status, e.Code, e.Answer, e.LeaseEnds.Format("05.000"), e.Lease)
		}
	}
	for _, r := range db.Rows {
		if r.ID == named[1] {
			fmt.Fprintf(&b, "%+v\n", r)
		}
	}
	for _, a := range db.Attempts {
		if a.Job == named[1] {
			fmt.Fprintf(&b, "%+v\n", a)
		}
	}
	return b.String()
}

// noAnswer says of an event that its request got none.
func noAnswer(e invariants.Event) bool { return e.Status == 0 && e.Op != invariants.OpImage }

// unknown says of an event that the gateway does not know what became of it.
func unknown(e invariants.Event) bool { return e.Code == string(problem.OutcomeUnknown) }

// disturbed says of an event that a fault got in its way.
func disturbed(e invariants.Event) bool {
	return noAnswer(e) || e.Status == http.StatusServiceUnavailable
}
