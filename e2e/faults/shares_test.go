package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// batchSize is how many jobs go in one request where many are needed.
const batchSize = 500

// pile submits n jobs in batches, until all are accepted.
func (l *load) pile(c *client.Client, n int) {
	for n > 0 && l.t.Context().Err() == nil {
		size := min(n, batchSize)
		accepted, err := l.batch(c, size)
		if err != nil || accepted != size {
			l.t.Errorf("a batch of %d: %d accepted, %v", size, accepted, err)
			return
		}
		n -= size
	}
}

func (l *load) batch(c *client.Client, size int) (accepted int, err error) {
	jobs := make([]api.SubmitRequest, size)
	for i := range jobs {
		jobs[i] = l.request()
	}
	answer, err := c.SubmitBatch(l.t.Context(), api.BatchRequest{Jobs: jobs})
	return answer.Accepted, err
}

// platform is a worker of all tenants.
type platform struct {
	t      *testing.T
	client *client.Client
	id     string
	// most is how many jobs it asks for at once; pause is how long it rests after each
	// claim.
	most  int
	pause time.Duration
	// wait is how long a claim waits for the first job.
	wait time.Duration
	// beforeClaim, where not nil, may delay a claim.
	beforeClaim func(context.Context)
	// onClaim is told of each job, before it is done.
	onClaim func(api.ClaimedJob)
}

// run claims and completes jobs until ctx ends; jobs in hand are ended first. What
// goes wrong is an error: nothing is broken here.
func (p *platform) run(ctx context.Context) {
	wait := p.wait.Milliseconds()
	for ctx.Err() == nil {
		if p.beforeClaim != nil {
			p.beforeClaim(ctx)
		}
		claimed, err := p.client.Claim(context.WithoutCancel(ctx), api.ClaimRequest{
			WorkerID: p.id, Queues: []string{loadQueue}, Max: &p.most, WaitMS: &wait,
		})
		if err != nil {
			p.t.Errorf("%s: claim: %v", p.id, err)
			return
		}
		outcomes := make([]api.OutcomeRequest, len(claimed.Jobs))
		for i, job := range claimed.Jobs {
			p.onClaim(job)
			outcomes[i] = api.OutcomeRequest{JobID: job.ID, Kind: api.KindComplete, LeaseToken: job.LeaseToken}
		}
		if len(outcomes) == 0 {
			if p.wait == 0 {
				pace(ctx, 5*time.Millisecond)
			}
			continue
		}
		answer, err := p.client.Outcomes(context.WithoutCancel(ctx), outcomes)
		if err != nil {
			p.t.Errorf("%s: outcomes: %v", p.id, err)
			return
		}
		for _, result := range answer.Results {
			if result.Status != http.StatusOK {
				p.t.Errorf("%s: an outcome: %d", p.id, result.Status)
			}
		}
		pace(ctx, p.pause)
	}
}

// I12 through the public API: workers of the platform serve tenants that all have more
// to do than there are workers. One of them weighs twice, one has piled up a multiple
// of what the others have, and two have one job now and then. First the workers ask
// for few jobs and for many at once, then one asks for few alone: a claim that is
// parted evenly says nothing about the next one.
func TestTenantsShareWorkers(t *testing.T) {
	furtherFault(t, "TestTenantsSeeNothingOfEachOther")
	t.Parallel()
	s := newSharing(t)
	many := time.Duration(lane(0, 60)) * time.Second
	s.compete([]int{1, 5, 20, 50}, lane(1000, 60_000), many)
	s.compete([]int{3}, lane(600, 5000), 0)
	s.judge()
}

// sharing are tenants that contend.
type sharing struct {
	*load
	contenders, quiet []*load
	weights           map[string]int
	contests          []invariants.Contest
}

func newSharing(t *testing.T) *sharing {
	t.Helper()
	// Jobs are counted here. Shares of time are those of jobs that take equally long, which nothing on a busy machine does.
	c := stack.NewCluster(t, stack.ClusterOptions{Settings: map[string]string{"FORGEQUEUE_FAIR_BY": "jobs"}})
	first := newLoad(t, c, 30*time.Second)
	s := &sharing{
		load: first, contenders: []*load{first, first.beside(), first.beside(), first.beside()},
		quiet: []*load{first.beside(), first.beside()}, weights: map[string]int{},
	}
	for _, l := range slices.Concat(s.contenders, s.quiet) {
		l.setVisibility(stack.Patience(time.Minute)) // nobody loses a lease, however slow this machine is
	}
	for i, l := range s.contenders {
		s.weights[l.tenant.ID] = []int{1, 1, 2, 1}[i]
		c.Weigh(t, l.tenant, s.weights[l.tenant.ID])
	}
	var group sync.WaitGroup
	for i, l := range s.contenders {
		// A quarter more than its share: what is in flight at an end is on top.
		n := lane(4000, 65_000) * s.weights[l.tenant.ID] / 5 * 5 / 4
		if i == len(s.contenders)-1 {
			n = lane(5000, 100_000)
		}
		one := l.client()
		group.Go(func() { l.pile(one, n) })
	}
	group.Wait()
	return s
}

