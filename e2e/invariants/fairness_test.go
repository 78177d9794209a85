package invariants_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/invariants"
)

const (
	tenantC = "0198b2c0-0000-7000-8000-00000000000c"
	quietD  = "0198b2c0-0000-7000-8000-00000000000d"
)

// contested is a run of 8 s in which one worker claims 10 jobs every 20 ms for A, B
// and C, who weigh 1, 1 and 2; D has one job now and then.
func contested() *run {
	r := &run{}
	add := func(e invariants.Event) {
		e.Actor, e.Seq = "w", int64(len(r.h.Events))
		e.Status = 200
		r.h.Events = append(r.h.Events, e)
	}
	for _, tenant := range []string{tenantA, tenantB, tenantC} {
		for n := range 2500 {
			add(invariants.Event{
				Op: invariants.OpSubmit, Tenant: tenant, Job: fmt.Sprint(tenant, n), Mark: invariants.Mark(tenant, n),
				Sent: at(0), Done: at(5),
			})
		}
	}
	claimed := map[string]int{}
	for ms := 1000; ms < 9000; ms += 20 {
		claim := func(tenant string) {
			n := claimed[tenant]
			claimed[tenant]++
			add(invariants.Event{
				Op: invariants.OpClaim, Owner: tenant, Job: fmt.Sprint(tenant, n), Mark: invariants.Mark(tenant, n),
				Epoch: 1, Attempt: 1, MaxAttempts: 3, Token: fmt.Sprint(tenant, n), LeaseEnds: at(100_000), Sent: at(ms), Done: at(ms + 10),
			})
		}
		for i := range 10 {
			claim([]string{tenantA, tenantB, tenantC, tenantC}[(ms/20*10+i)%4])
		}
		if ms%200 == 0 {
			add(invariants.Event{
				Op: invariants.OpSubmit, Tenant: quietD, Job: fmt.Sprint(quietD, ms/200-5), Mark: invariants.Mark(quietD, ms/200-5),
				Sent: at(ms), Done: at(ms + 12),
			})
		}
		if ms%200 == 20 {
			claim(quietD)
		}
	}
	r.h = invariants.Merge(r.h.Events)
	r.db.Contests = []invariants.Contest{{
		Weights: map[string]int{tenantA: 1, tenantB: 1, tenantC: 2}, From: at(1000), Until: at(9000), Quiet: []string{quietD}, Round: 10,
	}}
	return r
}

// shift puts claims of a tenant off, or brings them forward.
func (r *run) shift(tenant string, from, ms int) {
	for i := range r.h.Events {
		if e := &r.h.Events[i]; e.Op == invariants.OpClaim && e.Owner == tenant && !e.Sent.Before(at(from)) {
			e.Sent, e.Done = e.Sent.Add(at(ms).Sub(at(0))), e.Done.Add(at(ms).Sub(at(0)))
		}
	}
}

func TestAFairContestViolatesNothing(t *testing.T) {
	t.Parallel()
	r := contested()
	if found := invariants.Fair(r.h, r.db); len(found) > 0 {
		t.Fatalf("%s", strings.Join(found, "\n"))
	}
	r.db.Contests[0].Window = at(4000).Sub(at(0))
	if found := invariants.Fair(r.h, r.db); len(found) > 0 {
		t.Fatalf("in windows: %s", strings.Join(found, "\n"))
	}
}

// Who comes right back has had his job, and waits for his turn.
func TestWhoComesRightBackIsNotQuiet(t *testing.T) {
	t.Parallel()
	r := contested()
	r.db.Contests[0].Round = 4
	r.comeBack(10, func(n int) bool { return n%10 == 9 })
	if found := invariants.Fair(r.h, r.db); len(found) > 0 {
		t.Fatalf("%s", strings.Join(found, "\n"))
	}
}

