package api

// Bounds of a Scale's parameters, in milliseconds.
const (
	DefaultTargetWaitMS = 30_000
	MaxTargetWaitMS     = 86_400_000
	MaxColdStartMS      = 86_400_000
)

// Scale is how many slots of workers a queue needs, so that jobs wait for at most about a target.
type Scale struct {
	// DesiredSlots is the number: for an autoscaler, which divides it by the slots of a worker.
	DesiredSlots int64 `json:"desired_slots"`
	Running      int64 `json:"running"`
	Queued       int64 `json:"queued"`
	// ArrivalsPerSecond is how many jobs were submitted in a second, over the last minute or five, whichever were more.
	ArrivalsPerSecond float64 `json:"arrivals_per_second"`
	// MeanRunMS is how long a job runs in all its attempts, over the last hour, or else the last day; null if none has ended.
	MeanRunMS *float64 `json:"mean_run_ms"`
	// Because says how the number comes about.
	Because string `json:"because"`
}
