-- The schema of one cell.
--
-- All names are unqualified: search_path decides the schema, and one schema is one cell. Hot statements pass ids in, so
-- that a retry of a statement writes the same rows; most tables therefore have no default for their id.
--
-- Words:
--   json         not jsonb: a value is returned as it was sent
--   uuid_send(x) instead of x in an index (jobs_by_tenant and others): with some statistics the planner prefers a plain
--                index on (tenant_id, id) for `id = ANY(…)`, which is 300 times slower than the primary key. An index on
--                the expression is used only by the lists that name it
--   COLLATE "C"  a column of text that an index has is sorted by its bytes, whatever the collation of the database, which
--                changes with the operating system
--   ''           in a column that is part of a key: no user, no queue; a key has no null
--   WITH (…)     autovacuum of tables whose rows soon die: scans of an index from its start walk over the dead entries,
--                so a twentieth or less of dead rows (PostgreSQL's default: a fifth) is enough for a vacuum. A table of
--                few live rows is vacuumed without pauses (cost_delay = 0): it is short
--
-- A migration that has landed does not change: see checksums.txt. The next change is a file of its own.

-- +goose Up

-- ======== Tenants and keys ========
-- A set of limits that many tenants share. limits is an api.Limits; a limit that is absent does not apply.
CREATE TABLE plans (
  name                      text COLLATE "C" PRIMARY KEY,
  limits                    json        NOT NULL,
  visibility_timeout_ms_max bigint,
  -- what it belongs to, such as a file of `forgequeue apply`; null for none. Other tables have it too
  label                     text COLLATE "C",
  -- every change sets it: cores read what changed since they last looked
  updated_at                timestamptz NOT NULL DEFAULT now(),
  -- directory.version since this change
  version                   bigint      NOT NULL DEFAULT 0
);

INSERT INTO plans (name, limits) VALUES
  ('free',      '{"user_jobs_per_second": 5, "user_job_burst": 10, "user_max_running": 3}'),
  ('standard',  '{"requests_per_second": 1000, "request_burst": 2000, "jobs_per_second": 1000, "job_burst": 5000}'),
  ('unlimited', '{}');

-- A tenant. Its data is in the tables that have its id.
CREATE TABLE tenants (
  id             uuid PRIMARY KEY,
  name           text        NOT NULL,
  plan           text        NOT NULL REFERENCES plans (name),
  -- the tenant's share of a claim that serves several tenants
  weight         integer     NOT NULL CHECK (weight BETWEEN 1 AND 1000),
  -- limits that replace those of the plan
  overrides      json        NOT NULL,
  -- in the home cell: the cell that has the tenant's jobs; null is the home cell
  cell           text COLLATE "C",
  -- as in plans; in the home cell
  label          text COLLATE "C",
  -- incremented by each change of the tenant's job types; 0: it never had any. Gateways cache the types by it
  types_version  bigint      NOT NULL DEFAULT 0,
  -- a job type of the tenant has its results checked
  checks_results boolean     NOT NULL DEFAULT false,
  created_at     timestamptz NOT NULL,
  -- as in plans
  updated_at     timestamptz NOT NULL DEFAULT now(),
  version        bigint      NOT NULL DEFAULT 0,
  -- deletion: when it was requested, when no row was left, and how many rows were deleted. The tenant's row stays
  deleting_at    timestamptz, deleted_at timestamptz, removed bigint NOT NULL DEFAULT 0
);
CREATE INDEX tenants_by_change ON tenants (updated_at);
CREATE INDEX tenants_by_cell   ON tenants (cell, version) WHERE cell IS NOT NULL;
CREATE INDEX tenants_deleting  ON tenants (deleting_at) WHERE deleting_at IS NOT NULL AND deleted_at IS NULL;

-- Keys of tenants, and of the platform, whose workers serve all tenants.
CREATE TABLE api_keys (
  key_id         text COLLATE "C" PRIMARY KEY,
  kind           text        NOT NULL CHECK (kind IN ('tenant', 'platform')),
  tenant_id      uuid        REFERENCES tenants (id),
  -- the user that the key is bound to; null for none
  user_id        text,
  scopes         text[]      NOT NULL,
  -- HMAC-SHA-256 of the secret under the gateway's own secret; the key itself is not stored
  secret_hmac    bytea       NOT NULL CHECK (length(secret_hmac) = 32),
  expires_at     timestamptz, revoked_at timestamptz,
  -- how often all console sessions of the key were ended: a session with a lower number is refused
  sessions_ended bigint      NOT NULL DEFAULT 0,
  created_at     timestamptz NOT NULL,
  -- as in plans
  version        bigint      NOT NULL DEFAULT 0,
  CHECK ((kind = 'tenant') = (tenant_id IS NOT NULL)),
  CHECK (kind = 'tenant' OR user_id IS NULL)
);
CREATE INDEX api_keys_by_tenant  ON api_keys (tenant_id, key_id);
CREATE INDEX api_keys_by_version ON api_keys (version);

-- A row for each version of a job type that is kept. Only newest changes. Of a deleted type the versions with anything sensitive
-- stay, none of them the newest: they hide it in the jobs that are kept.
CREATE TABLE job_types (
  tenant_id      uuid        NOT NULL,
  type           text COLLATE "C" NOT NULL,
  version        integer     NOT NULL CHECK (version >= 1),
  -- tenants.types_version since this version; no other row of the tenant has it
  revision       bigint      NOT NULL,
  newest         boolean     NOT NULL,
  description    text        NOT NULL,
  payload_schema json, result_schema json,
  check_results  boolean     NOT NULL,
  -- x-sensitive marks a part of a schema
  sensitive      boolean     NOT NULL,
  examples       json        NOT NULL, defaults json NOT NULL,
  label          text COLLATE "C",
  -- bytes of the texts above
  size           integer     NOT NULL,
  created_at     timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, type, version)
);
CREATE UNIQUE INDEX job_types_newest    ON job_types (tenant_id, type) WHERE newest;
CREATE INDEX        job_types_sensitive ON job_types (tenant_id, type) WHERE sensitive;

