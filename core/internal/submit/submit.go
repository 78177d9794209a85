package submit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// NewJob is a job that is ready to be stored: every default is filled in.
type NewJob struct {
	// ID is a UUID v7 that the gateway made.
	ID          uuid.UUID
	Lane        lanes.ID
	Queue       string
	Type        string
	User        *string
	Priority    int
	Payload     []byte
	Tags        []string
	Metadata    []byte
	MaxAttempts int
	Retry       job.Retry
	TimeoutMS   *int64
	DedupeKey   *string
	// OnLive is what becomes of the job if a live one has its DedupeKey, an api.OnLive; MaxDelay bounds extend.
	OnLive   string
	MaxDelay *time.Duration
	// Key is what the job takes turns by, nil for none; KeyWeight its weight, nil for 1.
	Key       *string
	KeyWeight *float64
	// Fair: the job's lane is one in which keys take turns. Limit is how its queue limits jobs of the key.
	Fair  bool
	Limit gate.Limit
	// MaxRunning is how many jobs of the key run at once, with gate.Capped; HoldOnDead says that a dead letter holds the key,
	// with gate.Ordered.
	MaxRunning int64
	HoldOnDead bool
	// Costs are what it may use of budgets; nil for nothing.
	Costs api.Amounts
	// ToGate: the queue has a rate for the jobs of a key, or the job has costs, so that it comes to the gate.
	ToGate        bool
	CorrelationID *string
	Traceparent   *string
	// RunAt is when it may start; if nil, Delay from now.
	RunAt *time.Time
	Delay time.Duration
	// Deadline is when it dies; if nil, ExpiresAfterMS from now, and if that is nil too, never.
	Deadline       *time.Time
	ExpiresAfterMS *int64
	// After are the jobs that must have ended before it can start.
	After []After
	// Caps are the caps on active jobs that count this one.
	Caps []caps.Cap
	// WouldWait is the job's refusal unless a live job has its dedupe_key; nil for none.
	WouldWait *problem.Problem
	// turn is the job's place in a fair lane; held says that it waits at its gate, see package gate.
	turn *time.Time
	held bool
}

// Submission is one caller's request: a job, or a batch of them.
type Submission struct {
	Tenant tenant.ID
	// User is the one that the credential is bound to, "" for none.
	User string
	Jobs []NewJob
	// Refused, where not nil, runs in parallel to Jobs: those with a problem are
	// not stored, but are part of the answer and of what a replay repeats.
	Refused []*problem.Problem
	// Batch: a refused job leaves the others their results; otherwise there is one job.
	Batch bool
	// Atomic stores all jobs or none.
	Atomic      bool
	Idempotency *Idempotency
	// Workflow makes a workflow of the jobs, or adds them to one; the submission is then atomic.
	Workflow *workflow.New
	// RerunOf is the ended job that the one job runs again; nil for none.
	RerunOf *uuid.UUID
	// Render makes the response that is saved for the Idempotency-Key, in the transaction that
	// stores the jobs: a replay is byte for byte the first response. Required with Idempotency.
	Render func(*Answer) (Response, error)
	// Span is the request's, for the trace of the flush; zero for a request without a trace.
	Span trace.SpanContext
	// holders, where not nil, runs in parallel to Jobs: live jobs that have their dedupe_key.
	holders []*read.Row
	// follows, where not nil, runs in parallel to Jobs: running jobs that have their dedupe_key, after which they come.
	follows []*uuid.UUID
	// links and parents, where not nil, run in parallel to Jobs: what each comes after, and whether
	// another one comes after it.
	links   []link
	parents []bool
	// Warnings say what will keep a single job waiting; they are part of the answer.
	Warnings []string
}

