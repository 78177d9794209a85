package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ReadableURL says whether a database URL can be parsed.
func ReadableURL(url string) bool {
	_, err := pgx.ParseConfig(url)
	return err == nil
}

// ServerInfo are a server's properties that matter to core.
type ServerInfo struct {
	serverSettings
	// Ahead is how far its clock is ahead of this machine's, ± Doubt.
	Ahead, Doubt time.Duration
}

type serverSettings struct {
	Version                                                     int32
	VersionName, Encoding, Fsync, FullPageWrites, Commit        string
	Autovacuum, ReadOnly                                        string
	Standby                                                     bool
	MaxConnections, Reserved, InUse, Ours, RoleLimit, BaseLimit int32
	Schema                                                      string
	// Collation and CollationNow are the versions of the database's collation when it was made, and now; empty for one
	// without versions.
	Collation, CollationNow string
	MayCreate, Migrated     bool
}

// reserved_connections exists since 16. A role may see only the existence of others' sessions,
// which is all that is counted.
const serverInfoSQL = `
SELECT current_setting('server_version_num')::integer      AS version,
       current_setting('server_version')                   AS version_name,
       current_setting('server_encoding')                  AS encoding,
       current_setting('fsync')                            AS fsync,
       current_setting('full_page_writes')                 AS full_page_writes,
       current_setting('synchronous_commit')               AS commit,
       current_setting('autovacuum')                       AS autovacuum,
       current_setting('default_transaction_read_only')    AS read_only,
       pg_is_in_recovery()                                 AS standby,
       current_setting('max_connections')::integer         AS max_connections,
       current_setting('superuser_reserved_connections')::integer
         + coalesce(current_setting('reserved_connections', true), '0')::integer AS reserved,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::integer       AS in_use,
       (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'forgequeue-core')::integer  AS ours,
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user)               AS role_limit,
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database())      AS base_limit,
       coalesce(current_schema(), '')                                                 AS schema,
       (SELECT coalesce(datcollversion, '') FROM pg_database WHERE datname = current_database())     AS collation,
       (SELECT coalesce(pg_database_collation_actual_version(oid), '') FROM pg_database WHERE datname = current_database()) AS collation_now,
       coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)              AS may_create,
       to_regclass('goose_db_version') IS NOT NULL                                    AS migrated`

// InspectServer inspects a server with one plain connection, whether Open would accept it or not. If it
// cannot be reached the error is ErrUnavailable.
func InspectServer(ctx context.Context, url string) (ServerInfo, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil { // not the library's text, which may contain the URL
		return ServerInfo{}, errors.New("store: the database URL cannot be read")
	}
	config.RuntimeParams["application_name"] = "forgequeue-doctor"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return ServerInfo{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it was only read from
	rows, err := conn.Query(ctx, serverInfoSQL)
	if err != nil {
		return ServerInfo{}, fmt.Errorf("store: inspect the server: %w", err)
	}
	var info ServerInfo
	if info.serverSettings, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[serverSettings]); err != nil {
		return ServerInfo{}, fmt.Errorf("store: inspect the server: %w", err)
	}
	info.Ahead, info.Doubt, err = clockOf(ctx, conn)
	return info, err
}

// clockOf compares the clocks by the fastest of a few queries, as NTP does: the answer was written
// between query and response.
func clockOf(ctx context.Context, conn *pgx.Conn) (ahead, doubt time.Duration, err error) {
	const questions = 3
	for i := range questions {
		var answered time.Time
		sent := time.Now()
		if err := conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&answered); err != nil {
			return 0, 0, fmt.Errorf("store: the server's clock: %w", err)
		}
		half := time.Since(sent) / 2
		if i == 0 || half < doubt {
			ahead, doubt = answered.Sub(sent.Add(half)), half
		}
	}
	return ahead, doubt, nil
}
