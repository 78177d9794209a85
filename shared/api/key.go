package api

// How the jobs of a key start.
const (
	// KeyOrderNone is any order, KeyOrderFIFO one after the other as they were accepted.
	KeyOrderNone = "none"
	KeyOrderFIFO = "fifo"
	// KeySkip lets the next job of a key start when one became a dead letter, KeyHold waits until that one was redriven and
	// completed, or discarded.
	KeySkip = "skip"
	KeyHold = "hold"
	// MaxKeyLength bounds a key, in characters; MinKeyWeight and MaxKeyWeight its weight.
	MaxKeyLength = 128
	MinKeyWeight = 0.1
	MaxKeyWeight = 100
	// MaxCountedKeyJobs is where the counts of a key stop.
	MaxCountedKeyJobs = 10_000
)

// KeySettings are how the jobs of a queue start that have a key: those of each key for itself.
type KeySettings struct {
	// Fair says that keys take turns; otherwise all jobs of the queue start in the order in which they became ready.
	Fair bool `json:"fair"`
	// MaxRunning is how many jobs of a key run at once at most; null is no cap. With order fifo it is 1.
	MaxRunning *int64 `json:"max_running"`
	// RatePerSecond is how many jobs of a key start in a second at most, Burst how many at once after a pause; null is no rate,
	// and the rate rounded up.
	RatePerSecond *float64 `json:"rate_per_second"`
	Burst         *int64   `json:"burst"`
	// Order is none, or fifo: the jobs of a key run one after the other, in the order in which they were accepted.
	Order string `json:"order"`
	// OnDead is what a dead letter does to its key with order fifo: skip, the next job starts, or hold, none does until it was
	// redriven and completed, or discarded.
	OnDead string `json:"on_dead"`
}

// TakeTurns says whether keys take turns; nil are the defaults.
func (k *KeySettings) TakeTurns() bool { return k == nil || k.Fair }

// InForce are the settings with the defaults for nil.
func (k *KeySettings) InForce() KeySettings {
	if k == nil {
		return KeySettings{Fair: true, Order: KeyOrderNone, OnDead: KeySkip}
	}
	return *k
}

// KeySettingsRequest sets KeySettings; what is absent is the default.
type KeySettingsRequest struct {
	// Fair says that keys take turns; true if absent.
	Fair *bool `json:"fair,omitzero"`
	// MaxRunning is how many jobs of a key run at once at most; absent for no cap.
	MaxRunning *int64 `json:"max_running,omitzero"`
	// RatePerSecond is how many jobs of a key start in a second at most; absent for no rate. Burst is how many may start at once
	// after a pause; the rate rounded up if absent.
	RatePerSecond *float64 `json:"rate_per_second,omitzero"`
	Burst         *int64   `json:"burst,omitzero"`
	// Order is none or fifo; none if absent.
	Order *string `json:"order,omitzero"`
	// OnDead is skip or hold; skip if absent.
	OnDead *string `json:"on_dead,omitzero"`
}

// Settings are those that the request asks for; nil for the defaults.
func (k *KeySettingsRequest) Settings() *KeySettings {
	if k == nil {
		return nil
	}
	made := (*KeySettings)(nil).InForce()
	if k.Fair != nil {
		made.Fair = *k.Fair
	}
	made.MaxRunning, made.RatePerSecond, made.Burst = k.MaxRunning, k.RatePerSecond, k.Burst
	if k.Order != nil {
		made.Order = *k.Order
	}
	if k.OnDead != nil {
		made.OnDead = *k.OnDead
	}
	return &made
}

// Request is the request that sets these settings.
func (k *KeySettings) Request() *KeySettingsRequest {
	return &KeySettingsRequest{Fair: &k.Fair, MaxRunning: k.MaxRunning, RatePerSecond: k.RatePerSecond, Burst: k.Burst, Order: orNil(k.Order), OnDead: orNil(k.OnDead)}
}

var (
	keyOrders = []string{KeyOrderNone, KeyOrderFIFO}
	keyOnDead = []string{KeySkip, KeyHold}
)

func (k *KeySettingsRequest) rules(r refusals) {
	whole(r, "max_running", k.MaxRunning, 1, maxCount)
	r.above("rate_per_second", k.RatePerSecond, maxRate, "")
	whole(r, "burst", k.Burst, 1, maxCount)
	r.check(k.RatePerSecond != nil || k.Burst == nil, "burst", "can only be used with rate_per_second")
	r.words("order", k.Order, keyOrders)
	r.words("on_dead", k.OnDead, keyOnDead)
	fifo := k.Order != nil && *k.Order == KeyOrderFIFO
	r.check(!fifo || k.MaxRunning == nil || *k.MaxRunning == 1, "max_running", "must be 1 or absent with order %q", KeyOrderFIFO)
	r.check(fifo || k.OnDead == nil || *k.OnDead == KeySkip, "on_dead", "can only be %q with order %q", KeyHold, KeyOrderFIFO)
}

// QueueKey is a key of a queue with jobs that wait or run.
type QueueKey struct {
	Key string `json:"key"`
	// Waiting are its jobs that wait for others of the key, Ready those that the next free worker may take, Running those that
	// workers have. Counts stop at 10000.
	Waiting int64 `json:"waiting"`
	Ready   int64 `json:"ready"`
	Running int64 `json:"running"`
	// HeldBy is the dead letter that holds the key; null for none.
	HeldBy *string `json:"held_by"`
}
