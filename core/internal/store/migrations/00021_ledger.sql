-- The ledger: how many jobs were accepted and ended, by tenant and day, exactly. Decision 38 has the accounting.

-- +goose Up

-- A row for each day whose numbers are final. Days are closed in order, and before their partition is dropped.
CREATE TABLE ledger_days (
  day       date PRIMARY KEY,
  closed_at timestamptz NOT NULL
);
-- The ledger begins today.
INSERT INTO ledger_days (day, closed_at) VALUES ((statement_timestamp() AT TIME ZONE 'UTC')::date - 1, statement_timestamp());

CREATE TABLE ledger (
  tenant_id   uuid   NOT NULL,
  -- what name is: the whole tenant (''), a type, or a user ('' for jobs without one)
  by          text   NOT NULL CHECK (by IN ('day', 'type', 'user')),
  name        text   NOT NULL,
  day         date   NOT NULL,
  accepted    bigint NOT NULL,
  completed   bigint NOT NULL,
  dead_letter bigint NOT NULL,
  redriven    bigint NOT NULL,
  cancelled   bigint NOT NULL,
  discarded   bigint NOT NULL,
  running_ms  bigint NOT NULL,
  PRIMARY KEY (tenant_id, by, name, day)
);

-- What the tables no longer say of a day that is not closed: written by the statements that delete an ended job, or
-- redrive one. Those of closed days mean nothing, and are deleted.
CREATE TABLE ledger_entries (
  tenant_id   uuid   NOT NULL,
  day         date   NOT NULL,
  type        text   NOT NULL,
  user_id     text   NOT NULL,
  accepted    bigint NOT NULL,
  completed   bigint NOT NULL,
  dead_letter bigint NOT NULL,
  redriven    bigint NOT NULL,
  cancelled   bigint NOT NULL,
  discarded   bigint NOT NULL,
  running_ms  bigint NOT NULL
);
CREATE INDEX ledger_entries_by_tenant ON ledger_entries (tenant_id, day);