// insertJobsSQL stores jobs of any number of tenants, none of which has a dedupe_key or is one of an
// atomic batch. A job with a deadline in the past is left out. An id that is taken is an error.
const insertJobsSQL = insertPlainSQL + newColumns + `)
SELECT ` + newValuesHead + `
       CASE WHEN start_at > statement_timestamp() THEN 'scheduled' ELSE 'queued' END,` + newValuesMiddle + `
       CASE WHEN start_at > statement_timestamp() THEN NULL ELSE statement_timestamp() END,` + newValuesTail + `
FROM (` + inputSelect + inputArrays + inputNames + inputEnd + plainEndSQL

// insertKeyedSQL is insertJobsSQL where a job has a key: the others do not pay for it.
const insertKeyedSQL = insertPlainSQL + keyedColumns + `)
SELECT ` + newValuesSQL + `
FROM (` + inputSQL + plainEndSQL

const (
	insertPlainSQL = `
WITH ` + askedSQL + `, stored AS (
INSERT INTO jobs (`
	plainEndSQL = ` OFFSET 0) AS input
WHERE (deadline IS NULL OR deadline > statement_timestamp()) AND (SELECT takes FROM asked)
ORDER BY id` + insertedSQL
)

// insertDedupedSQL also leaves out a job whose dedupe_key a live job has, or whose id is taken. ON
// CONFLICT makes each row's insert speculative: PostgreSQL looks into the unique indexes first,
// takes a lock, and confirms the row with one more WAL record. A unit is what stands or falls
// together: an atomic batch, else a single job.
const insertDedupedSQL = unitsSQL + `, stored AS (
INSERT INTO jobs (` + keyedColumns + `)
SELECT ` + newValuesSQL + dedupedSQL

// insertLinkedSQL is insertDedupedSQL where a job comes after others, or runs another one again.
const insertLinkedSQL = unitsSQL + `, stored AS (
INSERT INTO jobs (` + keyedColumns + `, linked, has_dependents, rerun_of)
SELECT ` + newValuesHead + `
       CASE WHEN (@blocked::boolean[])[place] THEN 'blocked' WHEN start_at > statement_timestamp() THEN 'scheduled' ELSE 'queued' END,` + newValuesMiddle + `
       CASE WHEN NOT (@blocked::boolean[])[place] AND start_at <= statement_timestamp() AND NOT held THEN COALESCE(turn, statement_timestamp()) END,` + newValuesTail + ` + (@parents_sizes::integer[])[place],
       CASE WHEN NOT (@blocked::boolean[])[place] AND start_at <= statement_timestamp() AND (held OR turn IS NOT NULL) THEN statement_timestamp() END, gate, ` + read.KeyColumns + `,
       (@linked::boolean[])[place], (@has_dependents::boolean[])[place], (@reruns::uuid[])[place]` + dedupedSQL

// askedSQL fails for a tenant that is being moved. Citus takes no INSERT whose SELECT reads tables in a subquery.
const askedSQL = `asked AS MATERIALIZED (SELECT ` + store.TakesJobsSQL + ` AS takes)`

const unitsSQL = `
WITH input AS MATERIALIZED (` + inputSQL + `), units AS MATERIALIZED (
  SELECT input.*, (@units::integer[])[place] AS unit FROM input
), late AS MATERIALIZED (
  SELECT unit FROM units WHERE deadline <= statement_timestamp()
), held AS MATERIALIZED (
  -- a superseded job may have lost its follower; while it is live no other one has its key
  SELECT units.id FROM units CROSS JOIN LATERAL (
    SELECT FROM jobs AS j
    WHERE j.tenant_id = units.tenant_id AND COALESCE(j.user_id, '') = COALESCE(units.user_id, '')
      AND j.dedupe_key BETWEEN units.dedupe_key AND units.dedupe_key AND j.superseded
    -- BETWEEN, and the order of jobs_dedupe, as in package deadletter
    ORDER BY j.tenant_id, COALESCE(j.user_id, ''), j.dedupe_key
    LIMIT 1) AS live
  WHERE units.dedupe_key IS NOT NULL AND NOT COALESCE((@follows::boolean[])[units.place], false)
), ` + askedSQL

