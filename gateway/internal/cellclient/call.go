package cellclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/server/seats"
	"github.com/forgequeue/forgequeue/shared/server/wirejson"
)

// Call asks a cell's core for one item's result. The deadline is ctx's, and is sent to
// core. The error is a *problem.Problem where core refused the call as a whole,
// or wraps ErrUnavailable, ErrOverloaded, ErrOutcomeUnknown, ErrCutShort, ErrNoPlace,
// ErrRefusesUs or ErrContract. A refusal of the item itself is no error: it is in
// the Result.
//
// A call is an envelope of its own unless it is Shared: then the items
// of concurrent callers are sent in one.
func Call[Req, Resp any](ctx context.Context, c *Cell, of hop.Op[Req, Resp], how How, item hop.Item[Req]) (hop.Result[Resp], error) {
	op := how.of(of.Of(item.Request))
	op.whose = ownerOf(item.Principal)
	if err := op.room(ctx); err != nil {
		return hop.Result[Resp]{}, c.refuse(op, err)
	}
	if op.Class != hop.ClassParked {
		return call[Req, Resp](ctx, c, op, item)
	}
	if c.IsDraining() {
		return hop.Result[Resp]{}, fmt.Errorf("%w: %s", ErrCutShort, op.Path)
	}
	claim := op.Path == hop.ClaimJobs.Path
	place, err := c.gate.park(claim, op.whose)
	if err != nil {
		c.metrics.refused(op.Class, err)
		return hop.Result[Resp]{}, fmt.Errorf("%w: %s: %w", ErrNoPlace, op.Path, err)
	}
	defer c.gate.unpark(claim, place)
	op.place = place
	result, err := call[Req, Resp](ctx, c, op, item)
	failed := err != nil || (result.Problem != nil && result.Problem.Status >= http.StatusInternalServerError)
	if failed && (c.IsDraining() || place.isLost()) {
		return hop.Result[Resp]{}, fmt.Errorf("%w: %s", ErrCutShort, op.Path)
	}
	return result, err
}

// ownerOf is the unit of fairness on the hop: a tenant, or a key of no tenant.
func ownerOf(p hop.Principal) string {
	if p.Tenant != "" {
		return p.Tenant
	}
	return p.Kind + " " + p.KeyID
}

func call[Req, Resp any](ctx context.Context, c *Cell, op operation, item hop.Item[Req]) (result hop.Result[Resp], err error) {
	response, err := ask(ctx, c, op, item)
	if err != nil {
		return hop.Result[Resp]{}, err
	}
	c.compute(ctx, op, "read", len(response.value()), func() { result, err = decode[Resp](op, response) })
	return result, err
}

// computeTime is what 4 KiB take until that is known.
const (
	computeUnit = 4 << 10
	computeTime = 30 * time.Microsecond
)

// compute does something with the text of a call, of a size in bytes, in a seat of its owner's.
func (c *Cell) compute(ctx context.Context, op operation, what string, size int, do func()) {
	if size < computeUnit {
		do()
		return
	}
	units := size / computeUnit
	c.processors.Run(ctx, seats.Work{Owner: op.whose, Operation: what, On: op.Path, Size: units, Guess: time.Duration(units) * computeTime}, do)
}

// ask gets core's response to one item, alone or with others.
func ask[Req any](ctx context.Context, c *Cell, op operation, item hop.Item[Req]) (itemResponse, error) {
	if op.Shared {
		return share(ctx, c, op, item)
	}
	text, err := encodeItem(ctx, c, op, item)
	if err != nil {
		return itemResponse{}, err
	}
	results, doubt, err := c.exchangeItems(ctx, op, []itemText{text})
	if err != nil {
		return itemResponse{}, err
	}
	return itemResponse{results[0], doubt}, nil
}

// encodeItem encodes an item, in a seat of its owner's.
func encodeItem[Req any](ctx context.Context, c *Cell, op operation, item hop.Item[Req]) (text itemText, err error) {
	c.processors.Run(ctx, seats.Work{Owner: op.whose, Operation: "write", On: op.Path}, func() { text, err = itemOf(&item) })
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", op.Path, err)
	}
	return text, nil
}

// doubtOutcomes corrects the results of a repeat: that core could not take an
// outcome the second time does not mean that it did not the first time.
func doubtOutcomes(value any) {
	answer, ok := value.(*api.OutcomesResponse)
	if !ok || answer == nil {
		return
	}
	for i := range answer.Results {
		refusal := answer.Results[i].Problem
		if refusal == nil || refusal.Status != http.StatusServiceUnavailable {
			continue
		}
		unknown := problem.New(problem.OutcomeUnknown, "The outcome may or may not have taken effect. Repeat it unchanged.")
		unknown.RetryAfterMS = refusal.RetryAfterMS
		answer.Results[i].Problem, answer.Results[i].Status = unknown, unknown.Status
	}
}

// Encode is encoding/json's, without escaping <, > and &: a payload is returned as it
// was sent.
func Encode(value any) ([]byte, error) { return wirejson.Marshal(value) }

// Read decodes core's answer without checks: its content was checked when it was
// stored, or is a result of a server of the tenant's.
func Read(text []byte, into any) error { return jsonv2.Unmarshal(text, into, unchecked) }

