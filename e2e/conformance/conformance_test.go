package conformance_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// testCase is one row of the table.
type testCase struct {
	// name is short, for the test's name; rule is what a client has to do, for api-docs/decisions/client-cases.md.
	name, rule string
	run        func(*trial)
}

func cases() []testCase {
	return []testCase{
		{"lost-reply", "A submit whose answer is lost is repeated with the same `Idempotency-Key`: one job", loses},
		{"own-key", "The caller's own key, a replay, a mismatch; a dedupe key", choosesKeys},
		{"submit-many", "Of many jobs the invalid ones are refused, each with its problem, and the others stored", refusesOne},
		{"batches", "Many jobs are sent in batches, each with a key of its own; a repeat stores nothing twice", batches},
		{"retry-after", "429 and 503: the client waits as long as `retry_after_ms` or `Retry-After` says", obeysRetryAfter},
		{"deadline", "One deadline for all tries; a wait beyond it is not begun", keepsTheDeadline},
		{"gives-up", "Four tries, then the error; what a repeat could spoil, or cannot help, is not repeated", givesUp},
		{"error-codes", "Problems are typed errors with code, status and detail; ids cannot change the route", errorCodes},
		{"pages", "A list page by page, and as a whole", listsPages},
		{"changes", "Cancel, rerun, redrive, also if the answer is lost", changes},
		{"patch", "A job that waits is changed, also if the answer is lost; with an ETag that version only; one that has started is refused", patches},
		{"bulk", "All jobs that match are counted, and changed once in the server; those that have started are refused", changesMany},
		{"dedupe", "What becomes of a live job with the same dedupe key: it stays, is replaced, also after a lost answer, waits again, or has a follower; or the submit is refused", dedupes},
		{"wait", "Waits for the result of a job without polling; text comes back unchanged", waits},
		{"wait-restart", "A wait survives a kill and restart of the gateway", nil}, // all clients at once: see restarts
		{"completes", "The worker claims its types only, by long poll, and completes jobs", completes},
		{"whole-numbers", "A whole number of 64 bits can be read from a payload and a result as it was sent", wholeNumbers},
		{"fails", "Failures: retried after a time, by backoff, or never", failsJobs},
		{"snoozes", "A snooze uses up no attempt, and shows its reason", snoozes},
		{"budgets", "Costs are stored with the job; what a handler has used of budgets is sent with its outcome, whatever that is", spends},
		{"throttled", "A throttled attempt closes the budget for all jobs, uses up no attempt, and shows its reason", throttles},
		{"then", "Jobs that follow are sent with the result, and with nothing else; a refused one, also with `dedupe_conflict`, fails the attempt; one that a limit refuses is sent again", chains},
		{"waits", "A handler has its job wait: no attempt is used up; the checkpoint, jobs and signals go with the wait, in one request; it is called again with the signal, or when the time is up", putsToWait},
		{"signals", "A signal is repeated if its answer is lost, and the first of a name stays; a link sends one without a key; a job that has ended gets none", signals},
		{"output", "What a handler writes is there while it runs, whole and in order, also if an answer is lost; the rest is sent before the outcome, which waits for it a few seconds at most", writesOutput},
		{"concurrency", "No more handlers run than the worker may, and no more jobs are claimed where they are slow", limits},
		{"claims-ahead", "Quick handlers with a backlog: jobs are claimed ahead of them, and outcomes share requests; no more handlers run than the worker may", claimsAhead},
		{"ahead-slow", "What was claimed ahead of a handler that turns slow is released at once, and uses up no attempt", releasesAhead},
		{"ahead-stop", "A stop releases what was claimed ahead, and uses up no attempt", stopsAhead},
		{"heartbeats", "Heartbeats keep the lease of a long job, and show its progress", keepsLeases},
		{"heartbeat-outage", "Heartbeats that are refused for a while cost no lease", keepsTrying},
		{"lost-lease", "A lost lease: the handler is told, the job runs again, with the last checkpoint; an unknown worker registers again", restores},
		{"ended-quiet", "What has ended is told nothing: a heartbeat that was under way when the job completed reports its lease as lost", tellsNothing},
		{"cancel-timeout", "The handler is told of a requested cancellation, and of the end of its time", cancels},
		{"reports", "A report that the server refuses is dropped, and costs no lease", unfitReports},
		{"outcome-repeated", "An outcome is repeated, unchanged, until it is answered", repeatsOutcomes},
		{"outcome-refused", "A result that is refused (400, 413, 422) fails the job permanently; 410 is final", refusedOutcomes},
		{"outcome-stale", "An outcome of a lost lease is refused, sent once, and changes nothing", staleOutcome},
		{"drain-finish", "SIGTERM: no more claims; running jobs finish, then the worker deregisters", drains},
		{"drain-release", "After the grace period handlers are told; jobs that are left are released, and use up no attempt", releases},
		{"refused-key", "A refused key ends the worker; any other failure to register or claim is retried", endsWithItsKey},
		{"verify", "Signatures: several signatures and secrets, tolerance of time; whatever is malformed is refused", verifies},
		{"verify-push", "A call of a queue in push mode is accepted", verifiesPush},
	}
}

var update = flag.Bool("update", false, "write the table of api-docs/decisions/client-cases.md")

// results are how each case ended for each client.
type results struct {
	mu    sync.Mutex
	words map[string]map[string]string
}

func (r *results) set(c, client, word string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.words[c] == nil {
		r.words[c] = map[string]string{}
	}
	r.words[c][client] = word
}