const dedupedSQL = `
FROM units AS input
WHERE unit NOT IN (SELECT unit FROM late) AND id NOT IN (SELECT id FROM held) AND (SELECT takes FROM asked)
-- the order of the unique index jobs_dedupe, for every core: two batches with the same dedupe_keys wait for
-- each other, never in a circle
ORDER BY tenant_id, COALESCE(user_id, '') COLLATE "C", dedupe_key COLLATE "C" NULLS FIRST, id
ON CONFLICT DO NOTHING` + insertedSQL

const newColumns = read.IdentityColumns + `, state, priority, payload, tags, metadata, ` + read.OptionColumns + `,
                  created_at, run_at, deadline, ready_at, counted, size`

const keyedColumns = newColumns + `, waiting_since, gate, ` + read.KeyColumns

const newValuesSQL = newValuesHead + `
       CASE WHEN start_at > statement_timestamp() THEN 'scheduled' ELSE 'queued' END,` + newValuesMiddle + `
       CASE WHEN start_at <= statement_timestamp() AND NOT held THEN COALESCE(turn, statement_timestamp()) END,` + newValuesTail + `,
       CASE WHEN start_at <= statement_timestamp() AND (held OR turn IS NOT NULL) THEN statement_timestamp() END, gate, ` + read.KeyColumns

// The values before the state, between the state and ready_at, and after that.
const (
	newValuesHead   = read.IdentityColumns + `,`
	newValuesMiddle = `
       priority, payload::json, tags, metadata::json, ` + read.OptionColumns + `,
       statement_timestamp(), start_at, deadline,`
	newValuesTail = `
       counted,
       octet_length(payload) + metadata_size + tags_size`
)

// inputSQL are the jobs as rows. unnest keeps each array's elements in a store of its own, so a
// column with one value for all jobs travels as an array of that: it fills up with NULL.
const inputSQL = inputSelect + keyedSelect + inputArrays + keyedArrays + inputNames + keyedNames + inputEnd

const (
	inputSelect = `
  SELECT i.id, i.place, i.user_id, i.payload, i.timeout_ms, i.dedupe_key, i.traceparent,
         COALESCE(i.tenant_id, (@tenants::uuid[])[1])            AS tenant_id,
         COALESCE(i.lane_id, (@lanes::bigint[])[1])             AS lane_id,
         COALESCE(i.queue, (@queues::text[])[1])                 AS queue,
         COALESCE(i.type, (@types::text[])[1])                   AS type,
         COALESCE(i.priority, (@priorities::smallint[])[1])      AS priority,
         -- a text[] of text[] cannot be unnested by rows, so each set of tags travels as an array's text
         COALESCE(i.tags, (@tags::text[])[1])::text[]            AS tags,
         octet_length(COALESCE(i.tags, (@tags::text[])[1]))      AS tags_size,
         COALESCE(i.metadata, (@metadata::text[])[1])            AS metadata,
         octet_length(COALESCE(i.metadata, (@metadata::text[])[1])) AS metadata_size,
         COALESCE(i.max_attempts, (@max_attempts::integer[])[1]) AS max_attempts,
         COALESCE(i.retry_base_ms, (@bases::bigint[])[1])        AS retry_base_ms,
         COALESCE(i.retry_cap_ms, (@caps::bigint[])[1])          AS retry_cap_ms,
         COALESCE(i.retry_jitter, (@jitters::float8[])[1])       AS retry_jitter,
         COALESCE(i.retry_curve, (@curves::text[])[1])           AS retry_curve,
         COALESCE(i.counted, (@counted::smallint[])[1])          AS counted,
         CASE WHEN cardinality(@correlation_ids::text[]) = 1 THEN (@correlation_ids::text[])[1] ELSE i.correlation_id END AS correlation_id,
         -- a time in the past is now; every instant is the statement's, never a client's
         GREATEST(COALESCE(i.asked_at, statement_timestamp() +
                           COALESCE(i.delay_ms, (@delays::bigint[])[1]) * interval '1 millisecond'),
                  statement_timestamp()) AS start_at,
         COALESCE(i.deadline, statement_timestamp() + i.expires_after_ms * interval '1 millisecond') AS deadline`
	keyedSelect = `, i.key, i.key_weight, i.turn, COALESCE(i.gate, (@gates::smallint[])[1]) AS gate, COALESCE(i.held, (@held::boolean[])[1]) AS held, i.costs::jsonb AS costs`
	inputArrays = `
  FROM unnest(@ids::uuid[], @tenants::uuid[], @lanes::bigint[], @queues::text[], @types::text[],
              @users::text[], @priorities::smallint[], @payloads::text[], @tags::text[], @metadata::text[],
              @max_attempts::integer[], @bases::bigint[], @caps::bigint[], @jitters::float8[], @curves::text[], @timeouts::bigint[],
              @dedupe_keys::text[], @correlation_ids::text[], @traceparents::text[],
              @run_ats::timestamptz[], @delays::bigint[], @deadlines::timestamptz[], @expiries::bigint[], @counted::smallint[]`
	keyedArrays = `, @keys::text[], @weights::float8[], @gates::smallint[], @held::boolean[], @turns::timestamptz[], @costs::text[]`
	inputNames  = `)
       WITH ORDINALITY AS i(` + read.IdentityColumns + `, priority, payload, tags, metadata, ` + read.OptionColumns + `,
            asked_at, delay_ms, deadline, expires_after_ms, counted`
	keyedNames = `, key, key_weight, gate, held, turn, costs`
	inputEnd   = `, place)`
)

