-- Counts stay cheap beside an old transaction, and are forgotten when nobody uses them.

-- +goose Up

-- While a transaction that has written stays open, credits from its number on cannot be folded into count.
-- young is the sum of those that seen shows; what seen does not show is added when the count is read. Without
-- seen all credits from bound on are.
ALTER TABLE usage_log ADD COLUMN young      bigint NOT NULL DEFAULT 0,
                      ADD COLUMN seen       pg_snapshot,
                      ADD COLUMN written_at timestamptz NOT NULL DEFAULT now();

-- How far a count has come in taking in the jobs that were there before it: a walk in the order of ids, in steps.
-- walk_missed says that it left a job which was locked.
ALTER TABLE usage_counts ADD COLUMN due_at      timestamptz NOT NULL DEFAULT now(),
                         ADD COLUMN walk_from   timestamptz,
                         ADD COLUMN walk_after  uuid,
                         ADD COLUMN walk_missed boolean NOT NULL DEFAULT false;
CREATE INDEX usage_counts_due ON usage_counts (due_at) WHERE NOT settled;