-- ======== Queues, lanes, workers ========
-- Settings of a queue. The first job creates the queue; a null setting is the default.
CREATE TABLE queues (
  tenant_id                  uuid        NOT NULL,
  name                       text COLLATE "C" NOT NULL,
  mode                       text        NOT NULL DEFAULT 'pull' CHECK (mode IN ('pull', 'push')),
  paused                     boolean     NOT NULL DEFAULT false,
  visibility_timeout_ms      bigint      CHECK (visibility_timeout_ms >= 1000),
  max_attempts               integer     CHECK (max_attempts BETWEEN 1 AND 1000),
  retry_curve                text        CHECK (retry_curve IN ('exponential', 'linear', 'constant')),
  retry_base_ms              bigint      CHECK (retry_base_ms >= 1),
  retry_cap_ms               bigint      CHECK (retry_cap_ms >= 1),
  retry_jitter               float8      CHECK (retry_jitter BETWEEN 0 AND 1),
  max_active                 bigint      CHECK (max_active >= 0),
  max_running                bigint      CHECK (max_running >= 0),
  rate_per_second            float8      CHECK (rate_per_second > 0),
  -- limits by job type: {"TYPE": {"max_running", "rate_per_second"}}
  types                      json,
  -- how jobs with a key start: {"fair", "max_running", "rate_per_second", "burst", "order", "on_dead"}
  keys                       json,
  -- what a job that does not say it may use of budgets: {"BUDGET": amount}
  costs                      jsonb,
  label                      text COLLATE "C",
  -- when no job starts: [{"cron", "duration_ms", "timezone"}]; null for none
  windows                    json,
  -- push mode: the URL of an HTTP endpoint or of a broker. push_secret signs the calls, push_credentials are the broker's
  -- user and password; both are encrypted with a key that only the cores have. After a rotation calls are signed with
  -- the previous secret too, until the given time
  push_url                   text,
  push_timeout_ms            bigint      CHECK (push_timeout_ms >= 1),
  push_secret                bytea, push_secret_previous bytea, push_secret_previous_until timestamptz,
  push_credentials           bytea,
  -- what ends a job that was sent to a broker: the broker's confirm (default), or the consumer
  push_settle                text        CHECK (push_settle IN ('confirm', 'worker')),
  breaker_calls              integer     CHECK (breaker_calls >= 1), breaker_half_open integer CHECK (breaker_half_open >= 1),
  breaker_failure_ratio      float8      CHECK (breaker_failure_ratio > 0 AND breaker_failure_ratio <= 1),
  breaker_open_ms            bigint      CHECK (breaker_open_ms >= 1),
  -- how often a probe of the destination was requested: a core that reads a new number makes its breaker half-open
  probes                     bigint      NOT NULL DEFAULT 0,
  -- the user whose job created the queue; '' for none
  requested_by               text        NOT NULL DEFAULT '',
  created_at                 timestamptz NOT NULL,
  -- as in plans
  updated_at                 timestamptz NOT NULL,
  -- the queue is deleted while this equals updated_at: any later change restores it. The row stays for an hour, so that
  -- every core forgets the settings
  deleted_at                 timestamptz,
  PRIMARY KEY (tenant_id, name)
);
CREATE INDEX queues_by_change ON queues (updated_at);
CREATE INDEX queues_deleted   ON queues (deleted_at, tenant_id, name) WHERE deleted_at IS NOT NULL;

-- The unit of scheduling: the jobs of one tenant, queue, type and set of required tags (sorted), and, where users have a
-- running cap each, of one user. Jobs whose keys take turns (fair) have lanes of their own: their order is another; and so have
-- jobs with costs (budgeted), which are claimed under their tenant's lock. Every core caches all lanes. An id is never used again.
CREATE TABLE lanes (
  id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id   uuid        NOT NULL,
  queue       text COLLATE "C" NOT NULL,
  type        text COLLATE "C" NOT NULL,
  tags        text[] COLLATE "C" NOT NULL,
  capped_user text COLLATE "C" NOT NULL DEFAULT '',
  fair        boolean     NOT NULL DEFAULT false,
  budgeted    boolean     NOT NULL DEFAULT false,
  -- the user whose job created or revived the lane last; '' for none
  requested_by text       NOT NULL DEFAULT '',
  created_at  timestamptz NOT NULL,
  -- when it was created, or last found in use
  used_at     timestamptz NOT NULL DEFAULT now(),
  -- when it was found unused: cores store no new jobs in it, and after a while it is deleted
  retired_at  timestamptz,
  UNIQUE (tenant_id, queue, type, tags, capped_user, fair, budgeted)
);
CREATE INDEX lanes_by_use  ON lanes (used_at)    WHERE retired_at IS NULL;
CREATE INDEX lanes_retired ON lanes (retired_at) WHERE retired_at IS NOT NULL;

-- No index has the time of the heartbeat, and each page has room for new versions of its rows: so a heartbeat is a HOT
-- update, which writes no index. What looks for silent workers reads the table.
CREATE TABLE workers (
  -- the tenant, or the nil uuid for a worker with a platform key
  owner             uuid        NOT NULL,
  worker_id         text COLLATE "C" NOT NULL,
  status            text        NOT NULL CHECK (status IN ('ACTIVE', 'STALE', 'DEAD')),
  -- what the worker claims; types null: all types
  queues            text[]      NOT NULL, types text[], tags text[] NOT NULL,
  concurrency       integer     NOT NULL CHECK (concurrency >= 1),
  metadata          json        NOT NULL,
  registered_at     timestamptz NOT NULL, last_heartbeat_at timestamptz NOT NULL,
  PRIMARY KEY (owner, worker_id)
) WITH (fillfactor = 50);

