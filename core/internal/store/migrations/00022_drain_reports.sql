-- How many jobs start in a second, by core and lane.

-- +goose Up

-- One row for each core that has started jobs lately, written every 2 s in the place of its last one; rows older than
-- 15 s are ignored, and removed by the others after a minute. A lane's rate is rates[i], busy[i] the part of the time in
-- which jobs waited in its queue.
CREATE TABLE drain_reports (
  core_id      uuid        PRIMARY KEY,
  reported_at  timestamptz NOT NULL,
  lanes        integer[]   NOT NULL,
  rates        real[]      NOT NULL,
  busy         real[]      NOT NULL,
  busy_known   boolean[]   NOT NULL,
  user_tenants uuid[]      NOT NULL,
  user_names   text[]      NOT NULL,
  user_rates   real[]      NOT NULL
);
