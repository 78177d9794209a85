package cellclient

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/batch"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const (
	// sharedBytes bounds an envelope of many callers' items; a larger item is sent
	// alone. core answers when its last item is done: 4,000 small jobs of batches take
	// a slow core a second or two, which callers wait in addition to their turn.
	sharedBytes = 512 << 10
	// leastWeight keeps the items of an envelope below hop.MaxItems.
	leastWeight = sharedBytes/hop.MaxItems + 1
	// largeItem is the size from which an item goes in an envelope of its tenant's own.
	largeItem = 32 << 10
	// sharedWaiting bounds the items that wait for an envelope of one group.
	sharedWaiting = 20_000
	// sharedReserve is how much of its time, in percent, a call must have left when its
	// envelope is sent: core needs it for the whole envelope.
	sharedReserve = 50
)

// groupKey is what items that share an envelope have in common: the path, what a
// lost reply means, and the group.
type groupKey struct {
	path   string
	effect hop.Effect
	group  string
}

func (o operation) groupKey() groupKey { return groupKey{o.Path, o.Effect, o.Group} }

// sharedWait is how long the first item may have waited before others are turned
// away; 0 is no bound. Outcomes are never turned away for it: they end work.
func sharedWait(op operation) time.Duration {
	if op.Class < hop.ClassSubmit {
		return 0
	}
	return maxPatience
}

type (
	itemText  = json.RawMessage
	itemGroup = batch.Batcher[itemText, itemResponse]
)

// itemResponse is core's response to one item, and whether an earlier try of its envelope
// was sent and got no answer.
type itemResponse struct {
	result hop.Result[json.RawMessage]
	doubt  bool
}

// value is its text, nil where it has none.
func (r *itemResponse) value() []byte {
	if r.result.Value == nil {
		return nil
	}
	return *r.result.Value
}

// groups are the batchers of the hop. One without users is deleted.
type groups struct {
	mu  sync.Mutex
	all map[groupKey]*groupUse
}

type groupUse struct {
	group *itemGroup
	users int
}

const (
	// apartFor is how long a tenant's items use its own group after core answered RetryUnbatched.
	apartFor = 5 * time.Second
	// apartMost bounds the entries of apart.
	apartMost = 10_000
)

// apart has the tenants whose items need envelopes of their own, after RetryUnbatched.
type apart struct {
	mu    sync.Mutex
	since map[apartKey]time.Time
}

type apartKey struct{ path, tenant string }

func (a *apart) note(key apartKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since == nil || len(a.since) >= apartMost {
		a.since = map[apartKey]time.Time{}
	}
	a.since[key] = time.Now()
}

// grouped is the operation in the group that the tenant's items use now.
func (a *apart) grouped(op operation, tenant string) operation {
	if op.Group != "" || tenant == "" {
		return op
	}
	key := apartKey{op.Path, tenant}
	a.mu.Lock()
	defer a.mu.Unlock()
	since, there := a.since[key]
	switch {
	case !there:
	case time.Since(since) < apartFor:
		op.Group = tenant
	default:
		delete(a.since, key)
	}
	return op
}

func (c *Cell) enterGroup(op operation) (group *itemGroup, leave func()) {
	key := op.groupKey()
	c.groups.mu.Lock()
	defer c.groups.mu.Unlock()
	if c.groups.all == nil {
		c.groups.all = map[groupKey]*groupUse{}
	}
	use := c.groups.all[key]
	// It sends for all callers of the group.
	op.whose, op.Answer = op.Group, nil
	if use == nil {
		use = &groupUse{group: batch.New(batch.Options[itemText, itemResponse]{
			MaxWeight: sharedBytes, Capacity: sharedWaiting, Timeout: c.sharedTime, Reserve: sharedReserve, MaxWait: sharedWait(op),
			Weight: func(item itemText) int { return max(len(item), leastWeight) },
			Flush: func(ctx context.Context, items []itemText) []batch.Result[itemResponse] {
				return c.flush(ctx, op, items)
			},
		})}
		c.groups.all[key] = use
	}
	use.users++
	return use.group, func() {
		c.groups.mu.Lock()
		defer c.groups.mu.Unlock()
		if use.users--; use.users == 0 {
			delete(c.groups.all, key)
		}
	}
}

// Busy returns an error if a tenant's call of a shared operation, of so many bytes, would be
// turned away, nil if it may be made: so a caller need not read a body that would not be sent.
// The error wraps ErrOverloaded.
func (c *Cell) Busy(of hop.Operation, how How, tenant string, size int64) error {
	op := c.apart.grouped(how.of(of), tenant)
	if op.Group == "" && size > largeItem {
		op.Group = tenant
	}
	c.groups.mu.Lock()
	use := c.groups.all[op.groupKey()]
	c.groups.mu.Unlock()
	if use == nil || !use.group.Late() {
		return nil
	}
	return c.refuse(op, turnedAwayError{reasonWaited})
}

