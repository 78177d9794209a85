-- How much of each limit was used, by tenant, limit and minute, and how much was refused, for charts. Rows are appended
-- and never updated, as those of job_stats; reads take the largest use, and sum the refusals.

-- +goose Up

CREATE TABLE limit_stats (
  tenant_id  uuid        NOT NULL,
  -- its name in refusals: tenant-active, user-requests, …
  limit_name text        NOT NULL,
  -- a queue; a user or a key that was refused; '' for the tenant's own, and for all users or keys together
  name       text        NOT NULL,
  -- how long the row's time is: 0 part of a minute, as a core has appended it; 1 a minute; 2 an hour
  grain      smallint    NOT NULL CHECK (grain IN (0, 1, 2)),
  -- when that time begins
  at         timestamptz NOT NULL,
  -- the largest use, and the largest limit, at any time in it
  used       bigint      NOT NULL,
  allowed    bigint      NOT NULL,
  refused    bigint      NOT NULL
);
CREATE INDEX limit_stats_by_name ON limit_stats (tenant_id, name, at);
-- for who was refused, which is rarely anybody
CREATE INDEX limit_stats_refused ON limit_stats (tenant_id, at) WHERE refused > 0;
-- for the roll-up, which takes the oldest rows of a grain
CREATE INDEX limit_stats_by_age  ON limit_stats (grain, at);