const insertedSQL = `
RETURNING id, state, created_at, run_at, deadline
)
SELECT id, state, created_at, run_at, deadline FROM stored`

// inserted is what PostgreSQL decided about a new job.
type inserted struct {
	ID        uuid.UUID
	State     string
	CreatedAt time.Time
	RunAt     time.Time
	Deadline  *time.Time
}

func scanInserted(row pgx.CollectableRow) (made inserted, err error) {
	err = row.Scan(&made.ID, &made.State, &made.CreatedAt, &made.RunAt, &made.Deadline)
	return made, err
}

// Submit stores the jobs of all submissions, of any tenants, in one commit, and
// answers each. An error means that nothing was stored, or with
// ErrOutcomeUnknown that this is not known. A refusal of one submission is its
// answer, not an error. After a deadlock it tries again, unless the jobs are of several tenants: the
// caller then divides them, so that nobody waits for another's rows.
func (s *Submitter) Submit(ctx context.Context, submissions []Submission) ([]Answer, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	for range store.DeadlockTries - 1 {
		answers, err := s.submitOnce(ctx, submissions)
		if !store.Deadlocked(err) || ofSeveralTenants(submissions) {
			return answers, err
		}
	}
	return s.submitOnce(ctx, submissions)
}

func ofSeveralTenants(submissions []Submission) bool {
	return slices.ContainsFunc(submissions, func(s Submission) bool { return s.Tenant != submissions[0].Tenant })
}

func (s *Submitter) submitOnce(ctx context.Context, submissions []Submission) ([]Answer, error) {
	answers := make([]Answer, len(submissions))
	err := s.takeTurns(ctx, submissions)
	switch {
	case err != nil:
	case anyGuarded(submissions):
		err = s.submitGuarded(ctx, submissions, answers)
	case anyInRounds(submissions):
		err = s.InTx(ctx, func(tx pgx.Tx) error {
			results, _, err := insertJobs(ctx, tx, submissions)
			answerAll(submissions, results, answers)
			return err
		})
	default:
		err = s.insertAtOnce(ctx, submissions, answers)
	}
	if err != nil {
		return nil, fmt.Errorf("submit: submit: %w", err)
	}
	return answers, nil
}

