package httpapi

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// claimAnywhere serves claims: a tenant's in its cell, a platform worker's in all.
func (d *Divider) claimAnywhere(ctx context.Context, body []byte) (response, error) {
	items, err := decodeItems[json.RawMessage](body)
	if err != nil {
		return response{}, err
	}
	if !hasPlatform(items) {
		return d.divide(ctx, hop.ClaimJobs.Path, body, items)
	}
	typed, err := decodeItems[api.ClaimRequest](body)
	if err != nil {
		return response{}, err
	}
	merged := newMerged(len(items))
	var group sync.WaitGroup
	for i := range typed {
		group.Go(func() {
			answer, unsent := d.claimOne(ctx, typed[i])
			merged.set(ctx, i, answer)
			if unsent != nil {
				merged.mu.Lock()
				merged.unsent = append(merged.unsent, unsent)
				merged.mu.Unlock()
			}
		})
	}
	group.Wait()
	return merged.response()
}

func hasPlatform[Req any](items []hop.Item[Req]) bool {
	for i := range items {
		if items[i].Principal.Kind == hop.PrincipalPlatform {
			return true
		}
	}
	return false
}

type claimed struct {
	answer hop.Result[api.ClaimResponse]
	unsent func()
}

// jobs says whether there are any.
func (c claimed) jobs() bool {
	return c.answer.Problem == nil && c.answer.Value != nil && len(c.answer.Value.Jobs) > 0
}

func (c claimed) release() {
	if c.unsent != nil {
		c.unsent()
	}
}

func (d *Divider) claimOne(ctx context.Context, item hop.Item[api.ClaimRequest]) (hop.Result[api.ClaimResponse], func()) {
	if item.Principal.Kind != hop.PrincipalPlatform {
		cell, err := d.cellOf(ctx, item.Principal)
		if err != nil {
			return result[api.ClaimRequest, api.ClaimResponse](ctx, &item, nil, err), nil
		}
		return single(ctx, d, cell, hop.ClaimJobs, item)
	}
	found := d.claimInTurn(ctx, item)
	if wait := item.Request.WaitMS; found.jobs() || found.answer.Problem != nil || wait == nil || *wait <= 0 {
		return found.answer, found.unsent
	}
	found = d.claimInAll(ctx, item)
	return found.answer, found.unsent
}

// claimInTurn asks one cell after the other, by weight, without waiting, and gives the first answer
// with jobs; otherwise one without, or a problem where no cell answered.
func (d *Divider) claimInTurn(ctx context.Context, item hop.Item[api.ClaimRequest]) (found claimed) {
	item.Request.WaitMS = new(int64)
	answered := false
	for _, cell := range d.turn() {
		var one claimed
		one.answer, one.unsent = single(ctx, d, cell, hop.ClaimJobs, item)
		if one.jobs() {
			return one
		}
		if one.answer.Problem == nil || !answered {
			found, answered = one, answered || one.answer.Problem == nil
		}
	}
	return found
}

// turn gives the order in which cells are asked.
func (d *Divider) turn() []int {
	weights := make([]int, len(d.Cells))
	for i, one := range d.Cells {
		weights[i] = one.Weight
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.turns.Next(weights)
}

// claimInAll waits in all cells for the first that has jobs. What another leased meanwhile goes back
// at once. A cell that does not answer does not end the others' waiting.
func (d *Divider) claimInAll(ctx context.Context, item hop.Item[api.ClaimRequest]) claimed {
	waiting, leave := context.WithCancel(ctx)
	answers := make(chan claimed, len(d.Cells))
	for cell := range d.Cells {
		go func() {
			var one claimed
			one.answer, one.unsent = single(waiting, d, cell, hop.ClaimJobs, item)
			answers <- one
		}()
	}
	var best claimed
	for left := len(d.Cells); left > 0; left-- {
		one := <-answers
		if one.jobs() {
			leave()
			go releaseRest(answers, left-1) // each has heard that it is to end
			return one
		}
		if best.answer.Status == 0 || best.answer.Problem != nil && one.answer.Problem == nil {
			best = one
		}
	}
	leave()
	return best
}

func releaseRest(answers <-chan claimed, left int) {
	for range left {
		if one := <-answers; one.jobs() {
			one.release()
		}
	}
}
