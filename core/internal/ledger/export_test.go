package ledger

// HeldSQL is the statement that decides whether a day that is over can be closed.
const HeldSQL = heldSQL

// Planned are statements with the indexes that their plans must use.
func Planned() map[string][]string {
	return map[string][]string{
		byDaySQL:  {"ledger_pkey", "jobs_by_tenant", "dead_letters_by_tenant", "ledger_entries_by_tenant"},
		byNameSQL: {"ledger_pkey", "jobs_by_tenant", "dead_letters_by_tenant", "ledger_entries_by_tenant"},
	}
}
