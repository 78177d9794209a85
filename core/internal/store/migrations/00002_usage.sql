-- Counts that cannot drift, for caps on active and on running jobs. A job says itself which counts it is
-- in; counts are appended and never rewritten, because a counter updated in place decays while an old
-- snapshot is held.

-- +goose Up

-- Which counts the job is in: bits, see queue.Counter. Whatever ends the job, or its lease, takes it out of
-- exactly these. A job of a tenant without caps is in none and costs nothing.
ALTER TABLE jobs ADD COLUMN counted smallint NOT NULL DEFAULT 0;

-- A count as it was when bound was the oldest transaction under way. The newest row (highest seq) and the
-- credits from bound on are the true count. Written under the tenant's lock only.
CREATE TABLE usage_log (
  tenant_id uuid     NOT NULL,
  counter   smallint NOT NULL,
  -- the user or the queue that is counted; '' where the counter is the tenant's
  name      text     NOT NULL,
  seq       bigint   NOT NULL,
  count     bigint   NOT NULL,
  bound     xid8     NOT NULL,
  PRIMARY KEY (tenant_id, counter, name, seq)
);

-- What left a count (n is negative), with the transaction in which it did. Appended without a lock.
CREATE TABLE usage_credits (
  tenant_id uuid     NOT NULL,
  counter   smallint NOT NULL,
  name      text     NOT NULL,
  n         bigint   NOT NULL,
  xid       xid8     NOT NULL
);
CREATE INDEX usage_credits_by_key ON usage_credits (tenant_id, counter, name, xid);

-- The counts that are kept: those that have a cap. A new one first adopts the jobs that are there already;
-- settled says that none is left to adopt.
CREATE TABLE usage_counts (
  tenant_id uuid        NOT NULL,
  counter   smallint    NOT NULL,
  name      text        NOT NULL,
  opened_at timestamptz NOT NULL,
  settled   boolean     NOT NULL DEFAULT false,
  PRIMARY KEY (tenant_id, counter, name)
);

-- Every change sets it: cores read what changed since they last looked.
ALTER TABLE tenants ADD COLUMN updated_at timestamptz NOT NULL DEFAULT now();
ALTER TABLE plans   ADD COLUMN updated_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX tenants_by_change ON tenants (updated_at);
