package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// daysAhead is how many days of partitions lie ready: a core may be down for
// that long before an outcome finds no place.
const daysAhead = 7

// partitioned names the tables that are kept by day, with the column that decides.
func partitioned() []string { return []string{FinishedJobs, Attempts} }

const partitionExistsSQL = `SELECT to_regclass(@name) IS NOT NULL`

const todaySQL = `SELECT date_trunc('day', statement_timestamp() AT TIME ZONE 'UTC')`

// MakePartitions makes the partitions of yesterday (a clock may step back) to
// seven days ahead that are missing. One caller at a time does it, by an advisory
// lock; a repeat finds nothing to do.
func (s *Store) MakePartitions(ctx context.Context) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		key := pgx.StrictNamedArgs{"key": lockKey(lockPartitions, tenant.Platform)}
		if _, err := tx.Exec(ctx, advisoryLockSQL, key); err != nil {
			return err
		}
		var today time.Time
		if err := tx.QueryRow(ctx, todaySQL).Scan(&today); err != nil {
			return err
		}
		for _, table := range partitioned() {
			for day := -1; day <= daysAhead; day++ {
				if err := makePartition(ctx, tx, table, today.AddDate(0, 0, day)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("queue: partitions: %w", err)
	}
	return nil
}

// makePartition makes one day's table and attaches it. LIKE and ATTACH instead of
// CREATE … PARTITION OF, which would lock the parent against everybody's inserts.
func makePartition(ctx context.Context, tx pgx.Tx, table string, day time.Time) error {
	name := table + "_" + day.Format("20060102")
	var exists bool
	if err := tx.QueryRow(ctx, partitionExistsSQL, pgx.StrictNamedArgs{"name": name}).Scan(&exists); err != nil || exists {
		return err
	}
	from, to := day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly)
	// Names and dates are made here, of letters, digits and dashes: DDL takes no parameters.
	for _, statement := range []string{
		fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING ALL)`, name, table),
		fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('%s 00:00:00+00') TO ('%s 00:00:00+00')`, table, name, from, to),
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
