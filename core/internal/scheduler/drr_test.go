package scheduler

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

func nth(n int) (id tenant.ID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// serve takes n jobs for claims among tenants that never run out, and gives what
// each has had.
func serve(f *DRR, wants []Demand, n int, had map[tenant.ID]int) {
	weights := map[tenant.ID]int{}
	for _, w := range wants {
		weights[w.Tenant] = w.Weight
	}
	for n > 0 {
		for _, p := range f.Allocate(wants, n) {
			got := min(p.Most, n)
			n -= got
			had[p.Tenant] += got
			f.Charge(p.Tenant, weights[p.Tenant], float64(got))
		}
	}
}

// Whatever sizes the claims have, tenants that always want more get shares in
// proportion to their weights, to within what one of them may get at once.
func TestSharesFollowTheWeights(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f DRR
		wants := make([]Demand, rapid.IntRange(1, 60).Draw(t, "tenants"))
		sum := 0
		for i := range wants {
			wants[i] = Demand{Tenant: nth(i), Weight: rapid.IntRange(1, 8).Draw(t, "weight")}
			sum += wants[i].Weight
		}
		had := map[tenant.ID]int{}
		total, largest := 0, 0
		for _, n := range rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(1, 1000)), 20, 200).Draw(t, "claims") {
			serve(&f, wants, n, had)
			total, largest = total+n, max(largest, n)
		}
		for _, w := range wants {
			fairShare := float64(total) * float64(w.Weight) / float64(sum)
			// A statement serves few tenants: with more of them one claim may bring those some
			// way ahead.
			slack := 2*float64(w.Weight) + 2 + float64(largest)
			if got := float64(had[w.Tenant]); math.Abs(got-fairShare) > slack {
				t.Fatalf("a tenant of weight %d of %d got %v of %d, fair are %.1f", w.Weight, sum, got, total, fairShare)
			}
		}
	})
}

// With claims of one job, no tenant is served twice before all were once.
func TestOneAtATimeIsRoundRobin(t *testing.T) {
	t.Parallel()
	var f DRR
	var wants []Demand
	for i := range 40 {
		wants = append(wants, Demand{Tenant: nth(i), Weight: 1})
	}
	had := map[tenant.ID]int{}
	for round := 1; round <= 3; round++ {
		for range wants {
			serve(&f, wants, 1, had)
		}
		for id, n := range had {
			if n != round {
				t.Fatalf("after round %d tenant %v was served %d times", round, id, n)
			}
		}
	}
}

// A tenant that had nothing to do for long is served next, and has no claim to more
// than its share afterwards.
func TestARestIsNoClaimToMore(t *testing.T) {
	t.Parallel()
	var f DRR
	busy, quiet := Demand{Tenant: nth(1), Weight: 1}, Demand{Tenant: nth(2), Weight: 1}
	had := map[tenant.ID]int{}
	serve(&f, []Demand{busy, quiet}, 2, had)
	serve(&f, []Demand{busy}, 100_000, had)
	clear(had)
	if first := f.Allocate([]Demand{busy, quiet}, 1); first[0].Tenant != quiet.Tenant {
		t.Errorf("the busy tenant is served before the quiet one")
	}
	serve(&f, []Demand{busy, quiet}, 100, had)
	if had[quiet.Tenant] > 52 || had[quiet.Tenant] < 50 {
		t.Errorf("after a rest the quiet tenant got %d of 100", had[quiet.Tenant])
	}
}

// A tenant that joins late begins where the others stand.
func TestANewTenantIsServedAtOnce(t *testing.T) {
	t.Parallel()
	var f DRR
	old, late := Demand{Tenant: nth(1), Weight: 5}, Demand{Tenant: nth(2), Weight: 1}
	had := map[tenant.ID]int{}
	serve(&f, []Demand{old}, 1000, had)
	clear(had)
	serve(&f, []Demand{old, late}, 600, had)
	if got := had[late.Tenant]; got < 99 || got > 102 {
		t.Errorf("weights 5 and 1: the second got %d of 600", got)
	}
}

// A tenant with one job at a time, among others that never run out, waits for its
// turn: between two of its jobs each of the others gets two times its weight at most, as
// far as a claim is not dealt as a whole. After a rest of that length it is next.
func TestOneJobWaitsForATurn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f DRR
		names := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "names")
		others := make([]Demand, rapid.IntRange(1, 7).Draw(t, "others"))
		sum := 0
		for i := range others {
			others[i] = Demand{Tenant: nth(names[i]), Weight: rapid.IntRange(1, 4).Draw(t, "weight")}
			sum += others[i].Weight
		}
		one := Demand{Tenant: nth(names[7]), Weight: rapid.IntRange(1, 4).Draw(t, "its weight")}
		n := rapid.IntRange(1, 20).Draw(t, "jobs for each claim")
		serve(&f, others, 10*sum, map[tenant.ID]int{})
		// still ready: as a claim that got as many jobs as it wanted does not know that there are no more.
		listed := false
		for range 50 {
			between := rapid.IntRange(0, 3*sum).Draw(t, "claims between")
			for range between {
				claimOnce(&f, others, one, n, false, &listed)
			}
			rested := between*n >= 2*sum
			listed = true
			overtaken := 0
			for !claimOnce(&f, others, one, n, true, &listed) {
				overtaken += n
			}
			if rested && overtaken > 0 {
				t.Fatalf("after a rest it was overtaken by %d jobs", overtaken)
			}
			if overtaken > 2*sum+n {
				t.Fatalf("overtaken by %d jobs in claims of %d; the others weigh %d", overtaken, n, sum)
			}
		}
	})
}

// claimOnce is a claim of n jobs, of others that have enough and of one that has one job
// or none although its list is ready. It says whether that one was served.
func claimOnce(f *DRR, others []Demand, one Demand, n int, has bool, listed *bool) (served bool) {
	wants := slices.Clone(others)
	if *listed {
		wants = append(wants, one)
	}
	for n > 0 {
		for _, p := range f.Allocate(wants, n) {
			got := min(p.Most, n)
			at := slices.IndexFunc(wants, func(w Demand) bool { return w.Tenant == p.Tenant })
			if p.Tenant == one.Tenant && got > 0 {
				dry := got > 1 || !has || served
				got = 0
				if has && !served {
					served, got = true, 1
				}
				if dry {
					*listed = false
				}
			}
			n -= got
			f.Charge(p.Tenant, wants[at].Weight, float64(got))
		}
		if !*listed {
			wants = slices.Clone(others)
		}
	}
	return served
}
