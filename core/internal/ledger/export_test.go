package ledger

// NextDaySQL is the statement that decides whether a day can be closed.
const NextDaySQL = nextDaySQL

// Planned are statements with the indexes that their plans must use.
func Planned() map[string][]string {
	return map[string][]string{
		byDaySQL:  {"ledger_pkey", "jobs_by_tenant", "dead_letters_by_tenant", "ledger_entries_by_tenant"},
		byNameSQL: {"ledger_pkey", "jobs_by_tenant", "dead_letters_by_tenant", "ledger_entries_by_tenant"},
	}
}
