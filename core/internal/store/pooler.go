package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// poolerLooks is how often two sessions are compared: a pooler with other clients does not give both
// the same server at once.
const poolerLooks = 20

const backendPidSQL = `SELECT pg_backend_pid()`

// checkPooler refuses a pooler that gives transactions, not sessions, to its clients: core prepares
// statements, and drops partitions under a session's advisory lock. A pooler makes the process ids
// of its sessions up, and so is told from PostgreSQL; one that keeps sessions is no harm.
func (s *Store) checkPooler(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("store: PostgreSQL cannot be reached: %w", err)
	}
	defer conn.Release()
	var first, second uint32
	if err := conn.QueryRow(ctx, backendPidSQL, pgx.QueryExecModeSimpleProtocol).Scan(&first); err != nil {
		return fmt.Errorf("store: PostgreSQL cannot be reached: %w", err)
	}
	if first == conn.Conn().PgConn().PID() {
		return nil
	}
	other, err := pgx.ConnectConfig(ctx, conn.Conn().Config())
	if err != nil {
		return fmt.Errorf("store: PostgreSQL cannot be reached: %w", err)
	}
	defer func() { _ = other.Close(ctx) }()
	for range poolerLooks {
		var here, there uint32
		if err := other.QueryRow(ctx, backendPidSQL, pgx.QueryExecModeSimpleProtocol).Scan(&there); err != nil {
			return fmt.Errorf("store: PostgreSQL cannot be reached: %w", err)
		}
		if err := conn.QueryRow(ctx, backendPidSQL, pgx.QueryExecModeSimpleProtocol).Scan(&here); err != nil {
			return fmt.Errorf("store: PostgreSQL cannot be reached: %w", err)
		}
		if here != first || here == there || second != 0 && there != second {
			return errors.New("store: a pooler in between gives one session's server to another (PgBouncer: pool_mode=transaction or statement); " +
				"core prepares statements and holds session locks, so connect it to PostgreSQL itself, or by pool_mode=session")
		}
		second = there
	}
	return nil
}

// checkDropped refuses a pooler that drops the settings that core asks for when it connects: with other
// plans core is many times slower once a table has been analyzed at a bad moment, and a core that hangs in a transaction
// would keep its locks.
func (s *Store) checkDropped(ctx context.Context) error {
	type setting struct{ Name, Setting string }
	wanted := plannerSettings()
	wanted[idleSetting] = idleTime
	rows, err := s.pool.Query(ctx, `SELECT name, setting FROM pg_settings WHERE name = ANY ($1)`, slices.Sorted(maps.Keys(wanted)))
	if err != nil {
		return fmt.Errorf("store: PostgreSQL cannot be reached: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[setting])
	if err != nil {
		return fmt.Errorf("store: PostgreSQL cannot be reached: %w", err)
	}
	var dropped []string
	for _, one := range found {
		if one.Setting != wanted[one.Name] {
			dropped = append(dropped, fmt.Sprintf("SET %s = '%s'", one.Name, wanted[one.Name]))
		}
	}
	if len(dropped) == 0 {
		return nil
	}
	slices.Sort(dropped)
	return fmt.Errorf("store: a pooler in between drops what core asks for; connect to PostgreSQL itself, or give the role these settings, "+
		"each by ALTER ROLE … : %s", strings.Join(dropped, "; "))
}
