package audit

// Planned are statements with the indexes that their plans must use.
func Planned() map[string][]string {
	return map[string][]string{
		auditOfTenantSQL: {"audit_log_by_tenant"},
		auditOfAllSQL:    {"audit_log_pkey"},
	}
}
