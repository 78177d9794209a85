package api

// Steps of stats.
const (
	StepMinute = "minute"
	StepHour   = "hour"
	StepDay    = "day"
)

// MaxStatsItems is the most steps in one answer: two days of minutes.
const MaxStatsItems = 2880

// Stats are what a tenant's jobs did, by steps of time.
type Stats struct {
	From Time `json:"from" swaggertype:"string" format:"date-time"`
	To   Time `json:"to" swaggertype:"string" format:"date-time"`
	// Step is minute, hour or day.
	Step string `json:"step"`
	// Queue is null for all queues together.
	Queue *string `json:"queue"`
	// Items has one for each step, the oldest first.
	Items []StatsItem `json:"items"`
}

// StatsItem is what jobs did in one step.
type StatsItem struct {
	// At is when the step begins.
	At Time `json:"at" swaggertype:"string" format:"date-time"`
	// Submitted counts jobs that were accepted, Started attempts that were claimed.
	Submitted int64 `json:"submitted"`
	Started   int64 `json:"started"`
	Completed int64 `json:"completed"`
	// FailedAttempts counts attempts that failed, whose lease expired or that ran too long.
	FailedAttempts int64 `json:"failed_attempts"`
	// DeadLetter and Cancelled count jobs that ended so.
	DeadLetter int64 `json:"dead_letter"`
	Cancelled  int64 `json:"cancelled"`
	// WaitingMS is the time from ready to claimed, of the attempts that started. RunningMS is the time from claimed to
	// ended, of those that ended.
	WaitingMS int64 `json:"waiting_ms"`
	RunningMS int64 `json:"running_ms"`
}

// Bounds of TenantStats.
const (
	// MaxTenantStatsHours is the longest range.
	MaxTenantStatsHours = 24
	// MaxStatsTenants is how many tenants have their own counts.
	MaxStatsTenants = 8
)

// TenantStats are the attempts of all tenants, by steps of time: of those with the most, and of the others together.
type TenantStats struct {
	From Time `json:"from" swaggertype:"string" format:"date-time"`
	To   Time `json:"to" swaggertype:"string" format:"date-time"`
	// Step is minute, hour or day.
	Step string `json:"step"`
	// Tenants has at most 8 of those that had attempts started, the one with the most first.
	Tenants []StatsTenant `json:"tenants"`
	Others  StatsOthers   `json:"others"`
}

// StatsTenant are the attempts of one tenant.
type StatsTenant struct {
	TenantID string `json:"tenant_id"`
	Name     string `json:"name"`
	// Weight is what it is now.
	Weight int `json:"weight"`

	TenantAttempts
}

// StatsOthers are the attempts of all other tenants together.
type StatsOthers struct {
	// Tenants counts those that had attempts started, Weight is the sum of their weights.
	Tenants int   `json:"tenants"`
	Weight  int64 `json:"weight"`

	TenantAttempts
}

// TenantAttempts are attempts in the whole range, and by steps.
type TenantAttempts struct {
	// Started counts attempts that were claimed, Completed those that completed their job.
	Started   int64 `json:"started"`
	Completed int64 `json:"completed"`
	// RunningMS is the time from claimed to ended, of the attempts that ended.
	RunningMS int64 `json:"running_ms"`
	// Items has one for each step, the oldest first.
	Items []TenantStatsItem `json:"items"`
}

// TenantStatsItem is what attempts did in one step.
type TenantStatsItem struct {
	// At is when the step begins.
	At        Time  `json:"at" swaggertype:"string" format:"date-time"`
	Started   int64 `json:"started"`
	RunningMS int64 `json:"running_ms"`
}

// LimitStats are what was used of limits, by steps of time, and who was refused.
type LimitStats struct {
	From Time `json:"from" swaggertype:"string" format:"date-time"`
	To   Time `json:"to" swaggertype:"string" format:"date-time"`
	// Step is minute, hour or day.
	Step string `json:"step"`
	// Queue is null for the limits of the tenant, and of its users and keys.
	Queue *string `json:"queue"`
	// Limits has one for each limit that was asked for room, by its name.
	Limits []LimitHistory `json:"limits"`
	// Refused has who was refused the most, at most 20, the most refused first; of all queues, whatever Queue is.
	Refused []LimitRefusals `json:"refused"`
}

// LimitHistory is the use of one limit.
type LimitHistory struct {
	// Name is that of refusals, as in tenant-active for a cap and tenant-requests for a rate; those of users and keys
	// have all of them together.
	Name string `json:"name"`
	// Items has one for each step in which something asked for room, the oldest first.
	Items []LimitStatsItem `json:"items"`
}

// LimitStatsItem is the use of a limit in one step.
type LimitStatsItem struct {
	// At is when the step begins.
	At Time `json:"at" swaggertype:"string" format:"date-time"`
	// Used is the largest use of a cap in the step, of one user where there are several; of a rate it is how much was
	// admitted, to all users or keys together. Limit is the largest limit; of a tenant's rate what that is in the step, and
	// 0 for a rate that each user or key has for itself.
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
	// Refused counts jobs, or requests.
	Refused int64 `json:"refused"`
}

// LimitRefusals is what one limit refused.
type LimitRefusals struct {
	Name string `json:"name"`
	// Whose is the user, the key or the queue whose limit it is; null for the tenant.
	Whose   *string `json:"whose"`
	Refused int64   `json:"refused"`
	// LastAt is when the last of the minutes or hours began in which something was refused.
	LastAt Time `json:"last_at" swaggertype:"string" format:"date-time"`
}
