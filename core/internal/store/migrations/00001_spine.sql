-- The spine: who (plans, tenants, api_keys), where (queues, lanes), what (jobs and where they end),
-- and what is remembered (attempts, idempotency_keys, workers).
--
-- All names are unqualified: the search_path decides the schema, and one schema is one cell.
-- Nothing here is volatile but defaults of rows that a person makes; hot statements pass their ids in.

-- +goose Up

CREATE TABLE plans (
  name                      text PRIMARY KEY,
  limits                    json   NOT NULL,
  visibility_timeout_ms_max bigint
);

INSERT INTO plans (name, limits) VALUES
  ('free',      '{"user_jobs_per_second": 5, "user_job_burst": 10, "user_max_running": 3}'),
  ('standard',  '{"requests_per_second": 1000, "request_burst": 2000, "jobs_per_second": 1000, "job_burst": 5000}'),
  ('unlimited', '{}');

CREATE TABLE tenants (
  id         uuid PRIMARY KEY,
  name       text        NOT NULL,
  plan       text        NOT NULL REFERENCES plans (name),
  weight     integer     NOT NULL CHECK (weight BETWEEN 1 AND 1000),
  overrides  json        NOT NULL,
  created_at timestamptz NOT NULL
);

CREATE TABLE api_keys (
  key_id      text PRIMARY KEY,
  kind        text        NOT NULL CHECK (kind IN ('tenant', 'platform')),
  tenant_id   uuid        REFERENCES tenants (id),
  user_id     text,
  scopes      text[]      NOT NULL,
  -- HMAC-SHA-256 of the secret under the gateway's own secret; the key itself is nowhere
  secret_hmac bytea       NOT NULL CHECK (length(secret_hmac) = 32),
  expires_at  timestamptz,
  revoked_at  timestamptz,
  created_at  timestamptz NOT NULL,
  CHECK ((kind = 'tenant') = (tenant_id IS NOT NULL)),
  CHECK (kind = 'tenant' OR user_id IS NULL)
);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant_id, key_id);

-- A queue springs into being at first use; a null setting is the default.
CREATE TABLE queues (
  tenant_id             uuid        NOT NULL,
  name                  text        NOT NULL,
  mode                  text        NOT NULL DEFAULT 'pull' CHECK (mode IN ('pull', 'push')),
  paused                boolean     NOT NULL DEFAULT false,
  visibility_timeout_ms bigint      CHECK (visibility_timeout_ms >= 1000),
  max_attempts          integer     CHECK (max_attempts BETWEEN 1 AND 1000),
  retry_base_ms         bigint      CHECK (retry_base_ms >= 1),
  retry_cap_ms          bigint      CHECK (retry_cap_ms >= 1),
  retry_jitter          float8      CHECK (retry_jitter BETWEEN 0 AND 1),
  max_active            bigint      CHECK (max_active >= 0),
  max_running           bigint      CHECK (max_running >= 0),
  rate_per_second       float8      CHECK (rate_per_second > 0),
  created_at            timestamptz NOT NULL,
  -- every change sets it: cores read what changed since they last looked
  updated_at            timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, name)
);
CREATE INDEX queues_by_change ON queues (updated_at);

-- The scheduler's unit: one tenant's line for one queue, one set of required tags (sorted), and where a
-- user has a running cap of his own that user. Small, cached in memory by every core.
CREATE TABLE lanes (
  id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id   uuid        NOT NULL,
  queue       text        NOT NULL,
  tags        text[]      NOT NULL,
  capped_user text        NOT NULL DEFAULT '',
  created_at  timestamptz NOT NULL,
  UNIQUE (tenant_id, queue, tags, capped_user)
);

