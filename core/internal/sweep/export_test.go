package sweep

import "time"

// Answered sets when PostgreSQL last answered, and since when without an outage.
func (w *Workers) Answered(last, since time.Time) { w.answered, w.since = last, since }