func (r *results) table() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("\n%-18s", "case")
	for _, s := range subjects() {
		text += fmt.Sprintf("%-16s", s.name)
	}
	for _, c := range cases() {
		text += fmt.Sprintf("\n%-18s", c.name)
		for _, s := range subjects() {
			text += fmt.Sprintf("%-16s", r.words[c.name][s.name])
		}
	}
	return text
}

// atOnce is how many cases run at the same time: most of them wait for most of their time.
const atOnce = 24

// Each client passes each case, on the real services.
func TestConformance(t *testing.T) {
	t.Parallel()
	// The second gateway is killed.
	cluster := stack.NewCluster(t, stack.ClusterOptions{Gateways: 2, Settings: stack.PushSettings()})
	ended := &results{words: map[string]map[string]string{}}
	t.Cleanup(func() { t.Log(ended.table()) })
	var clients sync.WaitGroup
	places := make(chan struct{}, atOnce)
	restart := newRestart(t, cluster)
	for _, s := range subjects() {
		restart.takesPart()
		clients.Go(func() {
			leave := sync.OnceFunc(restart.leaves)
			defer leave() // it was skipped, or not asked for
			t.Run(s.name, func(t *testing.T) {
				d := s.start(t)
				key := cluster.NewTenant(t, strings.ReplaceAll(strings.ToLower(s.name), " ", "-")).Key
				var all sync.WaitGroup
				for _, c := range cases() {
					all.Go(func() {
						places <- struct{}{}
						defer func() { <-places }()
						t.Run(c.name, func(t *testing.T) {
							defer func() { ended.set(c.name, s.name, word(t)) }()
							x := &trial{T: t, subject: s, driver: d, key: key, queue: c.name}
							if c.run == nil {
								defer leave()
								restart.run(x)
								return
							}
							x.front, x.c = newFront(t, cluster.Gateways[0].URL), cluster.Client(t, key)
							c.run(x)
						})
					})
				}
				all.Wait()
			})
		})
	}
	clients.Wait()
}

func word(t *testing.T) string {
	switch {
	case t.Failed():
		return "FAILED"
	case t.Skipped():
		return "skipped"
	default:
		return "ok"
	}
}

// restart is the case of all clients that wait while the gateway is killed once.
type restart struct {
	t       *testing.T
	cluster *stack.Cluster

	mu       sync.Mutex
	expected int
	waiting  int
	fronts   []*front
	done     chan struct{}
}

func newRestart(t *testing.T, cluster *stack.Cluster) *restart {
	t.Helper()
	return &restart{t: t, cluster: cluster, done: make(chan struct{})}
}

func (r *restart) takesPart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected++
}

// leaves is for a client that does not wait, or no longer.
func (r *restart) leaves() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected--
	r.whenAll()
}

// whenAll kills the gateway once all clients wait. The fronts hold what comes until it is back, as a balancer does.
func (r *restart) whenAll() {
	select {
	case <-r.done:
		return
	default:
	}
	if r.waiting == 0 || r.waiting < r.expected {
		return
	}
	for _, f := range r.fronts {
		f.hold()
	}
	gateway := r.cluster.Gateways[1]
	gateway.Kill()
	gateway.Start()
	gateway.AwaitReady()
	for _, f := range r.fronts {
		f.resume()
	}
	close(r.done)
}

func (r *restart) run(x *trial) {
	x.Helper()
	x.front, x.c = newFront(x.T, r.cluster.Gateways[1].URL), r.cluster.Client(x.T, x.key)
	id := stack.Submit(x.T, x.c, x.simple())
	_, waiting := x.driver.begin(x.T, x.about(command{Do: "wait", Job: id}))
	x.front.await(x.T, "the server is asked to answer late", http.MethodGet, "/"+id, func(one exchange) bool {
		return one.header.Get("Prefer") != "" && one.header.Get("Prefer") != "wait=0"
	})
	r.mu.Lock()
	r.waiting++
	r.fronts = append(r.fronts, x.front)
	r.whenAll()
	r.mu.Unlock()
	<-r.done
	job := stack.ClaimOne(x.T, x.c, x.queue+"-test", x.queue)
	if _, err := x.c.Complete(x.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken, Result: []byte(`"after"`)}); err != nil {
		x.Fatal(err)
	}
	ended, failed := decoded[api.Job](x, x.driver.answered(x.T, "wait", waiting))
	if failed != nil || ended.State != api.StateCompleted || string(ended.Result) != `"after"` {
		x.Errorf("%s with %s, %+v", ended.State, ended.Result, failed)
	}
}

// The page's table is written from the cases: go test ./e2e/conformance -run Document -update.
func TestConformanceDocument(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	want.WriteString("| case | what a client has to do |\n|---|---|\n")
	for _, c := range cases() {
		fmt.Fprintf(&want, "| `%s` | %s |\n", c.name, c.rule)
	}
	path := stack.Repository("api-docs", "decisions", "client-cases.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(content), "| case |")
	if !found {
		t.Fatal("api-docs/decisions/client-cases.md has no table of cases")
	}
	_, after, _ := strings.Cut(rest, "\n\n")
	whole := before + want.String() + "\n" + after
	if *update {
		if err := os.WriteFile(path, []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if whole != string(content) {
		t.Error("the table of api-docs/decisions/client-cases.md is out of date: go test ./e2e/conformance -run Document -update")
	}
}
