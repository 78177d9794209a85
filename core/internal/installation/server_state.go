package installation

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// serverStateSQL reads statistics views and no table of ours. The snapshot of this statement itself does not count.
const serverStateSQL = `
SELECT current_setting('server_version')                                                                  AS version,
       pg_postmaster_start_time()                                                                         AS started_at,
       pg_database_size(current_database())                                                               AS size_bytes,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')                      AS connections,
       (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'forgequeue-core')                 AS core_connections,
       current_setting('max_connections')::bigint                                                         AS max_connections,
       oldest.ms                                                                                          AS oldest_transaction_ms,
       oldest.name                                                                                        AS oldest_transaction_of,
       COALESCE((SELECT min(xact_start) FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend')
                < date_trunc('day', statement_timestamp() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC', false)  AS since_yesterday,
       COALESCE(live.rows, 0)                                                                             AS live_rows,
       COALESCE(live.dead, 0)                                                                             AS dead_rows,
       (SELECT COALESCE(json_agg(json_build_object('name', application_name, 'state', COALESCE(state, ''), 'sync', COALESCE(sync_state, ''),
                 'behind_bytes', pg_wal_lsn_diff(sent_lsn, replay_lsn)) ORDER BY application_name), '[]')
        FROM pg_stat_replication)                                                                         AS replicas
FROM (SELECT) AS one
LEFT JOIN LATERAL (
  SELECT floor(extract(epoch FROM statement_timestamp() - xact_start) * 1000)::bigint AS ms, application_name AS name
  FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start IS NOT NULL
  ORDER BY xact_start LIMIT 1) AS oldest ON true
LEFT JOIN LATERAL (
  SELECT n_live_tup AS rows, n_dead_tup AS dead FROM pg_stat_user_tables WHERE relid = 'jobs'::regclass) AS live ON true`

const runningStatementsSQL = `
SELECT left(regexp_replace(query, '\s+', ' ', 'g'), 160) AS text,
       floor(extract(epoch FROM statement_timestamp() - query_start) * 1000)::bigint AS running_ms,
       wait_event_type || ': ' || wait_event AS wait
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'forgequeue-core' AND state = 'active' AND pid <> pg_backend_pid()
  AND query_start < statement_timestamp() - interval '1 second'
ORDER BY query_start
LIMIT 20`

type serverStateRow struct {
	Version                                      string
	StartedAt                                    time.Time
	SizeBytes                                    int64
	Connections, CoreConnections, MaxConnections int64
	OldestTransactionMS                          *int64  `db:"oldest_transaction_ms"`
	OldestTransactionOf                          *string `db:"oldest_transaction_of"`
	SinceYesterday                               bool
	LiveRows, DeadRows                           int64
	Replicas                                     []api.Replica
}

// ServerState reads how the server is, and which statements of cores have run for more than a second. sinceYesterday says
// that a client's transaction began before this day, in UTC.
func (r *Registry) ServerState(ctx context.Context) (_ api.PostgresState, _ []api.RunningStatement, sinceYesterday bool, _ error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, r.Store, pgx.RowToStructByName[serverStateRow], serverStateSQL, store.Args{})
	if err != nil {
		return api.PostgresState{}, nil, false, fmt.Errorf("installation: the server's state: %w", store.NotApplied(err))
	}
	running, err := store.Query(ctx, r.Store, func(row pgx.CollectableRow) (api.RunningStatement, error) {
		var one api.RunningStatement
		err := row.Scan(&one.Text, &one.RunningMS, &one.Wait)
		return one, err
	}, runningStatementsSQL, store.Args{})
	if err != nil {
		return api.PostgresState{}, nil, false, fmt.Errorf("installation: running statements: %w", store.NotApplied(err))
	}
	found := &rows[0]
	return api.PostgresState{
		Version: found.Version, StartedAt: api.At(found.StartedAt), SizeBytes: found.SizeBytes,
		Connections: found.Connections, CoreConnections: found.CoreConnections, MaxConnections: found.MaxConnections,
		OldestTransactionMS: found.OldestTransactionMS, OldestTransactionOf: found.OldestTransactionOf,
		LiveRows: found.LiveRows, DeadRows: found.DeadRows, Replicas: found.Replicas,
	}, running, found.SinceYesterday, nil
}