// Joined once, not for each value.
var unchecked = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// exchange waits for its turn, sends the body, repeats it where that is safe, and
// returns the body of a 200. doubt is whether an earlier try was sent and got no
// answer: then a failure of the later one does not mean that nothing changed.
//
// A call is repeated up to mostLearned times if core's clock differs: cores whose
// clocks differ may be behind one address. It is repeated once if it did not reach
// core, or its reply was lost and the operation is idempotent, within the retry budget.
// A repeat that cannot connect has not been sent: where its answer would resolve
// a doubt, it redials for up to maxRedial. So the restart of a core loses no
// outcome. A parked call that cannot connect redials too: it waits in any case.
func (c *Cell) exchange(ctx context.Context, op operation, body []byte) (answer []byte, doubt bool, err error) {
	leave, err := c.enter(ctx, op)
	if err != nil {
		return nil, false, err
	}
	defer leave()
	var repeated bool
	var learned int
	var redial redial
	for {
		reply, sent, err := c.try(ctx, op, body, !repeated)
		switch {
		case errors.Is(err, ErrOverloaded): // a read, whose answer there was no memory for
			return nil, doubt, c.refuse(op, err)
		case err != nil:
			// A try that was sent and got no answer may have taken effect, even if a
			// later one fails or is refused.
			doubt = doubt || sent
			if !repeated && c.repeats(ctx, op, sent, err) {
				repeated = true
				continue
			}
			settles := repeated && doubt && op.settles()
			if (settles || op.mayWait(c)) && !sent && redial.wait(ctx) {
				continue
			}
			if !doubt {
				return nil, doubt, fmt.Errorf("%w: %s: %w", ErrUnavailable, op.Path, err)
			}
			return nil, doubt, fmt.Errorf("%w: %s: %w", op.lost(), op.Path, err)
		case reply.status == http.StatusOK:
			return reply.body, doubt, nil
		case reply.status == http.StatusUnauthorized:
			if learned < mostLearned && c.learnClock(reply) {
				learned++
				continue
			}
			if doubt {
				return nil, doubt, fmt.Errorf("%w: %s: then %s", op.lost(), op.Path, ErrRefusesUs.Error())
			}
			return nil, doubt, fmt.Errorf("%w (%s)", ErrRefusesUs, op.Path)
		case reply.status == http.StatusConflict && refusedWith(reply.body, identity.TakenCode):
			// Core had a copy of the call before: it may have taken effect, its answer is lost.
			doubt = true
			c.logger.Warn("core had a copy of our signed call before the call itself", "path", op.Path)
			if !repeated && c.repeats(ctx, op, true, errTaken) {
				repeated = true
				continue
			}
			return nil, doubt, fmt.Errorf("%w: %s: %w", op.lost(), op.Path, errTaken)
		}
		if doubt {
			return nil, doubt, fmt.Errorf("%w: %s: then status %d", op.lost(), op.Path, reply.status)
		}
		return nil, doubt, refusal(op, reply)
	}
}

// enter waits for the call's turn. If the breaker is open it fails at once: nothing
// was sent.
func (c *Cell) enter(ctx context.Context, op operation) (leave func(), err error) {
	switch {
	case op.Class == hop.ClassProbe:
		return func() {}, nil
	case op.Class == hop.ClassParked: // it has a place already
		return func() {}, nil
	case c.breakers.open(op.Class):
		return nil, c.refuse(op, fmt.Errorf("%w: %w", ErrUnavailable, errOpen))
	}
	seat, err := c.gate.enter(ctx, op.Class, op.whose, op.Path)
	if err != nil {
		return nil, c.refuse(op, err)
	}
	c.budget.earn()
	return func() { seat.Leave() }, nil
}

// errTaken means that core had a call with this signature before.
var errTaken = errors.New("core took a copy of the call before")

// mostLearned is how often one call may learn core's clock.
const mostLearned = 8

// mayWait returns whether a parked call that was not sent may wait for core.
func (o operation) mayWait(c *Cell) bool {
	return o.Class == hop.ClassParked && !c.IsDraining() && !o.place.isLost()
}

// refuse counts a call that was not sent, and returns why.
func (c *Cell) refuse(op operation, err error) error {
	c.metrics.refused(op.Class, err)
	if !errors.Is(err, ErrOverloaded) && !errors.Is(err, ErrUnavailable) { // the caller has left, or its deadline has passed
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", op.Path, err)
}

// repeats returns whether a failed try is repeated, and charges the retry budget.
func (c *Cell) repeats(ctx context.Context, op operation, sent bool, err error) bool {
	if ctx.Err() != nil || op.Class >= hop.OrderedClasses || errors.Is(err, errOpen) || (sent && !op.mayRepeat()) {
		return false
	}
	if !c.budget.spend() {
		c.metrics.exhausted.WithLabelValues(op.Class.String()).Inc()
		return false
	}
	c.metrics.repeated(op.Class, sent)
	return true
}

// refusal is core's refusal of a whole call. A problem about core's state is passed
// on to the caller; one about the form of the call is an error of the gateway.
func refusal(op operation, reply reply) error {
	var answer problem.Problem
	err := json.Unmarshal(reply.body, &answer)
	if err != nil || !problem.Known(answer.Code) {
		// Not core's answer: a proxy's, perhaps, after core took the call.
		return fmt.Errorf("%w: %s: %w: status %d", op.lost(), op.Path, ErrContract, reply.status)
	}
	switch reply.status {
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		p := problem.New(answer.Code, answer.Detail)
		p.RetryAfterMS = answer.RetryAfterMS
		return p
	}
	return fmt.Errorf("%w: %s: %d %s: %s", ErrContract, op.Path, reply.status, answer.Code, answer.Detail)
}
