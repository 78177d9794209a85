package deadletter

// Planned are statements with the indexes that their plans must use.
func Planned() map[string][]string {
	return map[string][]string{
		countMatchingSQL:   {"dead_letters_by_tenant"},
		groupsSQL:          {"dead_letters_by_tenant", "dead_letters_pkey"},
		scanDeadSQL:        {"dead_letters_by_tenant"},
		discardMatchingSQL: {"dead_letters_pkey"},
		lockDeadSQL:        {"dead_letters_pkey", "jobs_dedupe"},
		discardSQL:         {"dead_letters_pkey"},
		countDeadSQL:       {"dead_letters_pkey"},
		cancelRedriveSQL:   {"redrives_", "redrive_samples_pkey"},
		chooseSampleSQL:    {"dead_letters_by_tenant"},
		readSampleSQL:      {"redrive_samples_pkey", "jobs_pkey", "dead_letters_pkey"},
		writeSampleSQL:     {"redrive_samples_pkey"},
		dropSampleSQL:      {"redrive_samples_pkey"},
		failRedriveSQL:     {"redrives_pkey"},
		redriveSQL:         {"dead_letters_pkey"},
		dueRedrivesSQL:     {"redrives_next"},
		nextRedriveSQL:     {"redrives_next"},
		lockRedriveSQL:     {"redrives_pkey"},
		progressSQL:        {"redrives_pkey"},
		createRedriveSQL:   {"redrives_unfinished"},
		listRedrivesSQL:    {"redrives_by_tenant"},
	}
}