-- ======== Jobs ========
-- Live jobs. The statement that ends a job moves it to finished_jobs or dead_letters. The columns are in two parts: first
-- those by which jobs are scheduled and leased, then what a job carries.
--
-- Each job leaves at least two dead rows: of the claim and of the end. A vacuum may write five times as much in a second
-- as by default, which busy queues need, but does not use all of the disk beside a long backlog. Pages have room
-- for a second version of their rows: where a claim's version is in the same page, WAL has only what differs, without the
-- payload, and one page is dirty, not two (decision 56).
CREATE TABLE jobs (
  id                    uuid PRIMARY KEY,
  tenant_id             uuid        NOT NULL,
  lane_id               bigint      NOT NULL,
  queue                 text COLLATE "C" NOT NULL,
  type                  text        NOT NULL,
  user_id               text COLLATE "C",
  state                 text        NOT NULL CHECK (state IN ('blocked', 'scheduled', 'waiting', 'queued', 'running')),
  priority              smallint    NOT NULL CHECK (priority BETWEEN 0 AND 9),
  created_at            timestamptz NOT NULL,
  -- the earliest start; for a job without a delay, when it was created; of one that waits for signals, when it stops to
  run_at                timestamptz NOT NULL,
  -- with the priority this is its place in the queue: when it last became queued, and in a fair lane the turn of its key
  -- (see package gate). A queued job without it is at the gate of its key, and cannot be claimed
  ready_at              timestamptz,
  -- when it first could run, where ready_at is another time: after a claim was given back without using an attempt, and of
  -- each job with a key
  waiting_since         timestamptz,
  deadline              timestamptz,
  attempt               integer     NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  max_attempts          integer     NOT NULL CHECK (max_attempts >= 1),
  -- incremented by each claim, never reset: (id, epoch) names an attempt
  epoch                 bigint      NOT NULL DEFAULT 0 CHECK (epoch >= 0),
  redrives              integer     NOT NULL DEFAULT 0,
  retry_curve           text        NOT NULL DEFAULT 'exponential' CHECK (retry_curve IN ('exponential', 'linear', 'constant')),
  retry_base_ms         bigint      NOT NULL, retry_cap_ms bigint NOT NULL, retry_jitter float8 NOT NULL,
  timeout_ms            bigint,
  -- when the job was first returned without using an attempt because its destination was unavailable: for a day
  -- that is free, then attempts are used
  deferred_since        timestamptz,
  -- bytes of payload, checkpoint, metadata, tags and parents in a claim's answer: claims are bounded in bytes without
  -- reading payloads
  size                  integer     NOT NULL,
  cancel_requested      boolean     NOT NULL DEFAULT false,
  -- bits: the counts of caps that include the job (caps.Counter). What ends the job, or its lease, removes it from
  -- exactly these. 0 for a tenant without caps
  counted               smallint    NOT NULL DEFAULT 0,
  -- bits: a limit of its queue on jobs with the same key, 1 how many run at once, or 2 their order; 4, it has passed with costs;
  -- 8, it is past the limits of its key and waits for a budget. What ends the job, or takes it out of the queue, then appends a
  -- row to key_checks
  gate                  smallint    NOT NULL DEFAULT 0,
  -- another job waits, or waited, for this one: its end appends a follow-up
  has_dependents        boolean     NOT NULL DEFAULT false,
  -- it ran when another one was submitted with its dedupe_key, which starts when it has ended
  superseded            boolean     NOT NULL DEFAULT false,
  -- the job has parents, is part of a workflow, has waited, or has signals or output: reads look for them
  linked                boolean     NOT NULL DEFAULT false,
  -- when the current or last attempt started, by which worker; the worker's owner is as in workers
  started_at            timestamptz, worker_id text, worker_owner uuid,
  -- the lease: all three, or none
  lease_id              uuid, lease_expires_at timestamptz, visibility_timeout_ms bigint,
  -- the last outcome, so that a repeat of it gets the same answer until the job is claimed again
  outcome_lease_id      uuid, outcome_hash bytea, outcome_answer json,

  dedupe_key            text COLLATE "C",
  -- jobs with the same key take turns with those of other keys, and may have a limit; the user where the job named none, and ''
  -- where it has costs and neither. Null weight: 1
  key                   text COLLATE "C", key_weight float8,
  -- what each attempt reserves of budgets: {"BUDGET": amount}; null for nothing
  costs                 jsonb,
  correlation_id        text, traceparent text,
  -- the job that this one runs again; it may no longer be kept
  rerun_of              uuid,
  tags                  text[]      NOT NULL,
  metadata              json        NOT NULL,
  payload               json        NOT NULL,
  -- reported by the worker: {"percent", "message", "epoch"}; a value that the next attempt gets
  progress              json, checkpoint json,
  last_error            json,
  CHECK ((state = 'running') = (lease_id IS NOT NULL)),
  CHECK ((state = 'running') = (lease_expires_at IS NOT NULL)),
  CHECK ((state = 'running') = (visibility_timeout_ms IS NOT NULL)),
  CHECK (state <> 'running' OR (started_at IS NOT NULL AND worker_id IS NOT NULL AND attempt >= 1 AND epoch >= 1)),
  CHECK (state <> 'queued' OR ready_at IS NOT NULL OR key IS NOT NULL),
  CHECK (attempt <= max_attempts)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_limit = 1000, fillfactor = 45);
-- Each predicate is one state: a job is in at most one of these three.
CREATE INDEX jobs_ready     ON jobs (lane_id, priority, ready_at, id) WHERE state = 'queued';
CREATE INDEX jobs_scheduled ON jobs (run_at, id)                      WHERE state IN ('scheduled', 'waiting');
CREATE INDEX jobs_running   ON jobs (lease_expires_at, id)            WHERE state = 'running';
-- For the longest wait of a lane.
CREATE INDEX jobs_given_back ON jobs (lane_id, waiting_since) WHERE state = 'queued' AND waiting_since IS NOT NULL;
-- The last turn of a key.
CREATE INDEX jobs_turns      ON jobs (lane_id, priority, key, ready_at) WHERE state = 'queued' AND key IS NOT NULL;
-- The jobs past the gate of a key, and then those that are not, in their order there: see package gate. One index, since each
-- has its predicate computed for every row that is written.
CREATE INDEX jobs_gated ON jobs (uuid_send(tenant_id), queue, key, (CASE WHEN ready_at IS NULL AND gate < 8 THEN 1 ELSE 0 END), (CASE WHEN gate & 2 = 2 THEN 0 ELSE priority END) DESC, created_at, id)
  WHERE gate > 0 OR key IS NOT NULL AND state = 'queued' AND ready_at IS NULL;
-- For depths, by lane. A job that is claimed at once is never in it.
CREATE INDEX jobs_waiting   ON jobs (lane_id, state)                  WHERE state IN ('blocked', 'scheduled', 'waiting');
CREATE INDEX jobs_deadline  ON jobs (deadline)                        WHERE deadline IS NOT NULL;
CREATE UNIQUE INDEX jobs_dedupe ON jobs (tenant_id, COALESCE(user_id, ''), dedupe_key, superseded) WHERE dedupe_key IS NOT NULL;
-- For lists, newest first.
CREATE INDEX jobs_by_tenant  ON jobs (tenant_id, uuid_send(id));
-- For one user's jobs: counting them must not read all of the tenant's. In the order of ids, so that the backfill of a
-- count continues where it stopped.
CREATE INDEX jobs_by_user_id ON jobs (tenant_id, user_id, uuid_send(id)) WHERE user_id IS NOT NULL;

-- The columns of a job that are kept when it has ended, as in jobs.
CREATE TABLE ended_job (
  id uuid NOT NULL, tenant_id uuid NOT NULL, lane_id bigint NOT NULL, queue text COLLATE "C" NOT NULL, type text NOT NULL, user_id text,
  priority smallint NOT NULL, created_at timestamptz NOT NULL, run_at timestamptz NOT NULL, deadline timestamptz,
  attempt integer NOT NULL, max_attempts integer NOT NULL, epoch bigint NOT NULL, redrives integer NOT NULL,
  retry_curve text NOT NULL DEFAULT 'exponential', retry_base_ms bigint NOT NULL, retry_cap_ms bigint NOT NULL, retry_jitter float8 NOT NULL,
  timeout_ms bigint, cancel_requested boolean NOT NULL, has_dependents boolean NOT NULL DEFAULT false, linked boolean NOT NULL DEFAULT false,
  started_at timestamptz, worker_id text, outcome_lease_id uuid, outcome_hash bytea, outcome_answer json,
  dedupe_key text, key text COLLATE "C", key_weight float8, costs jsonb, correlation_id text, traceparent text, rerun_of uuid,
  tags text[] NOT NULL, metadata json NOT NULL, payload json NOT NULL, progress json, checkpoint json, last_error json
);

