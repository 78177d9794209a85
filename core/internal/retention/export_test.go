package retention

// Planned are statements with the indexes that their plans must use.
func Planned() map[string][]string {
	return map[string][]string{
		forgetAuditSQL:    {"audit_log_by_age", "audit_log_pkey"},
		forgetRedrivesSQL: {"redrives_by_end", "redrives_pkey"},
		forgetRunsSQL:     {"schedule_runs_by_age", "Tid Scan"},
	}
}