// flush sends one envelope and hands its results out.
func (c *Cell) flush(ctx context.Context, op operation, items []itemText) []batch.Result[itemResponse] {
	answers := make([]batch.Result[itemResponse], len(items))
	results, doubt, err := c.exchangeItems(ctx, op, items)
	for i := range answers {
		if err != nil {
			answers[i].Err = err
			continue
		}
		answers[i].Value = itemResponse{results[i], doubt}
	}
	return answers
}

func (c *Cell) exchangeItems(ctx context.Context, op operation, items []itemText) ([]hop.Result[json.RawMessage], bool, error) {
	answer, doubt, err := c.exchange(ctx, op, envelope(items))
	if err != nil {
		return nil, doubt, err
	}
	var results []hop.Result[json.RawMessage]
	c.compute(ctx, op, "open", len(answer), func() { results, err = readResults(answer) })
	if err != nil || len(results) != len(items) {
		return nil, doubt, fmt.Errorf("%w: %s with %d results for %d items: %w",
			op.lost(), op.Path, len(results), len(items), errors.Join(ErrContract, err))
	}
	return results, doubt, nil
}

// envelope joins items that are encoded already. The nonce makes its signature unique;
// core needs only the signature, and ignores the nonce.
func envelope(items []itemText) []byte {
	nonce := rand.Text()
	size := len(`{"nonce":"","items":[]}`) + len(nonce) + len(items)
	for _, item := range items {
		size += len(item)
	}
	body := append(make([]byte, 0, size), `{"nonce":"`...)
	body = append(append(body, nonce...), `","items":[`...)
	for i, item := range items {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, item...)
	}
	return append(body, "]}"...)
}

// share makes a call that shares its request with others, in the common group or its
// tenant's: a large item goes in that, because all others of its envelope wait for its answer.
func share[Req any](ctx context.Context, c *Cell, op operation, item hop.Item[Req]) (itemResponse, error) {
	owner := item.Principal.Tenant
	op = c.apart.grouped(op, owner)
	item.Shared = op.Group == ""
	text, err := encodeItem(ctx, c, op, item)
	if err != nil {
		return itemResponse{}, err
	}
	if item.Shared && len(text) > largeItem {
		op.Group = op.whose
	}
	response, err := shareIn(ctx, c, op, text)
	if err != nil || !item.Shared || !response.result.RetryUnbatched {
		return response, err
	}
	c.apart.note(apartKey{op.Path, owner})
	op.Group, item.Shared = owner, false
	if text, err = encodeItem(ctx, c, op, item); err != nil {
		return itemResponse{}, err
	}
	again, err := shareIn(ctx, c, op, text)
	again.doubt = again.doubt || response.doubt
	return again, err
}

// shareIn makes a call in one group.
func shareIn(ctx context.Context, c *Cell, op operation, text itemText) (itemResponse, error) {
	group, leave := c.enterGroup(op)
	defer leave()
	answer, err := group.Do(ctx, text)
	switch {
	case errors.Is(err, batch.ErrFull):
		return itemResponse{}, c.refuse(op, fmt.Errorf("%w: %w", turnedAwayError{reasonFull}, err))
	case errors.Is(err, batch.ErrLeft): // nothing was sent
		return itemResponse{}, c.refuse(op, err)
	case errors.Is(err, batch.ErrUnknown):
		return itemResponse{}, fmt.Errorf("%w: %s: %w", op.lost(), op.Path, err)
	}
	return answer, err
}

// decode reads the result of one item for its caller.
func decode[Resp any](op operation, response itemResponse) (hop.Result[Resp], error) {
	var none hop.Result[Resp]
	result := hop.Result[Resp]{Status: response.result.Status, Replayed: response.result.Replayed, Problem: response.result.Problem}
	if value := response.result.Value; value != nil {
		result.Value = new(Resp)
		if opaque, ok := any(result.Value).(*json.RawMessage); ok {
			*opaque = *value // core has made it
		} else if err := Read(*value, result.Value); err != nil {
			return none, fmt.Errorf("%w: %s: %w", op.lost(), op.Path, errors.Join(ErrContract, err))
		}
	}
	if result.Problem == nil && (result.Status < 200 || result.Status > 299) {
		return none, fmt.Errorf("%w: %s with status %d and no problem", ErrContract, op.Path, result.Status)
	}
	if !response.doubt {
		return result, nil
	}
	if result.Problem != nil && result.Problem.Status == http.StatusServiceUnavailable {
		return none, fmt.Errorf("%w: %s: then %s", op.lost(), op.Path, result.Problem.Code)
	}
	doubtOutcomes(result.Value)
	return result, nil
}
