package stats

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// LaneRate is how fast jobs of a lane start in one core; Busy is of its queue.
type LaneRate struct {
	Lane lanes.ID
	Pace
}

// reportSQL stores a core's rates in the place of its last ones, and removes those of cores that are gone.
const reportSQL = `
WITH gone AS (
  SELECT core_id FROM start_rates
  WHERE core_id <> @core AND reported_at < statement_timestamp() - interval '1 minute'
  ORDER BY core_id
  LIMIT 100
  FOR UPDATE SKIP LOCKED
), removed AS (
  DELETE FROM start_rates WHERE core_id = ANY(ARRAY(SELECT core_id FROM gone))
)
INSERT INTO start_rates (core_id, reported_at, lanes, rates, busy)
VALUES (@core, statement_timestamp(), @lanes, @rates, @busy)
ON CONFLICT (core_id) DO UPDATE
SET reported_at = excluded.reported_at, lanes = excluded.lanes, rates = excluded.rates, busy = excluded.busy`

// ReportRates crosses tenants: it tells the other cores how fast jobs start in this one.
func (s *Stats) ReportRates(ctx context.Context, core uuid.UUID, report []LaneRate) error {
	lanes, rates, busy := make([]lanes.ID, len(report)), make([]float32, len(report)), make([]float32, len(report))
	for i, one := range report {
		lanes[i], rates[i], busy[i] = one.Lane, float32(one.PerSecond), float32(one.Busy)
	}
	err := store.Exec(store.WithClass(ctx, store.ClassLists), s.Store, reportSQL, store.Args{"core": core, "lanes": lanes, "rates": rates, "busy": busy})
	if err != nil {
		return fmt.Errorf("stats: report rates: %w", err)
	}
	return nil
}

// otherRatesSQL reads what the other cores have told lately. The order makes it a scan of the key's index.
const otherRatesSQL = `
SELECT lane, rate, busy
FROM (SELECT lanes, rates, busy AS busys FROM start_rates
      WHERE core_id <> @core AND reported_at > statement_timestamp() - interval '15 s'
      ORDER BY core_id
      LIMIT 100) AS reports
CROSS JOIN LATERAL unnest(lanes, rates, busys) AS one(lane, rate, busy)`

// OtherRates crosses tenants: it reads how fast jobs start in the other cores.
func (s *Stats) OtherRates(ctx context.Context, core uuid.UUID) ([]LaneRate, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rates, err := store.Query(ctx, s.Store, pgx.RowToStructByPos[LaneRate], otherRatesSQL, store.Args{"core": core})
	if err != nil {
		return nil, fmt.Errorf("stats: rates of other cores: %w", store.NotApplied(err))
	}
	return rates, nil
}
