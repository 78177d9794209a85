package caps

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// checkTime bounds the check of one count.
const checkTime = 5 * time.Second

// CheckUncounted is the check for jobs that are not in a settled count to which they belong.
const CheckUncounted = "uncounted"

// ErrCheckTime says that a count has more jobs than can be counted within seconds.
var ErrCheckTime = errors.New("caps: the count has too many jobs to be checked in time")

// checkSQL compares a count with its jobs, in one snapshot: exact at any load. The jobs are scanned
// by an index for the kind of count.
const checkSQL = `
SELECT stored.used, stored.settled, found.counted, found.uncounted
FROM (` + readUsageSQL + `) AS stored CROSS JOIN (
  SELECT count(*) FILTER (WHERE counted & @counter::smallint <> 0) AS counted,
         count(*) FILTER (WHERE counted & @counter::smallint = 0)  AS uncounted
  FROM jobs WHERE `

// jobsOf is the condition for the jobs that belong to a count.
func jobsOf(counter Counter) string {
	return map[Counter]string{
		ActiveTenant:  `tenant_id = @tenant_id AND ` + tenant.OwnQueueSQL,
		ActiveUser:    `tenant_id = @tenant_id AND user_id = @name`,
		ActiveQueue:   `tenant_id = @tenant_id AND queue = @name`,
		RunningTenant: `state = 'running' AND tenant_id = @tenant_id AND ` + tenant.OwnQueueSQL,
		// By the index of the user's jobs, which are few, and not by that of all running jobs.
		RunningUser:  `state || '' = 'running' AND tenant_id = @tenant_id AND user_id = @name`,
		RunningQueue: `state = 'running' AND tenant_id = @tenant_id AND queue = @name`,
		RunningType:  `state = 'running' AND tenant_id = @tenant_id AND queue || '/' || type = @name`,
		RunningAll:   `state = 'running' AND ` + tenant.OwnQueueSQL,
	}[counter]
}

// checkArgs are the arguments of checkSQL with the condition of the counter.
func checkArgs(key CountKey) store.Args {
	args := countArgs([]CountKey{key})
	args["counter"] = int16(key.Counter)
	if key.Counter != RunningAll {
		args["tenant_id"] = key.Tenant
	}
	if key.Counter&(ActiveUser|ActiveQueue|RunningUser|RunningQueue|RunningType) != 0 {
		args["name"] = key.Name
	}
	return args
}

// CheckCounts compares counts of any tenants with their jobs, in order, until the time is over. One
// caller at a time does it, in all cores together; checked is how many of the keys were checked,
// none if another caller is running. The error is ErrCheckTime if the key after those takes too
// long.
func (s *Counts) CheckCounts(ctx context.Context, keys []CountKey, within time.Duration) (drifts []Drift, checked int, err error) {
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		var free bool
		lock := store.Args{"lock": s.LockKey(store.LockCheck, tenant.Platform)}
		if err := tx.QueryRow(ctx, store.TryHoldSQL, lock).Scan(&free); err != nil || !free {
			return err
		}
		limit := store.Args{"timeout": strconv.FormatInt(s.checkTime.Milliseconds(), 10)}
		if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', @timeout, true)`, limit); err != nil {
			return err
		}
		begun := time.Now()
		for _, key := range keys {
			found, err := check(ctx, tx, key)
			if err != nil {
				return err
			}
			drifts = append(drifts, found...)
			if checked++; time.Since(begun) > within {
				break
			}
		}
		return nil
	})
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "57014" {
		return drifts, checked, ErrCheckTime
	}
	if err != nil {
		return drifts, checked, fmt.Errorf("caps: check counts: %w", store.NotApplied(err))
	}
	return drifts, checked, nil
}

func check(ctx context.Context, tx pgx.Tx, key CountKey) (drifts []Drift, err error) {
	var used, counted, uncounted int64
	var settled bool
	row := tx.QueryRow(ctx, checkSQL+jobsOf(key.Counter)+`) AS found`, checkArgs(key))
	if err := row.Scan(&used, &settled, &counted, &uncounted); err != nil {
		return nil, err
	}
	if used != counted {
		drifts = append(drifts, Drift{Check: "count", Key: key, Stored: used, Found: counted})
	}
	if settled && uncounted > 0 {
		drifts = append(drifts, Drift{Check: CheckUncounted, Key: key, Found: uncounted})
	}
	return drifts, nil
}