-- Live jobs only: what has ended is moved out by the statement that ends it.
CREATE TABLE jobs (
  id                    uuid PRIMARY KEY,
  tenant_id             uuid        NOT NULL,
  lane_id               integer     NOT NULL,
  queue                 text        NOT NULL,
  type                  text        NOT NULL,
  user_id               text,
  state                 text        NOT NULL CHECK (state IN ('blocked', 'scheduled', 'queued', 'running')),
  priority              smallint    NOT NULL CHECK (priority BETWEEN 0 AND 9),
  -- json, not jsonb: it comes back as it was sent
  payload               json        NOT NULL,
  tags                  text[]      NOT NULL,
  metadata              json        NOT NULL,
  attempt               integer     NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  max_attempts          integer     NOT NULL CHECK (max_attempts >= 1),
  epoch                 bigint      NOT NULL DEFAULT 0 CHECK (epoch >= 0),
  redrives              integer     NOT NULL DEFAULT 0,
  retry_base_ms         bigint      NOT NULL,
  retry_cap_ms          bigint      NOT NULL,
  retry_jitter          float8      NOT NULL,
  timeout_ms            bigint,
  dedupe_key            text,
  correlation_id        text,
  traceparent           text,
  created_at            timestamptz NOT NULL,
  -- when it may start at the earliest; for a job that never waited, when it was made
  run_at                timestamptz NOT NULL,
  deadline              timestamptz,
  -- when it last became queued: with the priority it is the place in the line
  ready_at              timestamptz,
  -- when the current or last attempt began
  started_at            timestamptz,
  worker_id             text,
  -- whose worker it is: the tenant's, or the platform's (the nil uuid)
  worker_owner          uuid,
  cancel_requested      boolean     NOT NULL DEFAULT false,
  last_error            json,
  -- the lease: all there, or nothing
  lease_id              uuid,
  lease_expires_at      timestamptz,
  visibility_timeout_ms bigint,
  -- the last outcome, so that its repeat gets the same answer until the job is claimed again
  outcome_lease_id      uuid,
  outcome_hash          bytea,
  outcome_answer        json,
  CHECK ((state = 'running') = (lease_id IS NOT NULL)),
  CHECK ((state = 'running') = (lease_expires_at IS NOT NULL)),
  CHECK ((state = 'running') = (visibility_timeout_ms IS NOT NULL)),
  CHECK (state <> 'running' OR (started_at IS NOT NULL AND worker_id IS NOT NULL AND attempt >= 1 AND epoch >= 1)),
  CHECK (state <> 'queued' OR ready_at IS NOT NULL),
  CHECK (attempt <= max_attempts)
);
-- Each predicate is one state, so a job is in exactly one of these three.
CREATE INDEX jobs_ready     ON jobs (lane_id, priority, ready_at, id) WHERE state = 'queued';
CREATE INDEX jobs_scheduled ON jobs (run_at, id)                      WHERE state = 'scheduled';
CREATE INDEX jobs_running   ON jobs (lease_expires_at, id)            WHERE state = 'running';
-- For depths: jobs that wait for their time, by lane. Off the path of a job that is claimed at once.
CREATE INDEX jobs_waiting   ON jobs (lane_id, state)                  WHERE state IN ('blocked', 'scheduled');
CREATE INDEX jobs_deadline  ON jobs (deadline)                        WHERE deadline IS NOT NULL;
CREATE UNIQUE INDEX jobs_dedupe ON jobs (tenant_id, COALESCE(user_id, ''), dedupe_key) WHERE dedupe_key IS NOT NULL;
-- For lists, newest id first. Not plain (tenant_id, id): beside it an odd set of statistics makes
-- `id = ANY(…)` walk this index by its second column, 300 times slower than the primary key.
CREATE INDEX jobs_by_tenant ON jobs (tenant_id, uuid_send(id));

-- Jobs that ended well or were cancelled, by day of finished_at. No DEFAULT partition: it could not be
-- detached from without a scan. Partitions are made ahead by `core migrate` and by a sweep.
CREATE TABLE finished_jobs (
  id               uuid        NOT NULL,
  tenant_id        uuid        NOT NULL,
  lane_id          integer     NOT NULL,
  queue            text        NOT NULL,
  type             text        NOT NULL,
  user_id          text,
  state            text        NOT NULL CHECK (state IN ('completed', 'cancelled')),
  priority         smallint    NOT NULL,
  payload          json        NOT NULL,
  tags             text[]      NOT NULL,
  metadata         json        NOT NULL,
  attempt          integer     NOT NULL,
  max_attempts     integer     NOT NULL,
  epoch            bigint      NOT NULL,
  redrives         integer     NOT NULL,
  retry_base_ms    bigint      NOT NULL,
  retry_cap_ms     bigint      NOT NULL,
  retry_jitter     float8      NOT NULL,
  timeout_ms       bigint,
  dedupe_key       text,
  correlation_id   text,
  traceparent      text,
  created_at       timestamptz NOT NULL,
  run_at           timestamptz NOT NULL,
  deadline         timestamptz,
  started_at       timestamptz,
  worker_id        text,
  cancel_requested boolean     NOT NULL,
  last_error       json,
  outcome_lease_id uuid,
  outcome_hash     bytea,
  outcome_answer   json,
  result           json,
  finished_at      timestamptz NOT NULL,
  PRIMARY KEY (id, finished_at)
) PARTITION BY RANGE (finished_at);
CREATE INDEX finished_jobs_by_tenant ON finished_jobs (tenant_id, uuid_send(id));

