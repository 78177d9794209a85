package invariants

import (
	"cmp"
	"slices"
	"time"
)

// Contest is a time in which tenants wanted more of the same workers than there was.
type Contest struct {
	// Weights are of the tenants that had jobs waiting from From to Until.
	Weights     map[string]int
	From, Until time.Time
	// Window is how long shares are looked at, one window after the other; 0 is all of
	// the time at once.
	Window time.Duration
	// Quiet are tenants that submitted a job now and then, each alone.
	Quiet []string
	// Round is how many jobs all of the workers ask for at once.
	Round int
}

const (
	// unfair is how far a share may be from what its tenant's weight makes it.
	unfair = 0.1
	// fairLeast is how many jobs of a tenant a window has to promise for a tenth of
	// them to say something: less than that is no contest.
	fairLeast = 100
)

// Turn is how many jobs of others, of the quiet ones too, who weigh 1, may be handed
// out between two of a tenant that always wants more. Shares are dealt out by level, the
// jobs that a tenant has had by its weight, and who is lowest is next: levels of those
// that want stay within about one of each other, so that each of the others has two times
// its weight at most until one is next again.
func (c Contest) Turn() int { return 2 * (c.weights() + max(len(c.Quiet)-1, 0)) }

// Fair is I12: tenants under saturation get shares by their weights within ±10 %, and
// a tenant with one job behind all of theirs, who had none for a turn, waits for one
// round. One who comes right back is not quiet: he waits for his turn. A contest that
// shows nothing, because somebody had nothing to wait for or hardly a job was
// claimed, violates it too.
func Fair(h History, db Database) []string {
	v := violations{name: "I12"}
	for _, contest := range db.Contests {
		claims := h.handed()
		contest.backlogs(&v, h, claims)
		window := contest.Window
		if window <= 0 {
			window = contest.Until.Sub(contest.From)
		}
		windows := 0
		for from := contest.From; window > 0 && !from.Add(window).After(contest.Until); from = from.Add(window) {
			windows++
			contest.shares(&v, claims, from, from.Add(window))
		}
		if windows == 0 {
			v.add("a contest of %v is shorter than its window of %v", contest.Until.Sub(contest.From), window)
		}
		contest.rounds(&v, h, claims)
	}
	return v.list()
}

// handed are the jobs that were claimed, each as often as it was, by when the claims
// were answered.
func (h History) handed() []*Event {
	var all []*Event
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == OpClaim && e.Job != "" {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b *Event) int { return a.Done.Compare(b.Done) })
	return all
}

// backlogs looks whether every tenant surely had a job waiting at the contest's end:
// more were accepted before it began than had been claimed, by anyone, when it ended.
func (c Contest) backlogs(v *violations, h History, claims []*Event) {
	waiting := map[string]map[string]bool{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Op != OpSubmit || !e.OK() || e.Job == "" || e.Done.After(c.From) {
			continue
		}
		if waiting[e.Tenant] == nil {
			waiting[e.Tenant] = map[string]bool{}
		}
		waiting[e.Tenant][e.Job] = true
	}
	for _, e := range claims {
		if e.Sent.Before(c.Until) {
			delete(waiting[e.Owner], e.Job)
		}
	}
	for tenant := range c.Weights {
		if len(waiting[tenant]) == 0 {
			v.add("no contest: tenant %s had no job left of those that waited at its start", tenant)
		}
	}
}

// shares looks at one window. A claim happened between its request and its answer,
// so it surely belongs to a window that holds both.
func (c Contest) shares(v *violations, claims []*Event, from, until time.Time) {
	got, all := c.count(claims, from, until)
	weights := c.weights()
	for tenant, weight := range c.Weights {
		due := float64(all) * float64(weight) / float64(weights)
		switch ratio := float64(got[tenant]) / due; {
		case due < fairLeast:
			v.add("no contest: of %d jobs claimed in %v only %.0f are due to tenant %s", all, until.Sub(from), due, tenant)
		case ratio < 1-unfair || ratio > 1+unfair:
			v.add("tenant %s with weight %d of %d got %d of %d jobs in the %v from %s: %.2f of its share",
				tenant, weight, weights, got[tenant], all, until.Sub(from), from.Format("05.000"), ratio)
		}
	}
}

