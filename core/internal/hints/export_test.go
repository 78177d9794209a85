package hints

// Since is when the hints of other cores began to arrive, in Unix nanoseconds; zero while they do not.
func (h *Hints) Since() int64 { return h.since.Load() }
