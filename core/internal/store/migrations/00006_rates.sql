-- How many jobs of a queue may start in a second, in all cores together.

-- +goose Up

-- When a queue's next start is due: the newest row (highest seq) counts. Written under the tenant's claim
-- lock only; appended and not rewritten, as counts are.
CREATE TABLE rate_log (
  tenant_id uuid        NOT NULL,
  queue     text        NOT NULL,
  seq       bigint      NOT NULL,
  due       timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, queue, seq)
);