CREATE TABLE dead_letters (
  id               uuid PRIMARY KEY,
  tenant_id        uuid        NOT NULL,
  lane_id          integer     NOT NULL,
  queue            text        NOT NULL,
  type             text        NOT NULL,
  user_id          text,
  priority         smallint    NOT NULL,
  payload          json        NOT NULL,
  tags             text[]      NOT NULL,
  metadata         json        NOT NULL,
  attempt          integer     NOT NULL,
  max_attempts     integer     NOT NULL,
  epoch            bigint      NOT NULL,
  redrives         integer     NOT NULL,
  retry_base_ms    bigint      NOT NULL,
  retry_cap_ms     bigint      NOT NULL,
  retry_jitter     float8      NOT NULL,
  timeout_ms       bigint,
  dedupe_key       text,
  correlation_id   text,
  traceparent      text,
  created_at       timestamptz NOT NULL,
  run_at           timestamptz NOT NULL,
  deadline         timestamptz,
  started_at       timestamptz,
  worker_id        text,
  cancel_requested boolean     NOT NULL,
  last_error       json,
  outcome_lease_id uuid,
  outcome_hash     bytea,
  outcome_answer   json,
  reason           text        NOT NULL CHECK (reason IN ('exhausted', 'permanent', 'worker_lost', 'deadline')),
  fingerprint      text        NOT NULL,
  died_at          timestamptz NOT NULL
);
CREATE INDEX dead_letters_by_tenant ON dead_letters (tenant_id, uuid_send(id));
CREATE INDEX dead_letters_by_queue  ON dead_letters (tenant_id, queue);
CREATE INDEX dead_letters_by_age    ON dead_letters (died_at);

-- A row for each attempt that did not succeed, by day of ended_at. (job_id, epoch) names an attempt.
CREATE TABLE attempts (
  job_id        uuid        NOT NULL,
  epoch         bigint      NOT NULL,
  tenant_id     uuid        NOT NULL,
  attempt       integer     NOT NULL,
  kind          text        NOT NULL CHECK (kind IN ('failed', 'lease_expired', 'timeout', 'cancelled')),
  worker_id     text,
  started_at    timestamptz,
  ended_at      timestamptz NOT NULL,
  error_type    text,
  error_message text,
  error_stack   text,
  next_run_at   timestamptz,
  PRIMARY KEY (job_id, epoch, ended_at)
) PARTITION BY RANGE (ended_at);

CREATE TABLE idempotency_keys (
  tenant_id   uuid        NOT NULL,
  -- the user that the credential is bound to, '' for an unbound one
  user_id     text        NOT NULL,
  operation   text        NOT NULL,
  key         text        NOT NULL,
  fingerprint bytea       NOT NULL CHECK (length(fingerprint) = 32),
  job_ids     uuid[]      NOT NULL,
  status      smallint    NOT NULL,
  answer      json        NOT NULL,
  created_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, user_id, operation, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

CREATE TABLE workers (
  -- the tenant, or the nil uuid for workers with a platform key
  owner             uuid        NOT NULL,
  worker_id         text        NOT NULL,
  status            text        NOT NULL CHECK (status IN ('ACTIVE', 'STALE', 'DEAD')),
  queues            text[]      NOT NULL,
  tags              text[]      NOT NULL,
  concurrency       integer     NOT NULL CHECK (concurrency >= 1),
  metadata          json        NOT NULL,
  registered_at     timestamptz NOT NULL,
  last_heartbeat_at timestamptz NOT NULL,
  PRIMARY KEY (owner, worker_id)
);
CREATE INDEX workers_by_heartbeat ON workers (last_heartbeat_at);
