package dependency_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// graphsEnv sets how many random graphs are tried; the default keeps the test short.
const graphsEnv = "FORGEQUEUE_GRAPHS"

// graphNode is a job of a random graph.
type graphNode struct {
	id    uuid.UUID
	after []submit.After
	// asFound are the states of its parents when it was stored.
	asFound map[uuid.UUID]job.State
}

// graphs runs random graphs of jobs in two cores whose sessions are killed again and again.
type graphs struct {
	*fixture
	cores [2]*cell.Cell
	// succeeded counts what the cores have done: the killer waits for it.
	succeeded atomic.Int64

	mu    sync.Mutex
	nodes []*graphNode
}

// TestRandomGraphs: workers complete, fail and lose jobs, people cancel and redrive them, while two
// cores work off the follow-ups and lose their sessions. In the end every child has run after all
// of its parents, or was cancelled, as the policies say; and none is blocked.
func TestRandomGraphs(t *testing.T) {
	t.Parallel()
	count := celltest.Rounds(15, 60)
	if text := os.Getenv(graphsEnv); text != "" {
		count, _ = strconv.Atoi(text)
	}
	f := newFixture(t)
	g := &graphs{fixture: f, cores: [2]*cell.Cell{f.Store, celltest.OpenURL(t, f.URL)}}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var background sync.WaitGroup
	kills := 0
	background.Go(func() { kills = g.killSessions(ctx) })
	for _, core := range g.cores {
		background.Go(func() { g.keepFollowing(ctx, core) })
		background.Go(func() { g.keepWorking(ctx, core) })
	}
	background.Go(func() { g.keepMeddling(ctx) })
	var submitters sync.WaitGroup
	for s := range 3 {
		submitters.Go(func() {
			for range count / 3 {
				g.submitGraph(ctx, g.cores[s%2])
			}
		})
	}
	submitters.Wait()
	stop()
	background.Wait()
	g.drain()
	g.check()
	f.verify()
	t.Logf("%d graphs, %d jobs, %d sessions killed", count, len(g.nodes), kills)
}

// submitGraph stores a graph of 2 to 12 jobs: at once, as an atomic submission, or job by job while
// the first ones already run.
func (g *graphs) submitGraph(ctx context.Context, core *cell.Cell) {
	n := 2 + rand.IntN(11)
	policies := []job.OnFailed{job.CancelChild, job.CancelChild, job.RunChild, job.HoldChild}
	jobs := make([]submit.NewJob, n)
	for i := range jobs {
		jobs[i] = g.Job(func(j *submit.NewJob) { j.MaxAttempts = 1 })
		for p := range i {
			if rand.IntN(3) == 0 {
				after(policies[rand.IntN(len(policies))], jobs[p].ID)(&jobs[i])
			}
		}
	}
	if rand.IntN(2) == 0 {
		g.store(ctx, core, submit.Submission{Tenant: g.Tenant, Batch: true, Atomic: true, Jobs: jobs})
		return
	}
	for i := range jobs {
		g.store(ctx, core, submit.Submission{Tenant: g.Tenant, Jobs: jobs[i : i+1]})
	}
}

// store submits until the jobs are known to be stored: a killed session may have stored them.
func (g *graphs) store(ctx context.Context, core *cell.Cell, submission submit.Submission) {
	for {
		answers, err := core.Submits.Submit(ctx, []submit.Submission{submission})
		if err == nil && answers[0].Problem == nil {
			g.succeeded.Add(1)
			g.remember(submission.Jobs, answers[0].Jobs)
			return
		}
		if got, getErr := core.JobReads.Get(ctx, g.Tenant, "", submission.Jobs[0].ID); getErr == nil && got.ID != "" {
			g.remember(submission.Jobs, nil)
			return
		}
	}
}

func (g *graphs) remember(jobs []submit.NewJob, results []submit.JobResult) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range jobs {
		node := &graphNode{id: jobs[i].ID, after: jobs[i].After}
		if results != nil {
			node.asFound = map[uuid.UUID]job.State{}
			for _, parent := range results[i].Row.After {
				node.asFound[uuid.MustParse(parent.JobID)] = job.State(parent.State)
			}
		}
		g.nodes = append(g.nodes, node)
	}
}