// quietJob is a job of a quiet tenant, and by how many it was surely overtaken.
type quietJob struct {
	submit    *Event
	claimed   bool
	overtaken int
	// rested says that a turn was surely handed out since the tenant's last one.
	rested bool
}

// quietJobs looks at each job of a quiet tenant: what was asked for after it was
// accepted, and answered before somebody asked who then got it, has overtaken it.
func (c Contest) quietJobs(h History, claims []*Event, quiet string) []quietJob {
	first := map[string]*Event{}
	var own []*Event // in the order of their answers
	for _, e := range claims {
		if e.Owner != quiet {
			continue
		}
		own = append(own, e)
		if before := first[e.Job]; before == nil || e.Sent.Before(before.Sent) {
			first[e.Job] = e
		}
	}
	var jobs []quietJob
	for i := range h.Events {
		submit := &h.Events[i]
		if submit.Op != OpSubmit || submit.Tenant != quiet || !submit.OK() || submit.Job == "" ||
			submit.Sent.Before(c.From) || submit.Done.After(c.Until) {
			continue
		}
		one, until := quietJob{submit: submit}, c.Until
		if claim := first[submit.Job]; claim != nil && claim.Sent.Before(until) {
			one.claimed, until = true, claim.Sent
		}
		one.overtaken = overtaken(claims, submit.Done, until)
		rests := c.From
		for _, e := range slices.Backward(own) {
			if e.Sent.Before(submit.Sent) {
				rests = later(rests, e.Done)
				break
			}
		}
		one.rested = overtaken(claims, rests, submit.Sent) >= c.Turn()
		jobs = append(jobs, one)
	}
	return jobs
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (c Contest) rounds(v *violations, h History, claims []*Event) {
	for _, quiet := range c.Quiet {
		rested := 0
		for _, one := range c.quietJobs(h, claims, quiet) {
			most, what := c.Round, "a round"
			if one.rested {
				rested++
			} else {
				most, what = c.Round+c.Turn(), "without a rest a turn and a round"
			}
			if one.overtaken > most {
				v.add("job %s of the quiet tenant %s was overtaken by %d jobs (it was claimed in time: %v); %s is %d",
					one.submit.Job, quiet, one.overtaken, one.claimed, what, most)
			}
		}
		if rested == 0 {
			v.add("no contest: the quiet tenant %s submitted nothing after a rest", quiet)
		}
	}
}

// Overtaken is how many jobs quiet tenants submitted after a rest, and by how many the
// unluckiest of them was overtaken.
func (c Contest) Overtaken(h History) (jobs, worst int) {
	claims := h.handed()
	for _, quiet := range c.Quiet {
		for _, one := range c.quietJobs(h, claims, quiet) {
			if one.rested {
				jobs++
				worst = max(worst, one.overtaken)
			}
		}
	}
	return jobs, worst
}

// overtaken counts the claims, in the order of their answers, that lie in a time as a
// whole.
func overtaken(claims []*Event, from, until time.Time) int {
	at, _ := slices.BinarySearchFunc(claims, from, func(e *Event, from time.Time) int {
		return cmp.Or(e.Done.Compare(from), -1)
	})
	n := 0
	for ; at < len(claims) && !claims[at].Done.After(until); at++ {
		if !claims[at].Sent.Before(from) {
			n++
		}
	}
	return n
}

func (c Contest) count(claims []*Event, from, until time.Time) (got map[string]int, all int) {
	got = map[string]int{}
	for _, e := range claims {
		if c.Weights[e.Owner] > 0 && !e.Sent.Before(from) && !e.Done.After(until) {
			got[e.Owner]++
			all++
		}
	}
	return got, all
}

func (c Contest) weights() int {
	sum := 0
	for _, weight := range c.Weights {
		sum += weight
	}
	return sum
}

// Shares are what the tenants got of the whole contest, by what their weights make it,
// and of how many jobs.
func (c Contest) Shares(h History) (shares map[string]float64, jobs int) {
	shares = map[string]float64{}
	got, all := c.count(h.handed(), c.From, c.Until)
	for tenant, weight := range c.Weights {
		shares[tenant] = float64(got[tenant]) * float64(c.weights()) / float64(max(all, 1)*weight)
	}
	return shares, all
}
