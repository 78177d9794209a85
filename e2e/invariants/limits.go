package invariants

import (
	"cmp"
	"slices"
	"time"
)

// Bucket is a limit that the run was under.
type Bucket struct {
	Tenant string
	// Rate is in jobs a second, Burst in jobs.
	Rate  float64
	Burst int
	// Losses are when Redis was lost, flushed, or came back: each allows one burst more
	// for each of the Gateways.
	Losses   []time.Time
	Gateways int
}

// lossLasts is how long after a loss, or before it was noted, its bursts may show.
const lossLasts = 2 * time.Second

// extra is what the losses that touch a window allow.
func (b Bucket) extra(start, end time.Time) int {
	n := 0
	for _, loss := range b.Losses {
		if loss.After(start.Add(-lossLasts)) && loss.Before(end.Add(lossLasts)) {
			n++
		}
	}
	return n * b.Gateways * b.Burst
}

// maxWindows bounds how many starts of windows are looked at: all of them in runs
// of up to this many admissions, evenly spread ones beyond.
const maxWindows = 4000

// Limited is I8: in every window no more was admitted than burst + rate·Δt + 1 and
// what losses allow. An admission happened somewhere between the request and its
// answer, so a window surely holds those that lie in it as a whole.
func Limited(h History, db Database) []string {
	v := violations{name: "I8"}
	for _, bucket := range db.Buckets {
		var admitted []Event
		for i := range h.Events {
			if e := &h.Events[i]; e.Op == OpSubmit && e.OK() && e.Tenant == bucket.Tenant {
				admitted = append(admitted, *e)
			}
		}
		bucket.check(&v, admitted)
	}
	return v.list()
}

func (b Bucket) check(v *violations, admitted []Event) {
	slices.SortFunc(admitted, func(a, b Event) int { return a.Done.Compare(b.Done) })
	starts := make([]time.Time, len(admitted))
	for i := range admitted {
		starts[i] = admitted[i].Sent
	}
	slices.SortFunc(starts, time.Time.Compare)
	stride := max(1, (len(starts)+maxWindows-1)/maxWindows)
	for i := 0; i < len(starts); i += stride {
		worst, at := 0.0, time.Time{}
		n := 0
		for _, e := range admitted {
			if e.Sent.Before(starts[i]) {
				continue
			}
			n++
			allowed := float64(b.Burst+b.extra(starts[i], e.Done)+1) + b.Rate*e.Done.Sub(starts[i]).Seconds()
			if over := float64(n) - allowed; cmp.Compare(over, worst) > 0 {
				worst, at = over, e.Done
			}
		}
		if worst > 0 {
			v.add("tenant %s: %.1f over rate %v, burst %d and %d extra in the %v from %s",
				b.Tenant, worst, b.Rate, b.Burst, b.extra(starts[i], at), at.Sub(starts[i]), starts[i].Format("05.000"))
		}
	}
}
