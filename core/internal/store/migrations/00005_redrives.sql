-- Redrives and discards by filter, which outlive the core that began them, and the log of who did what.

-- +goose Up

-- One row for each. A core that works on one holds its row's lock, moves a batch of dead letters and
-- writes down how far it got, all in one transaction.
CREATE TABLE redrives (
  id              uuid PRIMARY KEY,
  tenant_id       uuid        NOT NULL,
  -- the user that the caller's key is bound to: only this user's dead letters are touched; null for all
  user_id         text,
  action          text        NOT NULL CHECK (action IN ('redrive', 'discard')),
  filter          json        NOT NULL,
  -- null is as fast as is kind to others
  rate_per_second float8      CHECK (rate_per_second > 0),
  state           text        NOT NULL CHECK (state IN ('running', 'done', 'cancelled', 'failed')),
  matched         bigint      NOT NULL,
  -- matched is no more than a part, because counting stopped
  matched_capped  boolean     NOT NULL,
  done            bigint      NOT NULL DEFAULT 0,
  refused         bigint      NOT NULL DEFAULT 0,
  -- the id up to which every dead letter has been looked at
  cursor          uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
  waiting         text,
  -- steps that failed, one after the other
  failures        integer     NOT NULL DEFAULT 0,
  error           text,
  next_at         timestamptz NOT NULL,
  -- what died later does not belong to it, or a job that dies again would rise for ever
  created_at      timestamptz NOT NULL,
  updated_at      timestamptz NOT NULL,
  ended_at        timestamptz,
  CHECK ((state = 'running') = (ended_at IS NULL))
);
CREATE INDEX redrives_due       ON redrives (next_at)       WHERE state = 'running';
CREATE INDEX redrives_running   ON redrives (tenant_id)     WHERE state = 'running';
-- Not plain (tenant_id, id), here and below: see jobs_by_tenant.
CREATE INDEX redrives_by_tenant ON redrives (tenant_id, uuid_send(id));
CREATE INDEX redrives_by_end    ON redrives (ended_at)      WHERE ended_at IS NOT NULL;

-- Appended to in the transaction of what it tells of, never changed.
CREATE TABLE audit_log (
  id         uuid PRIMARY KEY,
  -- null for what is no tenant's
  tenant_id  uuid,
  actor_kind text        NOT NULL,
  key_id     text,
  user_id    text,
  action     text        NOT NULL,
  object     text,
  detail     json        NOT NULL,
  at         timestamptz NOT NULL
);
CREATE INDEX audit_log_by_tenant ON audit_log (tenant_id, uuid_send(id));
CREATE INDEX audit_log_by_age    ON audit_log (at);