-- Jobs that completed or were cancelled, by day of finished_at. There is no DEFAULT partition: detaching from one needs a
-- scan. `core migrate` and a duty create partitions ahead.
CREATE TABLE finished_jobs (
  LIKE ended_job INCLUDING DEFAULTS,
  state       text        NOT NULL CHECK (state IN ('completed', 'cancelled')),
  result      json,
  finished_at timestamptz NOT NULL,
  PRIMARY KEY (id, finished_at)
) PARTITION BY RANGE (finished_at);
CREATE INDEX finished_jobs_by_tenant ON finished_jobs (tenant_id, uuid_send(id));

-- Jobs that failed for good, until they are redriven, discarded or too old.
CREATE TABLE dead_letters (
  LIKE ended_job INCLUDING DEFAULTS,
  reason      text        NOT NULL CHECK (reason IN ('exhausted', 'permanent', 'worker_lost', 'deadline')),
  -- equal for failures with the same cause
  fingerprint text        NOT NULL,
  died_at     timestamptz NOT NULL,
  PRIMARY KEY (id)
);
CREATE INDEX dead_letters_by_tenant ON dead_letters (tenant_id, uuid_send(id));
CREATE INDEX dead_letters_by_queue  ON dead_letters (tenant_id, queue);
CREATE INDEX dead_letters_by_age    ON dead_letters (died_at);
CREATE INDEX dead_letters_by_key    ON dead_letters (tenant_id, queue, key) WHERE key IS NOT NULL;

DROP TABLE ended_job;

-- A row for each attempt that did not succeed, by day of ended_at.
CREATE TABLE attempts (
  job_id        uuid        NOT NULL, epoch bigint NOT NULL,
  tenant_id     uuid        NOT NULL,
  attempt       integer     NOT NULL,
  kind          text        NOT NULL CHECK (kind IN ('failed', 'lease_expired', 'timeout', 'cancelled')),
  worker_id     text,
  started_at    timestamptz, ended_at timestamptz NOT NULL,
  error_type    text, error_message text, error_stack text,
  -- when the next attempt may start; null for none
  next_run_at   timestamptz,
  PRIMARY KEY (job_id, epoch, ended_at)
) PARTITION BY RANGE (ended_at);

-- What jobs said while they ran, in chunks, by day of at. Written once.
CREATE TABLE job_output (
  job_id    uuid   NOT NULL, epoch bigint NOT NULL,
  -- numbered by the holder, from 1 in each attempt
  seq       bigint NOT NULL,
  tenant_id uuid   NOT NULL,
  stream    text   NOT NULL CHECK (stream IN ('out', 'err', 'log')),
  text      text   NOT NULL,
  -- the size of all of the job's output up to and with this chunk, each of which counts as 64 bytes at least: where it is not the
  -- one before and this chunk's, chunks between are no longer kept
  upto      bigint NOT NULL,
  at        timestamptz NOT NULL,
  PRIMARY KEY (job_id, epoch, seq, at)
) PARTITION BY RANGE (at);

