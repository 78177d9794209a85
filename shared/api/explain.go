package api

// Codes of reasons why a job waits, or no longer does.
const (
	WhyTime            = "time"
	WhySignal          = "signal"
	WhyParents         = "parents"
	WhyPaused          = "paused"
	WhyWindow          = "window"
	WhyRunningCap      = "running_cap"
	WhyRate            = "rate"
	WhyKeyCap          = "key_cap"
	WhyKeyOrder        = "key_order"
	WhyKeyRate         = "key_rate"
	WhyBudget          = "budget"
	WhyNoWorker        = "no_worker"
	WhyTags            = "tags"
	WhyBreaker         = "breaker"
	WhyInLine          = "in_line"
	WhyRunning         = "running"
	WhyWorkerStale     = "worker_stale"
	WhyCancelRequested = "cancel_requested"
	WhyEnded           = "ended"
)

// What a limit applies to.
const (
	OfTenant       = "tenant"
	OfUser         = "user"
	OfQueue        = "queue"
	OfType         = "type"
	OfInstallation = "installation"
)

// MaxCountedAhead is where the jobs ahead of another are no longer counted.
const MaxCountedAhead = 10_000

// Explanation is why a job waits, as the scheduler sees it now.
type Explanation struct {
	State string `json:"state"`
	// Because has all reasons that hold now; a waiting job starts when none but in_line is left.
	Because []Reason `json:"because"`
	// Ahead is null unless the job is queued.
	Ahead *Ahead `json:"ahead"`
	// Estimate is null where it is not known.
	Estimate *Estimate `json:"estimate"`
	// Job and Attempts are the job and its first attempts, at most MaxPageSize, where the details were asked for; else absent.
	Job      *Job      `json:"job,omitzero"`
	Attempts []Attempt `json:"attempts,omitzero"`
}

// Reason is one reason.
type Reason struct {
	Code string `json:"code"`
	// Detail says it in a sentence, and Frees what ends it.
	Detail string `json:"detail"`
	Frees  string `json:"frees"`
	// Limit and Current are a cap's and its use, or the parents and those that have not ended; null for other codes.
	Limit   *int64 `json:"limit"`
	Current *int64 `json:"current"`
	// Of is what a cap or rate applies to: tenant, user, queue, type or installation; null for other codes.
	Of *string `json:"of"`
	// Until is when the reason ends by itself; null if that is not known.
	Until *Time `json:"until" swaggertype:"string" format:"date-time"`
}

// Ahead are the jobs of the same queue, type and tags that are claimed before.
type Ahead struct {
	Count int64 `json:"count"`
	// Capped says that there are more than counted.
	Capped bool `json:"capped"`
}

// Estimate is when a job is likely to start.
type Estimate struct {
	StartsInMS int64 `json:"starts_in_ms"`
	// DrainPerSecond is how many jobs of its line start in a second: of its lane, and of those of its queue that share its
	// workers.
	DrainPerSecond float64 `json:"drain_per_second"`
}