func (g *graphs) keepFollowing(ctx context.Context, core *cell.Cell) {
	for ctx.Err() == nil {
		step, err := core.Jobs.FollowUp(ctx, g.Tenant)
		if err != nil || step.Done == 0 && !step.More {
			time.Sleep(time.Millisecond)
			continue
		}
		g.succeeded.Add(1)
	}
}

// keepWorking claims and ends jobs: most complete, some fail for good, some leases are lost.
func (g *graphs) keepWorking(ctx context.Context, core *cell.Cell) {
	for ctx.Err() == nil {
		taken, err := core.Claims.Claim(ctx, claim.Request{
			Workers: []claim.Worker{{ID: "w", Max: 5}}, Owner: g.Tenant, LeaseID: uuid.New(),
			Lanes: []claim.Lane{{ID: g.Lane.ID, VisibilityTimeout: time.Second}},
		})
		if err != nil {
			continue
		}
		var endings []jobs.Ending
		for i := range taken.Jobs {
			ending := jobs.Ending{Lease: taken.Jobs[i].Lease(), Kind: api.KindComplete}
			switch rand.IntN(10) {
			case 0, 1, 2:
				ending.Kind, ending.Error = api.KindFail, &api.JobError{Type: "e", Message: "broken"}
			case 3: // lost: the reaper takes it
				continue
			}
			endings = append(endings, ending)
		}
		for _, ended := range core.Jobs.End(ctx, endings) {
			if ended.Err == nil {
				g.succeeded.Add(1)
			}
		}
		_, _ = core.Jobs.Reap(ctx, time.Unix(0, 0), 100, celltest.Half)
	}
}

// keepMeddling cancels and redrives jobs.
func (g *graphs) keepMeddling(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
		g.mu.Lock()
		if len(g.nodes) == 0 {
			g.mu.Unlock()
			continue
		}
		id := g.nodes[max(0, len(g.nodes)-1-rand.IntN(60))].id
		g.mu.Unlock()
		switch rand.IntN(4) {
		case 0:
			_, _, _ = g.cores[0].Jobs.Cancel(ctx, g.Tenant, "", id)
		default:
			g.cores[1].DeadLetters.Redrive(ctx, g.Tenant, "", []uuid.UUID{id}, nil)
		}
	}
}

// killSessions ends one of the database's other sessions again and again. A new session is slow at first:
// by the clock alone, a slow machine would do nothing between two kills.
func (g *graphs) killSessions(ctx context.Context) (kills int) {
	const step = 3
	for ctx.Err() == nil {
		for until := g.succeeded.Load() + step; g.succeeded.Load() < until && ctx.Err() == nil; {
			time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
		}
		var n int
		err := g.Direct.QueryRow(context.WithoutCancel(ctx), `
			SELECT count(pg_terminate_backend(pid)) FROM (
			  SELECT pid FROM pg_stat_activity
			  WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle' ORDER BY random() LIMIT 1) s`).Scan(&n)
		if err != nil {
			g.Error(err)
			return kills
		}
		kills += n
	}
	return kills
}

// drain completes all that can run, and redrives every dead letter, until nothing lives.
func (g *graphs) drain() {
	g.Store = celltest.OpenURL(g, g.URL) // the other pool may have any number of sessions that were killed
	for range 10_000 {
		// In the loop, and until nothing lives: a claim whose caller has given up may still commit.
		g.Exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 s' WHERE state = 'running'`)
		g.Reap()
		g.followUp()
		claimed := g.Claim(100, time.Minute)
		endings := make([]jobs.Ending, len(claimed))
		for i := range claimed {
			endings[i] = jobs.Ending{Lease: claimed[i].Lease(), Kind: api.KindComplete}
		}
		for _, ended := range g.Store.Jobs.End(g.Context(), endings) {
			if ended.Err != nil {
				g.Fatal(ended.Err)
			}
		}
		if len(claimed) > 0 {
			continue
		}
		dead := g.ids(`SELECT id FROM dead_letters LIMIT 100`)
		if len(dead) == 0 {
			if len(g.ids(`SELECT id FROM jobs LIMIT 1`)) == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
			continue
		}
		g.Store.DeadLetters.Redrive(g.Context(), g.Tenant, "", dead, nil)
	}
	if left := g.ids(`SELECT id FROM jobs`); len(left) > 0 {
		for _, id := range left[:min(len(left), 5)] {
			g.Errorf("%s is left: %s", id, g.Row(id))
		}
	}
}