// compete lets one worker for each number, of jobs that it asks for at once, claim
// until so many jobs of those that contend were claimed, or for so long if that is not 0.
func (s *sharing) compete(workers []int, wanted int, most time.Duration) {
	s.t.Helper()
	contest := invariants.Contest{Weights: s.weights, Window: most}
	served := map[string]*atomic.Int64{} // jobs of the quiet
	for _, l := range s.quiet {
		contest.Quiet = append(contest.Quiet, l.tenant.ID)
		served[l.tenant.ID] = &atomic.Int64{}
	}
	var claimed atomic.Int64
	onClaim := func(job api.ClaimedJob) {
		if n := served[job.Tenant]; n != nil {
			n.Add(1)
			return
		}
		claimed.Add(1)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	// A slow machine takes as long for a submit as for hundreds of claims: they wait, or the quiet would have few jobs.
	var submits atomic.Int64
	submitted := func(ctx context.Context) {
		for ctx.Err() == nil && submits.Load() > 0 {
			pace(ctx, time.Millisecond)
		}
	}
	var asking, working sync.WaitGroup
	var platforms []*platform
	for _, n := range workers {
		contest.Round += n
		platforms = append(platforms, &platform{
			t: s.t, client: s.platformClient(s.cluster), id: fmt.Sprint("platform-", n), most: n, onClaim: onClaim,
			wait: 200 * time.Millisecond, beforeClaim: submitted,
		})
		if most > 0 {
			// The jobs have to last, and all workers together to be too few.
			platforms[len(platforms)-1].pause = 60 * time.Millisecond
		}
	}
	contest.From = time.Now()
	for _, p := range platforms {
		working.Go(func() { p.run(ctx) })
	}
	submitting, quit := context.WithCancel(ctx)
	defer quit()
	for _, l := range s.quiet {
		one := l.client()
		// At most a round was asked for before the rest began, which is no part of it.
		rest := int64(contest.Round + contest.Turn())
		asking.Go(func() { l.nowAndThen(submitting, one, &submits, served[l.tenant.ID], &claimed, rest) })
	}
	enough := func() bool {
		for _, n := range served {
			if n.Load() < int64(lane(8, 30)) {
				return false
			}
		}
		return claimed.Load() >= int64(wanted)
	}
	stack.Eventually(s.t, 5*time.Minute, "enough jobs were claimed", func() bool {
		return enough() || (most > 0 && time.Since(contest.From) > most)
	})
	contest.Until = time.Now()
	quit()
	asking.Wait()
	stop()
	working.Wait()
	s.contests = append(s.contests, contest)
}

// judge judges the run with its contests, and says what was seen.
func (s *sharing) judge() {
	s.t.Helper()
	h, db := s.history(), s.database()
	db.Contests = s.contests
	s.load.judge(h, db)
	for _, contest := range s.contests {
		shares, n := contest.Shares(h)
		var all []string
		for tenant, share := range shares {
			all = append(all, fmt.Sprintf("%.3f of weight %d", share, contest.Weights[tenant]))
		}
		slices.Sort(all)
		waits, worst := contest.Overtaken(h)
		s.t.Logf("%d jobs in %v; shares %v; %d jobs of the quiet, each overtaken by at most %d (a round is %d)",
			n, contest.Until.Sub(contest.From).Round(time.Millisecond), all, waits, worst, contest.Round)
		if waits < lane(5, 50) {
			s.t.Errorf("the quiet tenants had %d jobs after a rest", waits)
		}
	}
}

// platformClient gives a client that claims the jobs of all tenants, noted with the
// rest.
func (l *load) platformClient(c *stack.Cluster) *client.Client {
	l.t.Helper()
	base := &http.Transport{MaxIdleConnsPerHost: 10}
	one, err := client.New(client.Options{URL: l.urls[0], APIKey: c.NewPlatformKey(l.t), HTTPClient: l.noted.Client("", base)})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(base.CloseIdleConnections)
	return one
}

// nowAndThen submits a job, waits until it is claimed, and rests until so many of
// others' jobs are claimed, until ctx ends. submits counts the submits under way.
func (l *load) nowAndThen(ctx context.Context, c *client.Client, submits, served, others *atomic.Int64, rest int64) {
	for submitted := int64(1); ctx.Err() == nil; submitted++ {
		submits.Add(1)
		_, err := c.Submit(l.t.Context(), l.request())
		submits.Add(-1)
		if err != nil {
			l.t.Errorf("a quiet tenant's submit: %v", err)
			return
		}
		for ctx.Err() == nil && served.Load() < submitted {
			pace(ctx, 2*time.Millisecond)
		}
		for enough := others.Load() + rest; ctx.Err() == nil && others.Load() < enough; {
			pace(ctx, moment(2*time.Millisecond, 10*time.Millisecond))
		}
	}
}
