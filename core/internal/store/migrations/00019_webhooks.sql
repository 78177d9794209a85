-- Webhooks: a tenant's subscriptions to the ends of jobs and workflows. A delivery is a job of the system queue
-- _webhook.NAME, which is in push mode.

-- +goose Up

-- The URL, the secret and whether it is paused are settings of the system queue.
CREATE TABLE webhooks (
  tenant_id  uuid        NOT NULL,
  name       text        NOT NULL,
  events     text[]      NOT NULL,
  -- of jobs; null for all
  queue      text,
  type       text,
  tag        text,
  -- the last call that got an answer, or failed without one: status is null then
  last_at     timestamptz,
  last_status integer,
  last_error  text,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  -- its deliveries are being removed
  deleted_at timestamptz,
  PRIMARY KEY (tenant_id, name)
);
CREATE INDEX webhooks_deleted ON webhooks (deleted_at) WHERE deleted_at IS NOT NULL;

-- Written by the statement that ends a job, deleted by the transaction that stores the delivery. An event of a job is
-- for one webhook; workflow.ended asks whether the workflow has ended, for all webhooks of the tenant.
CREATE TABLE webhook_events (
  event_id    bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id   uuid        NOT NULL,
  webhook     text,
  kind        text        NOT NULL CHECK (kind IN ('job.completed', 'job.dead_letter', 'job.cancelled', 'workflow.ended')),
  workflow_id uuid,
  finished_at timestamptz NOT NULL,
  -- The job as it ended, without its payload: the columns of the tables of jobs. Null for workflow.ended.
  id               uuid,
  lane_id          integer,
  queue            text,
  type             text,
  user_id          text,
  priority         smallint,
  tags             text[],
  metadata         json,
  max_attempts     integer,
  epoch            bigint,
  redrives         integer,
  retry_base_ms    bigint,
  retry_cap_ms     bigint,
  retry_jitter     float8,
  retry_curve      text,
  timeout_ms       bigint,
  dedupe_key       text,
  correlation_id   text,
  traceparent      text,
  created_at       timestamptz,
  run_at           timestamptz,
  deadline         timestamptz,
  started_at       timestamptz,
  worker_id        text,
  cancel_requested boolean,
  has_dependents   boolean,
  linked           boolean,
  rerun_of         uuid,
  progress         json,
  checkpoint       json,
  attempt          integer,
  last_error       json,
  state            text,
  result           json,
  reason           text,
  CHECK ((webhook IS NULL) = (kind = 'workflow.ended')),
  CHECK ((id IS NULL) = (kind = 'workflow.ended')),
  CHECK ((workflow_id IS NOT NULL) = (kind = 'workflow.ended'))
);
CREATE INDEX webhook_events_by_tenant ON webhook_events (tenant_id, event_id);

-- When the last job had ended, of the end that was delivered last: a redriven workflow ends again.
ALTER TABLE workflows ADD COLUMN delivered_end timestamptz;

-- After a rotation calls are signed with both secrets, until this time.
ALTER TABLE queues
  ADD COLUMN push_secret_previous       bytea,
  ADD COLUMN push_secret_previous_until timestamptz;
