-- Schedules: each makes one job a tick.

-- +goose Up

-- A tick is an instant at which the schedule is due. next_at is the first tick that was not worked off; due_at is
-- when to look at the row again: next_at, or earlier where a refused tick is tried again. Both are null when no tick
-- is left.
CREATE TABLE schedules (
  tenant_id    uuid        NOT NULL,
  name         text        NOT NULL,
  -- the user that the jobs are of, null for none: a key that is bound to a user sees these schedules only
  user_id      text,
  cron         text,
  every_ms     bigint      CHECK (every_ms >= 1000),
  timezone     text        NOT NULL,
  -- the job as it was asked for; json, not jsonb: the payload comes back as it was sent
  job          json        NOT NULL,
  size         integer     NOT NULL,
  overlap      text        NOT NULL CHECK (overlap IN ('allow', 'skip', 'cancel')),
  catch_up     text        NOT NULL CHECK (catch_up IN ('none', 'latest', 'all')),
  catch_up_max integer     NOT NULL CHECK (catch_up_max BETWEEN 1 AND 1000),
  starts_at    timestamptz,
  ends_at      timestamptz,
  -- ticks from here on are skipped, until it is resumed
  paused_at    timestamptz,
  next_at      timestamptz,
  due_at       timestamptz,
  -- missed ticks up to here are to be made, however late
  owed_until   timestamptz,
  -- a tick that a cap refused
  refused_at   timestamptz,
  -- the newest run, which outlives its row in schedule_runs
  last_at      timestamptz,
  last_job_id  uuid,
  last_skipped text,
  -- the newest job that was made
  made_job_id  uuid,
  -- when a tick was last worked off, by the clock of that moment
  ticked_at    timestamptz,
  -- +1 at every change that is asked for
  revision     bigint      NOT NULL,
  created_at   timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, name),
  CHECK ((cron IS NULL) <> (every_ms IS NULL))
);
CREATE INDEX schedules_due        ON schedules (due_at)                       WHERE due_at IS NOT NULL;
-- One tenant's due ones, where so many are due that tenants take turns. Not plain (tenant_id, due_at): beside it a
-- look-up by the key is planned over it.
CREATE INDEX schedules_due_tenant ON schedules (uuid_send(tenant_id), due_at) WHERE due_at IS NOT NULL;

-- A row for each tick that was worked off, and for each job that was asked for between ticks. The key is what
-- keeps a tick from being made twice.
CREATE TABLE schedule_runs (
  tenant_id uuid        NOT NULL,
  name      text        NOT NULL,
  at        timestamptz NOT NULL,
  job_id    uuid,
  skipped   text        CHECK (skipped IN ('overlap', 'paused', 'cap')),
  PRIMARY KEY (tenant_id, name, at),
  CHECK ((job_id IS NULL) = (skipped IS NOT NULL))
);
-- Not plain (at): beside it a look-up by the key is planned over it, which has as many rows of one instant as there
-- are schedules.
CREATE INDEX schedule_runs_by_age ON schedule_runs ((at AT TIME ZONE 'UTC'));
