-- What jobs did, by tenant, queue and minute, for charts. Rows are appended and never updated; reads sum them.

-- +goose Up

CREATE TABLE job_stats (
  tenant_id       uuid        NOT NULL,
  -- '' for all queues of the tenant: a chart of the tenant does not read the rows of each queue
  queue           text        NOT NULL,
  -- how long the row's time is: 0 part of a minute, as a core has appended it; 1 a minute; 2 an hour
  grain           smallint    NOT NULL CHECK (grain IN (0, 1, 2)),
  -- when that time begins
  at              timestamptz NOT NULL,
  submitted       bigint      NOT NULL,
  started         bigint      NOT NULL,
  completed       bigint      NOT NULL,
  failed_attempts bigint      NOT NULL,
  dead_letter     bigint      NOT NULL,
  cancelled       bigint      NOT NULL,
  waiting_ms      bigint      NOT NULL,
  running_ms      bigint      NOT NULL
);
CREATE INDEX job_stats_by_queue ON job_stats (tenant_id, queue, at);
-- for the roll-up, which takes the oldest rows of a grain
CREATE INDEX job_stats_by_age   ON job_stats (grain, at);
