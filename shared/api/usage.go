package api

// What usage is summed by.
const (
	ByDay  = "day"
	ByType = "type"
	ByUser = "user"
)

// MaxUsageDays is the longest range of usage, in days.
const MaxUsageDays = 366

// MaxOpenRows is how many rows of each kind are counted of days that are not closed.
const MaxOpenRows = 10_000

// Usage are exact counts of a tenant's jobs, by day, type or user.
type Usage struct {
	// From and To are the first and the last day, such as 2026-11-24.
	From string `json:"from" format:"date"`
	To   string `json:"to" format:"date"`
	By   string `json:"by"`
	// Begins is the first day of which there are numbers; ClosedThrough is the last day whose numbers are final.
	Begins        string `json:"begins" format:"date"`
	ClosedThrough string `json:"closed_through" format:"date"`
	// Capped says that a day that is not closed has more jobs than were counted.
	Capped bool        `json:"capped"`
	Items  []UsageItem `json:"items"`
	// NextPageToken is null at the end, and always by day.
	NextPageToken *string `json:"next_page_token"`
}

// UsageItem is the usage of a day, a type or a user; the other two are null. A null user by user stands for jobs without
// one.
type UsageItem struct {
	Day  *string `json:"day" format:"date"`
	Type *string `json:"type"`
	User *string `json:"user"`
	// Open says that a day of it is not closed: these numbers may grow.
	Open bool `json:"open"`
	// Accepted counts jobs that were submitted.
	Accepted int64 `json:"accepted"`
	// Completed, DeadLetter and Cancelled count jobs that ended so, Redriven dead letters that became live jobs again,
	// Discarded dead letters that were deleted, by request or after their retention.
	Completed  int64 `json:"completed"`
	DeadLetter int64 `json:"dead_letter"`
	Redriven   int64 `json:"redriven"`
	Cancelled  int64 `json:"cancelled"`
	Discarded  int64 `json:"discarded"`
	// RunningMS is the time from started_at to finished_at of the completed jobs.
	RunningMS int64 `json:"running_ms"`
	// FailedRunningMS is the time from started_at to the end of the attempts that failed, in any job: by their worker's
	// report, or because their lease or their time ended. Attempts that were given back or cancelled are in neither.
	FailedRunningMS int64 `json:"failed_running_ms"`
}