// Store stores submissions in a transaction without locks. None may have an Idempotency-Key, a cap, or a job that comes
// after others.
func Store(ctx context.Context, tx pgx.Tx, submissions []Submission) ([]Answer, error) {
	results, _, err := insertJobs(ctx, tx, submissions)
	if err != nil {
		return nil, err
	}
	answers := make([]Answer, len(submissions))
	answerAll(submissions, results, answers)
	return answers, nil
}

func answerAll(submissions []Submission, results [][]JobResult, answers []Answer) {
	for i := range results {
		answers[i] = newAnswer(&submissions[i], results[i])
	}
}

// anyInRounds says whether one insert may not settle the submissions: a dedupe_key may
// need several rounds, and of an atomic batch a part may have to be taken back.
func anyInRounds(submissions []Submission) bool {
	for i := range submissions {
		if s := &submissions[i]; s.Atomic && len(s.Jobs) > 1 || s.isLinked() || s.RerunOf != nil || slices.ContainsFunc(s.Jobs, func(j NewJob) bool { return j.DedupeKey != nil }) {
			return true
		}
	}
	return false
}

// insertAtOnce stores submissions with one statement that is its own transaction: a
// round trip in the place of three.
func (s *Submitter) insertAtOnce(ctx context.Context, submissions []Submission, answers []Answer) error {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	results, waiting := openAll(submissions)
	missing, err := insertOnce(ctx, conn, insertJobsSQL, submissions, waiting, results)
	if store.IsUnique(err) { // an id is taken
		missing, err = insertOnce(ctx, conn, insertDedupedSQL, submissions, waiting, results)
	}
	if err != nil {
		return store.Classify(err)
	}
	if len(missing) > 0 {
		if err := settleMissing(ctx, conn, submissions, missing, results); err != nil {
			return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, err) // the others are stored
		}
	}
	answerAll(submissions, results, answers)
	return nil
}

// openAll gives the places of all jobs to be stored, and fills in those that are
// refused already.
func openAll(submissions []Submission) (results [][]JobResult, waiting []place) {
	results = make([][]JobResult, len(submissions))
	for i := range submissions {
		results[i] = make([]JobResult, len(submissions[i].Jobs))
		waiting = append(waiting, submissions[i].open(i, results[i])...)
	}
	return results, waiting
}

// place is a job's place among the submissions.
type place struct{ submission, job int }

// open lists the jobs to be stored, and fills in those that are refused already.
func (s *Submission) open(index int, results []JobResult) []place {
	var first *problem.Problem
	for j := range s.Jobs {
		if s.refusal(j) != nil && first == nil {
			first = s.refusal(j)
		}
	}
	places := make([]place, 0, len(s.Jobs))
	for j := range s.Jobs {
		switch {
		case s.refusal(j) != nil:
			results[j].Refused = s.refusal(j)
		case s.holders != nil && s.holders[j] != nil && (!s.Atomic || first == nil):
			results[j] = JobResult{Row: s.holders[j], Deduplicated: true, Replaced: s.Jobs[j].replaces()}
		case s.Atomic && first != nil:
			results[j].Refused = first
		default:
			places = append(places, place{index, j})
		}
	}
	return places
}

func (s *Submission) refusal(j int) *problem.Problem {
	if s.Refused == nil {
		return nil
	}
	return s.Refused[j]
}

// insertOnce runs the insert and gives the places whose job it did not store.
func insertOnce(ctx context.Context, db store.Querier, statement string, submissions []Submission, places []place, results [][]JobResult) (missing []place, err error) {
	args, keyed := insertArgs(submissions, places)
	if keyed && statement == insertJobsSQL {
		statement = insertKeyedSQL
	}
	if statement != insertJobsSQL {
		addKeys(args, submissions, places)
	}
	if statement != insertJobsSQL && statement != insertKeyedSQL {
		args["units"], args["follows"] = unitsOf(submissions, places), followsOf(submissions, places)
	}
	if statement == insertLinkedSQL {
		addFlags(args, submissions, places)
	}
	rows, err := db.Query(ctx, statement, args)
	if err != nil {
		return nil, err
	}
	return collectInserted(rows, submissions, places, results)
}

