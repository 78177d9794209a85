package caps

import "time"

// SetCheckTime changes the bound on the check of one count.
func (s *Counts) SetCheckTime(d time.Duration) { s.checkTime = d }

// PruneLogSQL removes rows of counts that are older than the newest.
const PruneLogSQL = pruneLogSQL

// Allowed, After and Burst are the rule of a rate.
func (r *Rate) Allowed(now, due time.Time) int64 { return r.allowed(now, due) }

// After is see Allowed.
func (r *Rate) After(now, due time.Time, n int64) time.Time { return r.after(now, due, n) }

// Burst is see Allowed.
func (r *Rate) Burst() int64 { return r.burst() }

// SmallestJob is what decides whether a cap may be full.
const MinJobSize = minJobSize

// Planned are statements with the indexes that their plans must use.
func Planned() map[string][]string {
	return map[string][]string{
		scanUserSQL:        {"jobs_by_user_id"},
		scanUserRunningSQL: {"jobs_by_user_id"},
		scanTenantSQL:      {"jobs_by_tenant"},
		scanRunningSQL:     {"jobs_running"},
		backfillSQL:        {"jobs_pkey"},
		dueCountsSQL:       {"usage_counts_due", "usage_counts_pkey"},
		storedCountsSQL:    {"usage_counts_pkey", "usage_log_pkey"},
		loggedCountsSQL:    {"usage_log_pkey"},
		pruneLogSQL:        {"usage_log_pkey"},
		pruneCreditsSQL:    {"usage_credits_by_key"},
		forgetLogSQL:       {"usage_log_pkey"},
		forgetCreditsSQL:   {"usage_credits_by_key"},
	}
}
