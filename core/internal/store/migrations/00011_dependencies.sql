-- Jobs that come after other jobs: the edges, and what the end of a parent still has to do.

-- +goose Up

-- has_dependents: another job waits, or waited, for this one, so its end appends a follow-up. linked: the
-- job comes after others, so whoever shows it looks for its parents. A job of an older binary has neither.
ALTER TABLE jobs
  ADD COLUMN has_dependents boolean NOT NULL DEFAULT false,
  ADD COLUMN linked         boolean NOT NULL DEFAULT false;
ALTER TABLE finished_jobs
  ADD COLUMN has_dependents boolean NOT NULL DEFAULT false,
  ADD COLUMN linked         boolean NOT NULL DEFAULT false;
ALTER TABLE dead_letters
  ADD COLUMN has_dependents boolean NOT NULL DEFAULT false,
  ADD COLUMN linked         boolean NOT NULL DEFAULT false;

CREATE TABLE dependencies (
  tenant_id   uuid        NOT NULL,
  parent_id   uuid        NOT NULL,
  child_id    uuid        NOT NULL,
  -- what the child does where the parent ends as a dead letter or is cancelled
  on_failed   text        NOT NULL CHECK (on_failed IN ('cancel', 'run', 'hold')),
  -- the parent's redrives when the edge was made: an earlier death of it does not count
  redrives    integer     NOT NULL,
  -- when the child stopped waiting for this parent
  resolved_at timestamptz,
  PRIMARY KEY (child_id, parent_id)
);
CREATE INDEX dependencies_unresolved ON dependencies (parent_id, child_id) WHERE resolved_at IS NULL;

-- Written by the statement that ends a job with dependents, deleted by the transaction that does what it asks.
CREATE TABLE follow_ups (
  id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id uuid        NOT NULL,
  job_id    uuid        NOT NULL,
  -- how the job ended; removed: a dead letter was deleted, and will not be redriven
  state     text        NOT NULL CHECK (state IN ('completed', 'cancelled', 'dead_letter', 'removed')),
  redrives  integer     NOT NULL,
  ended_at  timestamptz NOT NULL
);
CREATE INDEX follow_ups_by_tenant ON follow_ups (tenant_id, id);
CREATE INDEX follow_ups_by_job    ON follow_ups (job_id, id);
