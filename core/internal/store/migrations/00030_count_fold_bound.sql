-- Counts where Citus distributes the schema: see core/internal/usage/count_log.go.

-- +goose Up

-- Credits of transactions older than this can be folded: all of those have ended. It is inlined. Where
-- Citus distributes the schema, `core migrate` replaces it by one that gives 0, below every transaction:
-- ids of transactions are then of the coordinator in some statements and of a worker in others, and
-- credits are folded by deleting them.
CREATE FUNCTION count_fold_bound() RETURNS xid8 LANGUAGE sql STABLE PARALLEL SAFE AS
'SELECT pg_snapshot_xmin(pg_current_snapshot())';
