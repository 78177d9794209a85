package drain

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Report is what one core tells the others.
type Report struct {
	Lanes []LaneRate
	Users []UserRate
}

// LaneRate is how many jobs of a lane start in a second in one core, Busy the part of the time in which jobs waited in
// its queue.
type LaneRate struct {
	Lane            lanes.ID
	PerSecond, Busy float64
	BusyKnown       bool
}

// UserRate is how many jobs of a user start in a second in one core.
type UserRate struct {
	UserKey
	PerSecond float64
}

// Reports has the statements. They cross tenants: a report is about all that its core starts.
type Reports struct{ *store.Store }

// othersSQL are the reports of the other cores that are not too old. The order makes it a scan of the key's index.
const othersSQL = `
SELECT lanes, rates, busy, busy_known, user_tenants, user_names, user_rates
FROM drain_reports
WHERE core_id <> @core AND reported_at > statement_timestamp() - interval '15 s'
ORDER BY core_id
LIMIT 100`

// reportSQL stores a core's report in the place of its last one, removes those of cores that are gone, and reads those of
// the others.
const reportSQL = `
WITH gone AS MATERIALIZED (
  SELECT core_id FROM drain_reports
  WHERE core_id <> @core AND reported_at < statement_timestamp() - interval '1 minute'
  ORDER BY core_id
  LIMIT 100
  FOR UPDATE SKIP LOCKED
), removed AS (
  DELETE FROM drain_reports WHERE core_id = ANY(ARRAY(SELECT core_id FROM gone))
), stored AS (
INSERT INTO drain_reports (core_id, reported_at, lanes, rates, busy, busy_known, user_tenants, user_names, user_rates)
VALUES (@core, statement_timestamp(), @lanes, @rates, @busy, @busy_known, @user_tenants, @user_names, @user_rates)
ON CONFLICT (core_id) DO UPDATE
SET reported_at = excluded.reported_at, lanes = excluded.lanes, rates = excluded.rates, busy = excluded.busy, busy_known = excluded.busy_known,
    user_tenants = excluded.user_tenants, user_names = excluded.user_names, user_rates = excluded.user_rates
)` + othersSQL

// ReportDrain stores a core's report, and reads those of the others.
func (s *Reports) ReportDrain(ctx context.Context, core uuid.UUID, report Report) ([]Report, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	lanes, rates, busy, busyKnown := make([]lanes.ID, len(report.Lanes)), make([]float32, len(report.Lanes)), make([]float32, len(report.Lanes)), make([]bool, len(report.Lanes))
	for i, one := range report.Lanes {
		lanes[i], rates[i], busy[i], busyKnown[i] = one.Lane, float32(one.PerSecond), float32(one.Busy), one.BusyKnown
	}
	tenants, names, userRates := make([]tenant.ID, len(report.Users)), make([]string, len(report.Users)), make([]float32, len(report.Users))
	for i, one := range report.Users {
		tenants[i], names[i], userRates[i] = one.Tenant, one.User, float32(one.PerSecond)
	}
	others, err := store.Query(ctx, s.Store, scanReport, reportSQL, store.Args{
		"core": core, "lanes": lanes, "rates": rates, "busy": busy, "busy_known": busyKnown, "user_tenants": tenants, "user_names": names, "user_rates": userRates,
	})
	if err != nil {
		return nil, fmt.Errorf("drain: report: %w", store.NotApplied(err))
	}
	return others, nil
}

// DrainReports reads the reports of the other cores.
func (s *Reports) DrainReports(ctx context.Context, core uuid.UUID) ([]Report, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	reports, err := store.Query(ctx, s.Store, scanReport, othersSQL, store.Args{"core": core})
	if err != nil {
		return nil, fmt.Errorf("drain: reports: %w", store.NotApplied(err))
	}
	return reports, nil
}

func scanReport(row pgx.CollectableRow) (report Report, err error) {
	var lanes []lanes.ID
	var rates, busy, userRates []float32
	var busyKnown []bool
	var tenants []tenant.ID
	var names []string
	if err := row.Scan(&lanes, &rates, &busy, &busyKnown, &tenants, &names, &userRates); err != nil {
		return report, err
	}
	for i := range min(len(lanes), len(rates), len(busy), len(busyKnown)) {
		report.Lanes = append(report.Lanes, LaneRate{Lane: lanes[i], PerSecond: float64(rates[i]), Busy: float64(busy[i]), BusyKnown: busyKnown[i]})
	}
	for i := range min(len(tenants), len(names), len(userRates)) {
		report.Users = append(report.Users, UserRate{UserKey: UserKey{tenants[i], names[i]}, PerSecond: float64(userRates[i])})
	}
	return report, nil
}
