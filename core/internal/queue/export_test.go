package queue

import (
	"time"
)

// SetCheckTime changes the bound on the look at one count.
func (s *Store) SetCheckTime(d time.Duration) { s.checkTime = d }

// PruneLogSQL removes rows of counts that are older than the newest.
const PruneLogSQL = pruneLogSQL

// Allowed, After and Burst are the rule of a rate.
func (r *Rate) Allowed(now, due time.Time) int64 { return r.allowed(now, due) }

// After is see Allowed.
func (r *Rate) After(now, due time.Time, n int64) time.Time { return r.after(now, due, n) }

// Burst is see Allowed.
func (r *Rate) Burst() int64 { return r.burst() }

// Planned are statements over counts, dead letters, redrives and the audit log, each with the
// indexes that its plan must use.
func Planned() map[string][]string {
	return map[string][]string{
		walkUserSQL:        {"jobs_by_user_id"},
		walkUserRunningSQL: {"jobs_by_user_id"},
		walkTenantSQL:      {"jobs_by_tenant"},
		walkRunningSQL:     {"jobs_running"},
		adoptSQL:           {"jobs_pkey"},
		dueCountsSQL:       {"usage_counts_due", "usage_counts_pkey"},
		keptCountsSQL:      {"usage_counts_pkey", "usage_log_pkey"},
		bookedSQL:          {"usage_log_pkey"},
		pruneLogSQL:        {"usage_log_pkey"},
		pruneCreditsSQL:    {"usage_credits_by_key"},
		forgetLogSQL:       {"usage_log_pkey"},
		forgetCreditsSQL:   {"usage_credits_by_key"},
		countMatchingSQL:   {"dead_letters_by_tenant"},
		groupsSQL:          {"dead_letters_by_tenant", "dead_letters_pkey"},
		walkDeadSQL:        {"dead_letters_by_tenant"},
		lockMatchingSQL:    {"dead_letters_pkey", "jobs_dedupe"},
		discardMatchingSQL: {"dead_letters_pkey"},
		lockDeadSQL:        {"dead_letters_pkey"},
		discardSQL:         {"dead_letters_pkey"},
		countDeadSQL:       {"dead_letters_pkey"},
		cancelRedriveSQL:   {"redrives_"},
		failRedriveSQL:     {"redrives_pkey"},
		redriveSQL:         {"dead_letters_pkey"},
		dueRedrivesSQL:     {"redrives_due"},
		nextRedriveSQL:     {"redrives_due"},
		lockRedriveSQL:     {"redrives_pkey"},
		progressSQL:        {"redrives_pkey"},
		createRedriveSQL:   {"redrives_running"},
		listRedrivesSQL:    {"redrives_by_tenant"},
		auditOfTenantSQL:   {"audit_log_by_tenant"},
		auditOfAllSQL:      {"audit_log_pkey"},
		forgetAuditSQL:     {"audit_log_by_age", "audit_log_pkey"},
		forgetRedrivesSQL:  {"redrives_by_end", "redrives_pkey"},
	}
}

// SmallestJob is what decides whether a cap may be full.
const SmallestJob = smallestJob