// collectInserted fills in the jobs that an insert has stored, and gives the places of the others.
func collectInserted(rows pgx.Rows, submissions []Submission, places []place, results [][]JobResult) (missing []place, err error) {
	made, err := pgx.CollectRows(rows, scanInserted)
	if err != nil {
		return nil, err
	}
	byID := make(map[uuid.UUID]inserted, len(made))
	for _, m := range made {
		byID[m.ID] = m
	}
	for _, p := range places {
		submission := &submissions[p.submission]
		if m, ok := byID[submission.Jobs[p.job].ID]; ok {
			results[p.submission][p.job].Row = newRow(submission, &submission.Jobs[p.job], m)
		} else {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

// newRow is the row as it now stands, without reading it back.
func newRow(submission *Submission, n *NewJob, made inserted) *read.Row {
	return &read.Row{
		ID: n.ID, TenantID: submission.Tenant, LaneID: n.Lane, Queue: n.Queue, Type: n.Type, UserID: n.User,
		Priority: int16(n.Priority), Tags: n.Tags, Metadata: n.Metadata, //nolint:gosec // 0 to 9
		MaxAttempts: int32(n.MaxAttempts), //nolint:gosec // 1 to 1000
		RetryBaseMs: n.Retry.Base.Milliseconds(), RetryCapMs: n.Retry.Cap.Milliseconds(), RetryJitter: n.Retry.Jitter,
		RetryCurve: string(n.Retry.Curve.OrDefault()),
		TimeoutMs:  n.TimeoutMS, DedupeKey: n.DedupeKey, Key: n.Key, KeyWeight: n.KeyWeight, Costs: n.Costs, AtGate: made.State == string(job.Queued) && n.atGate(), Turn: n.turn, CorrelationID: n.CorrelationID, Traceparent: n.Traceparent,
		CreatedAt: made.CreatedAt, RunAt: made.RunAt, Deadline: made.Deadline, State: made.State, RerunOf: submission.RerunOf,
	}
}

// insertArgs turns jobs into one array for each column, see inputSQL, and says whether one of them has a key.
func insertArgs(submissions []Submission, places []place) (args store.Args, keyed bool) {
	n := len(places)
	c := struct {
		lanes                                           []lanes.ID
		maxAttempts                                     []int32
		ids, tenants                                    []uuid.UUID
		queues, types, payloads, tags, metadata, curves []string
		users, dedupeKeys, correlationIDs, traceparents []*string
		priorities                                      []int16
		counted                                         []int16
		bases, caps, delays                             []int64
		jitters                                         []float64
		timeouts, expiries                              []*int64
		runAts, deadlines                               []*time.Time
	}{}
	c.ids, c.payloads = make([]uuid.UUID, 0, n), make([]string, 0, n)
	for _, p := range places {
		submission := &submissions[p.submission]
		j := &submission.Jobs[p.job]
		c.ids, c.tenants, c.lanes = append(c.ids, j.ID), append(c.tenants, submission.Tenant), append(c.lanes, j.Lane)
		c.queues, c.types, c.users = append(c.queues, j.Queue), append(c.types, j.Type), append(c.users, j.User)
		c.priorities = append(c.priorities, int16(j.Priority)) //nolint:gosec // 0 to 9
		c.payloads, c.metadata = append(c.payloads, string(j.Payload)), append(c.metadata, string(j.Metadata))
		c.tags = append(c.tags, store.TextArray(j.Tags))
		c.maxAttempts = append(c.maxAttempts, int32(j.MaxAttempts)) //nolint:gosec // 1 to 1000
		c.bases, c.caps = append(c.bases, j.Retry.Base.Milliseconds()), append(c.caps, j.Retry.Cap.Milliseconds())
		c.jitters, c.curves = append(c.jitters, j.Retry.Jitter), append(c.curves, string(j.Retry.Curve.OrDefault()))
		c.timeouts = append(c.timeouts, j.TimeoutMS)
		c.dedupeKeys, c.correlationIDs = append(c.dedupeKeys, j.DedupeKey), append(c.correlationIDs, j.CorrelationID)
		c.traceparents, c.runAts = append(c.traceparents, j.Traceparent), append(c.runAts, j.RunAt)
		c.delays, c.deadlines = append(c.delays, j.Delay.Milliseconds()), append(c.deadlines, j.Deadline)
		c.expiries = append(c.expiries, j.ExpiresAfterMS)
		c.counted = append(c.counted, int16(caps.BitsOf(j.Caps)))
		keyed = keyed || j.Key != nil
	}
	return store.Args{
		"ids": c.ids, "tenants": oneOrAll(c.tenants), "lanes": oneOrAll(c.lanes), "queues": oneOrAll(c.queues), "types": oneOrAll(c.types),
		"users": unlessNone(c.users), "priorities": oneOrAll(c.priorities), "payloads": c.payloads, "tags": oneOrAll(c.tags),
		"metadata": oneOrAll(c.metadata), "max_attempts": oneOrAll(c.maxAttempts), "bases": oneOrAll(c.bases), "caps": oneOrAll(c.caps),
		"jitters": oneOrAll(c.jitters), "curves": oneOrAll(c.curves), "timeouts": unlessNone(c.timeouts),
		"dedupe_keys": unlessNone(c.dedupeKeys), "correlation_ids": unlessEqual(c.correlationIDs), "traceparents": unlessNone(c.traceparents),
		"run_ats": unlessNone(c.runAts), "delays": oneOrAll(c.delays), "deadlines": unlessNone(c.deadlines), "expiries": unlessNone(c.expiries), "counted": oneOrAll(c.counted),
	}, keyed
}

// addFlags adds the columns of insertLinkedSQL.
func addFlags(args store.Args, submissions []Submission, places []place) {
	blocked, linked, hasDependents := make([]bool, len(places)), make([]bool, len(places)), make([]bool, len(places))
	sizes, reruns := make([]int32, len(places)), make([]*uuid.UUID, len(places))
	for i, p := range places {
		submission := &submissions[p.submission]
		blocked[i], linked[i], hasDependents[i] = submission.flags(p.job)
		reruns[i] = submission.RerunOf
		sizes[i] = int32(len(submission.Jobs[p.job].After)) * dependency.ClaimedSize //nolint:gosec // at most api.MaxWorkflowAfter
	}
	args["blocked"], args["linked"], args["has_dependents"], args["parents_sizes"] = blocked, linked, hasDependents, sizes
	args["reruns"] = reruns
}

// unitsOf gives each job's unit, see insertDedupedSQL.
func unitsOf(submissions []Submission, places []place) []int32 {
	units := make([]int32, len(places))
	for i, p := range places {
		if units[i] = int32(i); submissions[p.submission].Atomic {
			units[i] = int32(-1 - p.submission) //nolint:gosec // apart from every single job's
		}
	}
	return units
}

// oneOrAll gives the one value of a column that has no other.
func oneOrAll[T comparable](column []T) []T {
	for _, value := range column {
		if value != column[0] {
			return column
		}
	}
	return column[:min(len(column), 1)]
}

// unlessNone gives nil for a column that is empty in all rows: unnest fills up with
// NULL what is shorter, and most of a job's columns are for few jobs.
func unlessNone[T any](column []*T) []*T {
	if slices.ContainsFunc(column, func(value *T) bool { return value != nil }) {
		return column
	}
	return nil
}

// unlessEqual is oneOrAll for a column that may be empty.
func unlessEqual(column []*string) []*string {
	for _, value := range column {
		if (value == nil) != (column[0] == nil) || value != nil && *value != *column[0] {
			return column
		}
	}
	return column[:min(len(column), 1)]
}