-- Answers to requests with an Idempotency-Key, for a repeat.
CREATE TABLE idempotency_keys (
  tenant_id   uuid        NOT NULL,
  -- the user that the credential is bound to; '' for none
  user_id     text COLLATE "C" NOT NULL,
  operation   text COLLATE "C" NOT NULL,
  key         text COLLATE "C" NOT NULL,
  -- hash of the request: the same key with another request is an error
  fingerprint bytea       NOT NULL CHECK (length(fingerprint) = 32),
  job_ids     uuid[]      NOT NULL,
  status      smallint    NOT NULL, answer json NOT NULL,
  created_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, user_id, operation, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- ======== Dependencies, workflows, schedules ========
-- An edge: the child waits for the end of the parent.
CREATE TABLE dependencies (
  tenant_id   uuid        NOT NULL,
  parent_id   uuid        NOT NULL,
  child_id    uuid        NOT NULL,
  -- what happens to the child where the parent becomes a dead letter or is cancelled
  on_failed   text        NOT NULL CHECK (on_failed IN ('cancel', 'run', 'hold')),
  -- the parent's redrives when the edge was created: an earlier death of it does not count
  redrives    integer     NOT NULL,
  -- when the child stopped waiting for this parent
  resolved_at timestamptz,
  PRIMARY KEY (child_id, parent_id)
);
CREATE INDEX dependencies_unresolved ON dependencies (parent_id, child_id) WHERE resolved_at IS NULL;

-- Written by the statement that ends a job with dependents, deleted by the transaction that updates the children.
CREATE TABLE follow_ups (
  id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id uuid        NOT NULL,
  job_id    uuid        NOT NULL,
  -- how the job ended; removed: a dead letter was deleted and cannot be redriven
  state     text        NOT NULL CHECK (state IN ('completed', 'cancelled', 'dead_letter', 'removed')),
  redrives  integer     NOT NULL,
  ended_at  timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX follow_ups_by_tenant ON follow_ups (tenant_id, id);
CREATE INDEX follow_ups_by_job    ON follow_ups (job_id, id);

-- What live jobs were told from outside, each name once: the first stays. Rows of jobs that have ended are deleted by a duty.
CREATE TABLE job_signals (
  job_id    uuid NOT NULL,
  name      text COLLATE "C" NOT NULL,
  tenant_id uuid NOT NULL,
  data      json,
  at        timestamptz NOT NULL,
  PRIMARY KEY (job_id, name)
);
CREATE INDEX job_signals_by_tenant ON job_signals (tenant_id, job_id);

-- What jobs wait for, or waited for last: any or all of the names, none for a time alone. Written by the statement that makes
-- the job wait; woken says that signals woke it.
CREATE TABLE job_waits (
  job_id    uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  names     text[] COLLATE "C" NOT NULL,
  all_of    boolean NOT NULL,
  woken     boolean NOT NULL DEFAULT false
);
CREATE INDEX job_waits_by_tenant ON job_waits (tenant_id, job_id);

-- Keys of a queue of which a job may now pass the gate: one has come to it, or one that had passed has left. With an empty
-- queue, budgets that may have become available: the key is BUDGET/SUBJECT. Written by the statement that changes the job,
-- deleted by the transaction that lets jobs pass.
CREATE TABLE key_checks (
  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id uuid   NOT NULL,
  queue     text   COLLATE "C" NOT NULL,
  keys      text[] COLLATE "C" NOT NULL CHECK (cardinality(keys) > 0),
  -- not before: when a rate lets the next job pass
  due_at    timestamptz NOT NULL DEFAULT '-infinity'
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_checks_by_tenant ON key_checks (tenant_id, due_at, id);
CREATE INDEX key_checks_due       ON key_checks (due_at) WHERE due_at > '-infinity';

-- When the rate of a key is used up to (GCRA's theoretical arrival time); a row in the past is as none.
CREATE TABLE key_rates (
  tenant_id uuid NOT NULL,
  queue     text COLLATE "C" NOT NULL,
  key       text COLLATE "C" NOT NULL,
  used_to   timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, queue, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- ======== Budgets ========
-- How much of something a tenant's jobs may use in a time: see package budget.
CREATE TABLE budgets (
  tenant_id    uuid        NOT NULL,
  name         text COLLATE "C" NOT NULL,
  unit         text        NOT NULL,
  amount       bigint      NOT NULL CHECK (amount >= 1),
  -- the time of the amount: one of the two
  per_ms       bigint      CHECK (per_ms >= 1000),
  "window"     text        CHECK ("window" IN ('hour', 'day', 'month')),
  timezone     text        NOT NULL DEFAULT 'UTC',
  burst        bigint      CHECK (burst >= 1),
  -- 'user' or 'key': each has an amount of its own, as a subject of the budget; '' for one amount, of the subject ''
  by           text        NOT NULL DEFAULT '' CHECK (by IN ('', 'user', 'key')),
  label        text COLLATE "C",
  -- a worker was told to come back then
  closed_until timestamptz,
  created_at   timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, name),
  CHECK ((per_ms IS NULL) <> ("window" IS NULL))
);

-- What is used of a budget: the row with the highest seq. Appended, as usage_log is, under the tenant's claim lock.
CREATE TABLE budget_log (
  tenant_id uuid     NOT NULL,
  budget    text COLLATE "C" NOT NULL,
  subject   text COLLATE "C" NOT NULL,
  seq       bigint   NOT NULL,
  -- what was used in the parts of the time that began then
  parts     timestamptz[] NOT NULL,
  amounts   bigint[] NOT NULL,
  -- what running jobs have reserved
  running   bigint   NOT NULL,
  -- claims read settlements from then on: older ones are in it, but for those of transactions that were open for a minute, which
  -- a duty finds. What was deleted under an old snapshot is not visited again
  since     timestamptz NOT NULL,
  -- what attempts that started on the day (UTC) reserved, have used, and used above what they had reserved
  day       date     NOT NULL,
  reserved  bigint   NOT NULL, used bigint NOT NULL, overdrawn bigint NOT NULL,
  PRIMARY KEY (tenant_id, budget, subject, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- What an attempt that has ended had reserved and has used. Appended without a lock; deleted by the claim that has it in its
-- row of budget_log.
CREATE TABLE budget_settlements (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id  uuid   NOT NULL,
  budget     text COLLATE "C" NOT NULL,
  subject    text COLLATE "C" NOT NULL,
  at         timestamptz NOT NULL,
  started_at timestamptz NOT NULL,
  reserved   bigint NOT NULL, used bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX budget_settlements_by_budget ON budget_settlements (tenant_id, budget, subject, at);

-- The sums of a day that are no longer in budget_log. A day may have several rows, which a duty adds up.
CREATE TABLE budget_days (
  tenant_id uuid   NOT NULL,
  budget    text COLLATE "C" NOT NULL,
  day       date   NOT NULL,
  reserved  bigint NOT NULL, used bigint NOT NULL, overdrawn bigint NOT NULL
);
CREATE INDEX budget_days_by_budget ON budget_days (tenant_id, budget, day);

-- Jobs that wait for a budget, in their order, and those that no longer do and have not started: what they may use is no longer
-- there for others. Written under the tenant's gate lock only. A row whose job does not wait is deleted when it is met.
CREATE TABLE budget_line (
  tenant_id uuid     NOT NULL,
  budget    text COLLATE "C" NOT NULL,
  subject   text COLLATE "C" NOT NULL,
  job_id    uuid     NOT NULL,
  -- 9 less its priority
  rank      smallint NOT NULL,
  key       text COLLATE "C" NOT NULL,
  -- its place among those of its rank: keys take turns, see package gate
  turn      timestamptz NOT NULL,
  cost      bigint   NOT NULL,
  passed_at timestamptz,
  PRIMARY KEY (job_id, budget)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX budget_line_waiting ON budget_line (tenant_id, budget, subject, rank, turn, job_id) WHERE passed_at IS NULL;
CREATE INDEX budget_line_keys    ON budget_line (tenant_id, budget, subject, rank, key, turn)    WHERE passed_at IS NULL;
CREATE INDEX budget_line_passed  ON budget_line (tenant_id, budget, subject, passed_at)          WHERE passed_at IS NOT NULL;

-- A named group of jobs. Its state is computed from the states of its jobs.
CREATE TABLE workflows (
  id            uuid PRIMARY KEY,
  tenant_id     uuid        NOT NULL,
  -- the user that the credential was bound to; null for none
  user_id       text,
  name          text        NOT NULL,
  metadata      json        NOT NULL,
  created_at    timestamptz NOT NULL,
  -- of the end that was delivered last: when the last job had ended. A workflow that was redriven ends again
  delivered_end timestamptz
);
CREATE INDEX workflows_by_tenant ON workflows (tenant_id, uuid_send(id));

-- Which jobs a workflow has.
CREATE TABLE workflow_jobs (
  workflow_id uuid NOT NULL,
  -- the job's name in its workflow
  ref         text COLLATE "C" NOT NULL,
  job_id      uuid NOT NULL,
  PRIMARY KEY (workflow_id, ref)
);
CREATE UNIQUE INDEX workflow_jobs_by_job ON workflow_jobs (job_id);

-- A schedule creates a job at each tick: at the times of a cron expression, or at a fixed interval.
CREATE TABLE schedules (
  tenant_id    uuid        NOT NULL,
  name         text COLLATE "C" NOT NULL,
  -- the user of the jobs; null for none. A key that is bound to a user sees that user's schedules only
  user_id      text,
  cron         text,
  every_ms     bigint      CHECK (every_ms >= 1000),
  timezone     text        NOT NULL,
  -- the job as it was requested, and its size in bytes
  job          json        NOT NULL,
  size         integer     NOT NULL,
  overlap      text        NOT NULL CHECK (overlap IN ('allow', 'skip', 'cancel')),
  catch_up     text        NOT NULL CHECK (catch_up IN ('none', 'latest', 'all')),
  catch_up_max integer     NOT NULL CHECK (catch_up_max BETWEEN 1 AND 1000),
  starts_at    timestamptz, ends_at timestamptz,
  label        text COLLATE "C",
  -- when ticks are skipped, as in queues
  windows      json,
  -- ticks from here on are skipped until the schedule is resumed
  paused_at    timestamptz,
  -- the first tick that was not processed; null where none is left
  next_at      timestamptz,
  -- when to process the schedule again: next_at, or earlier to retry a tick that was refused
  due_at       timestamptz,
  -- missed ticks up to here create a job, however late
  owed_until   timestamptz,
  -- a tick that a cap refused
  refused_at   timestamptz,
  -- when ticks were last left out because they were too late
  missed_at    timestamptz,
  -- the newest run, which is kept longer than its row in schedule_runs
  last_at      timestamptz, last_job_id uuid, last_skipped text,
  -- the newest job that was created
  made_job_id  uuid,
  -- when a tick was last processed
  ticked_at    timestamptz,
  -- incremented by each change that a caller makes
  revision     bigint      NOT NULL,
  created_at   timestamptz NOT NULL, updated_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, name),
  CHECK ((cron IS NULL) <> (every_ms IS NULL))
);
CREATE INDEX schedules_due        ON schedules (due_at)                       WHERE due_at IS NOT NULL;
-- One tenant's due schedules, where so many are due that tenants take turns. Not plain (tenant_id, due_at): the planner
-- would use it for a look-up by the key.
CREATE INDEX schedules_due_tenant ON schedules (uuid_send(tenant_id), due_at) WHERE due_at IS NOT NULL;

-- A row for each tick that was processed, and for each job that was requested between ticks. The primary key prevents
-- that a tick creates two jobs.
CREATE TABLE schedule_runs (
  tenant_id uuid        NOT NULL,
  name      text COLLATE "C" NOT NULL,
  at        timestamptz NOT NULL,
  job_id    uuid,
  skipped   text        CHECK (skipped IN ('overlap', 'paused', 'cap', 'window')),
  PRIMARY KEY (tenant_id, name, at),
  CHECK ((job_id IS NULL) = (skipped IS NOT NULL))
);
-- Not plain (at): the planner would use it for a look-up by the key, and all schedules may have a run at one time.
CREATE INDEX schedule_runs_by_age ON schedule_runs ((at AT TIME ZONE 'UTC'));

-- ======== Webhooks ========
-- A subscription to the ends of jobs and workflows. A delivery is a job of the system queue _webhook.NAME, which is in
-- push mode: the URL, the secret and whether it is paused are settings of that queue.
CREATE TABLE webhooks (
  tenant_id   uuid        NOT NULL,
  name        text COLLATE "C" NOT NULL,
  events      text[]      NOT NULL,
  -- some of them tell of states
  of_states   boolean     NOT NULL DEFAULT false,
  -- only for jobs of this queue, of this type, with this tag; null for all
  queue       text, type text, tag text,
  label       text COLLATE "C",
  -- for how long a state holds before it is told of, as in an api.Thresholds; null for the defaults
  thresholds  json,
  -- the last call; last_status is null where it got no answer
  last_at     timestamptz, last_status integer, last_error text,
  created_at  timestamptz NOT NULL, updated_at timestamptz NOT NULL,
  -- when it was deleted: its deliveries are removed first
  deleted_at  timestamptz,
  PRIMARY KEY (tenant_id, name)
);
CREATE INDEX webhooks_deleted ON webhooks (deleted_at) WHERE deleted_at IS NOT NULL;

-- Written by the statement that ends a job, deleted by the transaction that stores the delivery. An event of a job is for
-- one webhook. The event workflow.ended is for all webhooks of the tenant, which receive it if the workflow has ended.
-- who is told of states
CREATE INDEX webhooks_of_states ON webhooks (tenant_id) WHERE of_states;

-- States that webhooks are told of, for each webhook, since they were first seen. A state's event and the change of its
-- row are one transaction.
CREATE TABLE alerts (
  tenant_id uuid        NOT NULL,
  webhook   text COLLATE "C" NOT NULL,
  -- the kind of the event of its begin
  state     text COLLATE "C" NOT NULL,
  -- the queue, the schedule or the webhook; '' for the tenant
  name      text COLLATE "C" NOT NULL,
  detail    text        NOT NULL,
  began_at  timestamptz NOT NULL,
  -- since when it is not seen; null while it is
  gone_at   timestamptz,
  -- the event of its begin was appended
  told      boolean     NOT NULL DEFAULT false,
  PRIMARY KEY (tenant_id, webhook, state, name)
);

CREATE TABLE webhook_events (
  event_id    bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id   uuid        NOT NULL,
  webhook     text,
  kind        text        NOT NULL CHECK (kind IN ('job.completed', 'job.dead_letter', 'job.cancelled', 'job.waiting', 'workflow.ended', 'budget.closed',
                            'queue.stalled', 'queue.unserved', 'queue.recovered', 'breaker.opened', 'breaker.closed', 'cap.full', 'schedule.missed', 'webhook.failing')),
  workflow_id uuid,
  finished_at timestamptz NOT NULL,
  -- row_to_json of the job as it ended, without its payload. Only core takes it apart: PostgreSQL cannot where a value
  -- has a \u0000. Of budget.closed it is the budget, of a state an
  -- api.Alert, and null of workflow.ended
  job         json,
  CHECK ((webhook IS NULL) = (kind = 'workflow.ended')),
  CHECK ((job IS NULL) = (kind = 'workflow.ended')),
  CHECK ((workflow_id IS NOT NULL) = (kind = 'workflow.ended'))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX webhook_events_by_tenant ON webhook_events (tenant_id, event_id);

-- ======== Redrives, audit log ========
-- A redrive or a discard of dead letters by filter. A core that processes one holds the row's lock, moves a batch and
-- stores the progress in one transaction; another core continues after a crash.
-- Redrives of dead letters, and other actions on all jobs that match a filter.
CREATE TABLE redrives (
  id              uuid PRIMARY KEY,
  tenant_id       uuid        NOT NULL,
  -- the user that the caller's key is bound to: only this user's dead letters are processed; null for all
  user_id         text,
  -- redrive and discard are of dead letters; of the others rerun and delete are of jobs that have ended, the rest of live ones
  action          text        NOT NULL CHECK (action IN ('redrive', 'discard', 'cancel', 'move', 'set_priority', 'run_now', 'delay', 'rerun', 'delete')),
  filter          json        NOT NULL,
  -- what it changes: an api.BulkTarget; null where the action says it
  target          json,
  -- null: a default pace that leaves capacity to others
  rate_per_second float8      CHECK (rate_per_second > 0),
  -- stopped: the canary's sample did not pass
  state           text        NOT NULL CHECK (state IN ('running', 'done', 'stopped', 'cancelled', 'failed')),
  -- how many dead letters matched; capped: counting stopped, there may be more
  matched         bigint      NOT NULL, matched_capped boolean NOT NULL,
  done            bigint      NOT NULL DEFAULT 0, refused bigint NOT NULL DEFAULT 0,
  -- how many were refused by each code: {"CODE": n}; null for none
  refusals        json,
  -- all jobs up to this id were processed
  cursor          uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
  -- why it pauses
  waiting         text,
  -- consecutive steps that failed
  failures        integer     NOT NULL DEFAULT 0,
  error           text,
  -- an api.Canary: a sample is queued first, and the rest only if enough of it completes; null without one
  canary          json,
  next_at         timestamptz NOT NULL,
  -- dead letters that are newer are not part of it: a job that dies again is not redriven for ever
  created_at      timestamptz NOT NULL, updated_at timestamptz NOT NULL, ended_at timestamptz,
  CHECK ((state = 'running') = (ended_at IS NULL))
);
CREATE INDEX redrives_next       ON redrives (next_at)   WHERE state = 'running';
CREATE INDEX redrives_unfinished ON redrives (tenant_id) WHERE state = 'running';
CREATE INDEX redrives_by_tenant  ON redrives (tenant_id, uuid_send(id));
CREATE INDEX redrives_by_end     ON redrives (ended_at)  WHERE ended_at IS NOT NULL;

-- A row for each job of a canary's sample, deleted when the sample has passed or the redrive has ended: at most 1,000 for
-- each unfinished redrive.
CREATE TABLE redrive_samples (
  redrive_id uuid     NOT NULL REFERENCES redrives (id) ON DELETE CASCADE,
  job_id     uuid     NOT NULL,
  -- chosen: still a dead letter; skipped: it could not be queued and does not count
  state      text     NOT NULL CHECK (state IN ('chosen', 'skipped', 'queued', 'completed', 'failed')),
  -- how often the job had been redriven when it was chosen
  redrives   integer  NOT NULL,
  -- of a job that failed: what equal failures share, and the text of this one
  cause      text, error text,
  PRIMARY KEY (redrive_id, job_id)
);

-- Who changed what. Written in the transaction of the change, never updated.
CREATE TABLE audit_log (
  id         uuid PRIMARY KEY,
  -- null for a change that concerns no tenant
  tenant_id  uuid,
  actor_kind text        NOT NULL, key_id text, user_id text,
  action     text        NOT NULL, object text, detail json NOT NULL,
  at         timestamptz NOT NULL
);
CREATE INDEX audit_log_by_tenant ON audit_log (tenant_id, uuid_send(id));
CREATE INDEX audit_log_by_age    ON audit_log (at);

-- ======== Counts of caps, rates (package caps) ========
-- The counts that are kept: those that have a cap. The jobs that existed before the cap are added by a backfill.
CREATE TABLE usage_counts (
  tenant_id       uuid        NOT NULL,
  -- which count: caps.Counter; a bit of jobs.counted
  counter         smallint    NOT NULL,
  -- the user, the queue, or QUEUE/TYPE that is counted; '' where the count is the tenant's
  name            text COLLATE "C" NOT NULL,
  opened_at       timestamptz NOT NULL,
  -- no job is left to backfill
  settled         boolean     NOT NULL DEFAULT false,
  -- when the backfill continues
  due_at          timestamptz NOT NULL DEFAULT now(),
  -- a pass of the backfill, in the order of job ids: when it started, the last id, and whether it left out a job that
  -- was locked
  backfill_start  timestamptz, backfill_after uuid, backfill_missed boolean NOT NULL DEFAULT false,
  PRIMARY KEY (tenant_id, counter, name)
);
CREATE INDEX usage_counts_due ON usage_counts (due_at) WHERE NOT settled;

-- A count at the time at which bound was the oldest running transaction. The row with the highest seq and the credits
-- from its bound on are the true count. Rows are appended, never updated: while an old snapshot is held, each update
-- would leave a dead row that every later read visits. Written under the tenant's lock.
CREATE TABLE usage_log (
  tenant_id  uuid        NOT NULL,
  counter    smallint    NOT NULL,
  name       text COLLATE "C" NOT NULL,
  seq        bigint      NOT NULL,
  count      bigint      NOT NULL,
  bound      xid8        NOT NULL,
  -- a mark, beside a transaction that stays open: the sum of the credits from bound on that the snapshot seen shows.
  -- A read adds those that it does not show
  young      bigint      NOT NULL DEFAULT 0, seen pg_snapshot,
  written_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, counter, name, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- What left a count (n is negative), and in which transaction. Appended without a lock.
CREATE TABLE usage_credits (
  tenant_id uuid     NOT NULL,
  counter   smallint NOT NULL,
  name      text COLLATE "C" NOT NULL,
  n         bigint   NOT NULL,
  xid       xid8     NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX usage_credits_by_key ON usage_credits (tenant_id, counter, name, xid);

-- The earliest time at which the job of an id (a UUID v7: its first 48 bits are the time in milliseconds) can have ended,
-- less a day for clocks: with it PostgreSQL opens no partition of an earlier day. It inlines it.
CREATE FUNCTION earliest_end(job_id uuid) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS
$$SELECT to_timestamp(('x' || substr(job_id::text, 1, 8) || substr(job_id::text, 10, 4))::bit(48)::bigint / 1000.0) - interval '1 day'$$;

-- Credits of transactions below this can be folded into a count: all of those have ended. PostgreSQL inlines it. Where
-- Citus distributes the schema, `core migrate` replaces it by one that returns 0: transaction ids then come from several
-- servers and have no order, and credits are folded by deleting them.
CREATE FUNCTION count_fold_bound() RETURNS xid8 LANGUAGE sql STABLE PARALLEL SAFE AS
'SELECT pg_snapshot_xmin(pg_current_snapshot())';

-- When the next start of a queue with a rate is due: the row with the highest seq. For a rate by type queue is
-- QUEUE/TYPE. Appended, as usage_log is, under the tenant's claim lock.
CREATE TABLE rate_log (
  tenant_id uuid        NOT NULL,
  queue     text COLLATE "C" NOT NULL,
  seq       bigint      NOT NULL,
  due       timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, queue, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- ======== Statistics, ledger ========
-- What jobs did, by tenant, queue and time, for charts. Rows are appended, never updated; reads sum them.
CREATE TABLE job_stats (
  tenant_id uuid        NOT NULL,
  -- '' for all queues: a chart of the tenant does not read the rows of each queue
  queue     text COLLATE "C" NOT NULL,
  -- the length of the row's time: 0 part of a minute, as a core appends it; 1 a minute; 2 an hour
  grain     smallint    NOT NULL CHECK (grain IN (0, 1, 2)),
  -- the start of that time
  at        timestamptz NOT NULL,
  submitted bigint NOT NULL, started bigint NOT NULL, completed bigint NOT NULL, failed_attempts bigint NOT NULL,
  dead_letter bigint NOT NULL, cancelled bigint NOT NULL, waiting_ms bigint NOT NULL, running_ms bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX job_stats_by_queue   ON job_stats (tenant_id, queue, at);
-- For the roll-up, which reads the oldest rows of a grain.
CREATE INDEX job_stats_by_age     ON job_stats (grain, at);
-- For the sum of all tenants, without the rows of their queues.
CREATE INDEX job_stats_of_tenants ON job_stats (at) WHERE queue = '';

-- How much of each limit was used and how often it refused, by tenant, limit and time, for charts. Appended as job_stats
-- is; reads take the largest use and sum the refusals.
CREATE TABLE limit_stats (
  tenant_id  uuid        NOT NULL,
  -- its name in refusals: tenant-active, user-requests, …
  limit_name text        NOT NULL,
  -- a queue; a user or a key that was refused; '' for the tenant's own, and for all users or keys together
  name       text COLLATE "C" NOT NULL,
  -- grain, at: as in job_stats
  grain      smallint    NOT NULL CHECK (grain IN (0, 1, 2)),
  at         timestamptz NOT NULL,
  -- the largest use and the largest limit in that time
  used       bigint      NOT NULL, allowed bigint NOT NULL, refused bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX limit_stats_by_name ON limit_stats (tenant_id, name, at);
-- For who was refused, which is rarely anybody.
CREATE INDEX limit_stats_refused ON limit_stats (tenant_id, at) WHERE refused > 0;
CREATE INDEX limit_stats_by_age  ON limit_stats (grain, at);

-- How many jobs each core starts per second, by lane: one row for each core, updated every 2 s. Rows older than 15 s are
-- ignored, and deleted by other cores after a minute. A lane's rate is rates[i]; busy[i] is the part of the time in which
-- jobs waited in its queue, 0 where it is not known.
CREATE TABLE start_rates (
  core_id     uuid PRIMARY KEY,
  reported_at timestamptz NOT NULL,
  lanes bigint[] NOT NULL, rates real[] NOT NULL, busy real[] NOT NULL
);

-- The ledger: how many jobs were accepted and ended, by tenant and day, exactly (decision 38). Rows of days that are
-- closed.
CREATE TABLE ledger (
  tenant_id   uuid   NOT NULL,
  -- what name is: the tenant (''), a type, or a user ('' for jobs without one)
  by          text COLLATE "C" NOT NULL CHECK (by IN ('day', 'type', 'user')),
  name        text COLLATE "C" NOT NULL,
  day         date   NOT NULL,
  accepted    bigint NOT NULL, completed bigint NOT NULL, dead_letter bigint NOT NULL, redriven bigint NOT NULL,
  cancelled   bigint NOT NULL, discarded bigint NOT NULL,
  -- of attempts that completed, and of attempts that failed
  running_ms  bigint NOT NULL, failed_running_ms bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, by, name, day)
);

-- The days that are closed: their numbers are final. Days are closed in order, before their partition is dropped. The
-- ledger begins on the day of the migration.
CREATE TABLE ledger_days (
  day       date PRIMARY KEY,
  closed_at timestamptz NOT NULL
);
INSERT INTO ledger_days (day, closed_at) VALUES ((statement_timestamp() AT TIME ZONE 'UTC')::date - 1, statement_timestamp());

-- What the tables of jobs no longer show of a day that is not closed: written by the statements that delete an ended job
-- or redrive one, deleted when the day is closed.
CREATE TABLE ledger_entries (
  tenant_id   uuid   NOT NULL,
  day         date   NOT NULL,
  type        text   NOT NULL,
  user_id     text   NOT NULL,
  accepted    bigint NOT NULL, completed bigint NOT NULL, dead_letter bigint NOT NULL, redriven bigint NOT NULL,
  cancelled   bigint NOT NULL, discarded bigint NOT NULL,
  running_ms  bigint NOT NULL, failed_running_ms bigint NOT NULL DEFAULT 0
);
CREATE INDEX ledger_entries_by_tenant ON ledger_entries (tenant_id, day);

-- ======== The installation: cells, moves, processes ========
-- Which cell this database is, so that a wrong connection string is refused: one row, or none where there is one
-- database.
CREATE TABLE this_cell (
  one          boolean PRIMARY KEY DEFAULT true CHECK (one),
  name         text    NOT NULL,
  -- drawn by the home cell, the same in all cells of an installation
  installation uuid    NOT NULL,
  home         boolean NOT NULL
);

-- The version of the directory, which is the plans, tenants and keys. In the home cell each change of it increments the
-- version and notes it in the changed row; the row lock makes versions commit in their order. In another cell it is
-- the version up to which the home's changes were copied.
CREATE TABLE directory (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  version bigint  NOT NULL
);
INSERT INTO directory (version) VALUES (1);

-- In the home cell: the other cells that read the directory, and up to which version.
CREATE TABLE directory_readers (
  cell    text COLLATE "C" PRIMARY KEY,
  version bigint      NOT NULL,
  seen_at timestamptz NOT NULL
);

-- In the home cell: moves of tenants that are in progress (package move). source and target are cells; '' is the home
-- cell.
CREATE TABLE tenant_moves (
  tenant_id   uuid PRIMARY KEY,
  source      text        NOT NULL, target text NOT NULL,
  phase       text        NOT NULL CHECK (phase IN ('copying', 'draining', 'left', 'switched', 'removing', 'aborting')),
  started_at  timestamptz NOT NULL, switched_at timestamptz
);

-- Tenants that are being moved, in both cells of the move: otherwise the table is empty. Every transaction that writes rows of
-- tenants asks it (package store, MovingSQL).
CREATE TABLE tenant_fences (
  tenant_id uuid NOT NULL,
  -- draining: the cell takes outcomes, heartbeats and changes of the tenant, no new jobs, and claims none; left: it takes
  -- nothing; arriving: likewise, in the target; here: the tenant has arrived, and is served
  state     text NOT NULL CHECK (state IN ('draining', 'left', 'arriving', 'here')),
  -- with the state, so that the asking reads the index alone: a scan of the table is switched off
  PRIMARY KEY (tenant_id) INCLUDE (state)
);

-- Ends a statement that may not write rows of the tenant.
CREATE FUNCTION refuse_tenant(tenant_id uuid, refused boolean) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF refused THEN
    RAISE EXCEPTION 'the tenant is in another cell, or is being moved to one' USING ERRCODE = 'TM001', DETAIL = tenant_id;
  END IF;
  RETURN NULL;
END $$;

-- In the home cell: cores and gateways, as they report themselves. One that stops deletes its row.
CREATE TABLE processes (
  -- drawn at the start
  id         text COLLATE "C" PRIMARY KEY,
  kind       text        NOT NULL CHECK (kind IN ('core', 'gateway')),
  address    text        NOT NULL,
  version    text        NOT NULL,
  started_at timestamptz NOT NULL, seen_at timestamptz NOT NULL
);

-- The last verification, by `core verify` and by the cores' own recount: at most one row.
CREATE TABLE verification (
  one         boolean PRIMARY KEY DEFAULT true CHECK (one),
  verified_at timestamptz, violations bigint,
  -- the end of a core's last pass over all counts of caps, and how many were wrong
  counted_at  timestamptz, drift bigint
);