func (g *graphs) ids(sql string) (ids []uuid.UUID) {
	g.Helper()
	rows, err := g.Direct.Query(g.Context(), sql)
	if err != nil {
		g.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			g.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// check compares each job with what its parents' ends and its policies say. The ends are read from the
// tables: a dead letter leaves a row in attempts, or a reason.
func (g *graphs) check() {
	g.Helper()
	for _, node := range g.nodes {
		got := g.Get(node.id)
		cascaded := got.LastError != nil && got.LastError.Type == api.ErrorParentFailed
		may, must := g.mayCancel(node)
		switch {
		case got.State == api.StateCompleted && must:
			g.Errorf("%s has run, and a parent had failed: %s", node.id, g.explain(node, got))
		case got.State == api.StateCancelled && cascaded && !may:
			g.Errorf("%s was cancelled, and no parent had failed: %s", node.id, g.explain(node, got))
		case got.State == api.StateCancelled && cascaded && got.StartedAt != nil && got.Redrives == 0:
			g.Errorf("%s was cancelled for a parent, and had run: %s", node.id, g.explain(node, got))
		}
	}
	var early int
	// A job that has run began after each of its edges was resolved. started_at is when the claim arrived at PostgreSQL:
	// on a slow machine an edge may be resolved between that and the claim's snapshot.
	if err := g.Direct.QueryRow(g.Context(), `
		SELECT count(*) FROM finished_jobs f JOIN dependencies d ON d.child_id = f.id
		WHERE f.state = 'completed' AND (d.resolved_at IS NULL OR d.resolved_at > LEAST(f.started_at + interval '1 s', f.finished_at))`).Scan(&early); err != nil || early > 0 {
		g.Errorf("%d edges were resolved after their job had begun, %v", early, err)
	}
	// and after each of its parents had completed, where its policy asks for that.
	if err := g.Direct.QueryRow(g.Context(), `
		SELECT count(*) FROM finished_jobs f JOIN dependencies d ON d.child_id = f.id JOIN finished_jobs p ON p.id = d.parent_id
		WHERE f.state = 'completed' AND d.on_failed <> 'run' AND (p.state <> 'completed' OR p.finished_at > f.started_at)`).Scan(&early); err != nil || early > 0 {
		g.Errorf("%d jobs had begun before their parent completed, %v", early, err)
	}
}

// mayCancel says whether an end of a parent may, or must, have cancelled the job. A parent with
// redrives may have died before or after the job was stored.
func (g *graphs) mayCancel(node *graphNode) (may, must bool) {
	for _, edge := range node.after {
		parent := g.Get(edge.Parent)
		failed := job.State(parent.State) != job.Completed
		switch edge.OnFailed {
		case job.CancelChild:
			may = may || failed || parent.Redrives > 0
			// found dead, or cancelled in the end
			must = must || job.State(parent.State) == job.Cancelled || node.asFound[edge.Parent] == job.DeadLetter
			// without a redrive before the job was stored, the first death was seen
			must = must || parent.Redrives > 0 && node.asFound[edge.Parent] == job.Blocked
		case job.HoldChild:
			may = may || job.State(parent.State) == job.Cancelled
			must = must || job.State(parent.State) == job.Cancelled
		case job.RunChild:
		}
	}
	return may, must
}

func (g *graphs) explain(node *graphNode, got api.Job) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, redrives %d, error %+v;", got.State, got.Redrives, got.LastError)
	for _, edge := range node.after {
		parent := g.Get(edge.Parent)
		fmt.Fprintf(&text, " after %s (%s): found %s, now %s, redrives %d, finished %v;", edge.Parent, edge.OnFailed, node.asFound[edge.Parent], parent.State, parent.Redrives, parent.FinishedAt)
	}
	return text.String()
}
