package stats

// MaxKeys is the bound of a JobRecorder.
const MaxKeys = maxKeys

// MaxNames is a tenant's bound of a LimitRecorder.
const MaxNames = maxNames

// Planned are statements with the indexes that their plans must use.
func Planned() map[string][]string {
	jobs, limits := jobStats(), limitStats()
	return map[string][]string{
		readSQL:            {"job_stats_by_queue"},
		readTenantsSQL:     {"job_stats_of_tenants"},
		jobs.rollUpSQL():   {"job_stats_by_age", "Tid Scan"},
		jobs.forgetSQL():   {"job_stats_by_age", "Tid Scan"},
		readLimitsSQL:      {"limit_stats_by_name"},
		readRefusedSQL:     {"limit_stats_refused"},
		limits.rollUpSQL(): {"limit_stats_by_age", "Tid Scan"},
		limits.forgetSQL(): {"limit_stats_by_age", "Tid Scan"},
	}
}

// Total is the sum of all rows that would be appended for a tenant's queue; "" is the tenant's own.
func Total(pending Pending, queue string) (total Counts, rows int) {
	for _, one := range rowsOf(pending) {
		if one.Name == queue {
			total.add(one.Counts)
			rows++
		}
	}
	return total, rows
}

// Events is how many events are pending.
func Events(pending Pending) (n int64) {
	for _, counts := range pending {
		n += counts.events()
	}
	return n
}
