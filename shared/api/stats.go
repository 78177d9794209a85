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

// HopStats is where stats are read.
const HopStats = "/internal/v1/stats"

// HopStatsRequest asks for them; what is null or empty is its default.
type HopStatsRequest struct {
	Queue string `json:"queue,omitempty"`
	From  *Time  `json:"from" swaggertype:"string" format:"date-time"`
	To    *Time  `json:"to" swaggertype:"string" format:"date-time"`
	Step  string `json:"step,omitempty"`
}