// comeBack lets the quiet tenant submit each job right after its last one was claimed,
// but for those before which it rests, and claims it when so many of the others' were,
// 10 of them every 20 ms.
func (r *run) comeBack(after int, rests func(n int) bool) {
	free := 992
	var submitted [40]int
	for n := range submitted {
		submitted[n] = free + 12
		claimed := submitted[n] + 8 + after/10*20
		if rests(n) {
			submitted[n] += 40
			claimed = submitted[n] + 8
		}
		for i := range r.h.Events {
			e := &r.h.Events[i]
			switch {
			case e.Job != fmt.Sprint(quietD, n):
			case e.Op == invariants.OpSubmit:
				e.Sent, e.Done = at(submitted[n]), at(submitted[n]+4)
			default:
				e.Sent, e.Done = at(claimed), at(claimed+10)
			}
		}
		free = claimed
	}
	r.h = invariants.Merge(r.h.Events)
}

func TestEveryUnfairnessIsNoticed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		says  string
		spoil func(*run)
	}{
		"one of equals gets more": {"of its share", func(r *run) {
			n := 0
			for i := range r.h.Events {
				if e := &r.h.Events[i]; e.Op == invariants.OpClaim && e.Owner == tenantB {
					if n++; n%5 == 0 { // every fifth job of B was one of A's
						e.Owner, e.Job = tenantA, fmt.Sprint(tenantA, 1500+n)
					}
				}
			}
		}},
		"weights are not looked at":            {"of its share", func(r *run) { r.db.Contests[0].Weights[tenantC] = 1 }},
		"a weight counts for more than it is":  {"of its share", func(r *run) { r.db.Contests[0].Weights[tenantC] = 3 }},
		"one starves":                          {"of its share", func(r *run) { r.shift(tenantA, 0, 20_000) }},
		"one is served first, and then nobody": {"of its share", func(r *run) { r.shift(tenantB, 5000, -4000); r.window(4000) }},
		"a quiet job waits behind the others":  {"was overtaken by", func(r *run) { r.shift(quietD, 3000, 60) }},
		"quiet jobs are never claimed": {"was overtaken by", func(r *run) {
			r.h.Events = slices.DeleteFunc(r.h.Events, func(e invariants.Event) bool { return e.Owner == quietD })
		}},
		"somebody had nothing to wait for": {"no contest", func(r *run) {
			claimed := map[string]bool{}
			for _, e := range r.h.Events {
				claimed[e.Job] = claimed[e.Job] || e.Op == invariants.OpClaim
			}
			r.h.Events = slices.DeleteFunc(r.h.Events, func(e invariants.Event) bool { return e.Tenant == tenantB && !claimed[e.Job] })
		}},
		"backlogs came too late": {"no contest", func(r *run) {
			for i := range r.h.Events {
				if e := &r.h.Events[i]; e.Op == invariants.OpSubmit && e.Tenant == tenantA {
					e.Done = at(1001)
				}
			}
		}},
		"hardly a job was claimed":                 {"no contest", func(r *run) { r.db.Contests[0].Until = at(1200) }},
		"nothing was claimed":                      {"no contest", func(r *run) { r.shift(tenantA, 0, 20_000); r.shift(tenantB, 0, 20_000); r.shift(tenantC, 0, 20_000) }},
		"the window is longer than all":            {"shorter than its window", func(r *run) { r.window(60_000) }},
		"who comes right back waits for two turns": {"without a rest", func(r *run) { r.comeBack(20, func(n int) bool { return n%10 == 9 }) }},
		"nobody ever rests":                        {"after a rest", func(r *run) { r.comeBack(10, func(int) bool { return false }) }},
		"the quiet one said nothing":               {"no contest", func(r *run) { r.db.Contests[0].Quiet = []string{tenantB + "x"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := contested()
			test.spoil(r)
			found := strings.Join(invariants.Check(invariants.Merge(r.h.Events), r.db), "\n")
			if !strings.Contains(found, "I12: ") || !strings.Contains(found, test.says) {
				t.Errorf("not noticed: %s", found)
			}
		})
	}
}

func (r *run) window(ms int) { r.db.Contests[0].Window = at(ms).Sub(at(0)) }
