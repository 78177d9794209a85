package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/inner"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// handler answers the requests of a route.
type handler func(*Server, *gin.Context, route)

// handle adapts a function from request to reply: it does all the checks of HTTP, in
// the order credential, access, query, admission, headers, body, JSON. The function gets only requests that are
// well-formed and allowed. A caller with a valid key is also charged for a request that
// was refused before.
func handle[Req, Resp any](run func(context.Context, *call.Call, Req) (call.Response[Resp], error)) handler {
	return priced(func(_ *call.Call, r Req) (Req, admission.Cost, error) { return r, admission.Cost{}, nil }, run)
}

// priced is handle for a request whose cost is known only by its body: price validates it, and says what it is
// charged for; run gets what price has made of it.
func priced[Req, Ready, Resp any](
	price func(*call.Call, Req) (Ready, admission.Cost, error), run func(context.Context, *call.Call, Ready) (call.Response[Resp], error),
) handler {
	return func(s *Server, g *gin.Context, r route) {
		c := callOf(g)
		defer c.Body.Release()
		defer func() { c.Answer.Release() }()
		answer, err := serve(s, g, r, price, run)
		if refused := s.limiter.Charge(g.Request.Context(), &c.Payer, admission.Cost{}); refused != nil { // it was refused before it was charged
			err = refused
		}
		if err == nil {
			var text []byte
			if text, err = s.encode(g, r, answer.Value); err == nil {
				write(g, answer, text)
			}
		}
		if err != nil {
			refuse(g, err)
		}
	}
}

func serve[Req, Ready, Resp any](
	s *Server, g *gin.Context, r route,
	price func(*call.Call, Req) (Ready, admission.Cost, error), run func(context.Context, *call.Call, Ready) (call.Response[Resp], error),
) (nothing call.Response[Resp], err error) {
	c, ctx := callOf(g), g.Request.Context()
	c.Payer.Kind = r.cost
	if err := s.open(g, c, r); err != nil {
		return nothing, err
	}
	c.Answer = s.bodies.Answer(bodyOwner(c))
	if r.cost.KnownEarly() {
		if err := s.limiter.Charge(ctx, &c.Payer, admission.Cost{}); err != nil {
			return nothing, err
		}
	}
	var decoded Req
	leave := func() {}
	if r.body.Max > 0 {
		if leave, err = s.receive(g, c, r, &decoded); err != nil {
			return nothing, err
		}
	}
	ready, cost, err := price(c, decoded)
	leave()
	if refused := s.limiter.Charge(ctx, &c.Payer, cost); refused != nil {
		return nothing, refused
	}
	if err != nil {
		return nothing, err
	}
	answer, err := run(ctx, c, ready)
	s.limiter.NoteCaps(ctx, &c.Payer, cost, err)
	return answer, err
}

// admit does all that comes before the answer of a route that reads no body and writes its answer itself.
func (s *Server) admit(g *gin.Context, r route) (*call.Call, error) {
	c := callOf(g)
	c.Payer.Kind = r.cost
	err := s.open(g, c, r)
	if refused := s.limiter.Charge(g.Request.Context(), &c.Payer, admission.Cost{}); refused != nil {
		err = refused
	}
	return c, err
}

// open does all that comes before the body.
func (s *Server) open(g *gin.Context, c *call.Call, r route) error {
	if !r.access.public {
		caller, err := s.authenticate(g, c, r)
		if err != nil {
			return err
		}
		c.Caller, c.Payer.Key = caller, caller.Key
		if err := r.access.admit(caller.Principal); err != nil {
			return err
		}
	}
	c.Params = make(map[string]string, len(g.Params))
	for _, param := range g.Params {
		value, err := url.PathUnescape(param.Value)
		if err != nil || !request.Storable(value) {
			return call.Malformed(param.Key)
		}
		c.Params[param.Key] = value
	}
	c.Prefer, c.IfNoneMatch, c.IfMatch = g.Request.Header["Prefer"], g.Request.Header["If-None-Match"], g.Request.Header["If-Match"]
	var err error
	c.Query, err = request.ParseQuery(g.Request.URL.RawQuery, r.query)
	return err
}

// authenticate authenticates the caller. After too many failures from the same address
// it refuses that address instead.
func (s *Server) authenticate(g *gin.Context, c *call.Call, r route) (caller auth.Caller, err error) {
	given := g.Request.Header["Authorization"]
	if person, is := inner.PersonOf(g.Request.Context()); is {
		return s.auth.AuthenticatePerson(g.Request.Context(), person)
	}
	if r.access.signalLink {
		if caller, c.Link, err = s.auth.AuthenticateSignal(g.Request.Context(), g.Param("token")); errors.Is(err, auth.ErrUnauthenticated) {
			err = errSignalLink
		}
	} else if token := g.Query("token"); r.access.eventsToken && token != "" && len(given) == 0 {
		job, _ := request.UUID(g.Param("id")) // of no id there is no token
		if caller, err = s.auth.AuthenticateEvents(g.Request.Context(), token, job); errors.Is(err, auth.ErrUnauthenticated) {
			err = errEventsToken
		}
	} else {
		caller, err = s.auth.Authenticate(g.Request.Context(), request.Bearer(given))
	}
	if errors.Is(err, auth.ErrUnauthenticated) {
		if refused := s.addresses.CountFailure(c.Address); refused != nil {
			err = refused
		}
	}
	return caller, err
}

// receive reads the body, waits for a seat, and decodes it there; leave gives the seat back, once the request is validated.
// It also reads the request's Idempotency-Key, if it has one.
func (s *Server) receive(g *gin.Context, c *call.Call, r route, into any) (leave func(), err error) {
	var key string
	if r.operation != "" {
		if key, err = request.IdempotencyKey(g.Request.Header["Idempotency-Key"]); err != nil {
			return nil, err
		}
	}
	// A submit that core's queue would refuse is not read. One with an Idempotency-Key
	// waits in its tenant's queue, which is not checked here.
	if key == "" && r.cost == perJob {
		if err := s.handlers.SubmitBusy(c, g.Request.ContentLength); err != nil {
			return nil, err
		}
	}
	defer c.Body.Recycle()
	owner := bodyOwner(c)
	text, err := s.bodies.Read(&c.Body, g.Writer, g.Request, r.body, owner)
	if err != nil {
		return nil, err
	}
	seat, err := s.seatToDecode(g, r, owner.Name, len(text))
	if err != nil {
		return nil, err
	}
	leave = func() { c.Spent.Decode = seat.Leave() }
	if err := decodeInto(c, r, text, key, into); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

func decodeInto(c *call.Call, r route, text []byte, key string, into any) error {
	if len(text) == 0 {
		text = []byte("{}") // Read has refused it if a body is required
	} else if err := request.DecodeJSON(text, into); err != nil {
		return err
	}
	if key == "" {
		return nil
	}
	fingerprint, err := request.Fingerprint(text)
	if err != nil {
		return err // it was decoded before: an internal error
	}
	c.Idempotency = &hop.Idempotency{Operation: r.operation, Key: key, Fingerprint: fingerprint}
	return nil
}

// What decoding takes until that is known, and how long a request may wait for its seat.
const (
	decodeUnit  = 4 << 10 // bytes
	decodeTime  = 60 * time.Microsecond
	mostWaiting = 5 * time.Second
)

func (s *Server) seatToDecode(g *gin.Context, r route, owner string, size int) (*seats.Seat, error) {
	units := max(size/decodeUnit, 1)
	work := seats.Work{Owner: owner, Operation: "decode", On: r.path, Size: units, Guess: time.Duration(units) * decodeTime}
	seat, err := s.processors.TakeWithin(g.Request.Context(), work, mostWaiting)
	if err != nil {
		return nil, problem.New(problem.Overloaded, "Too many of your tenant's requests wait to be decoded. Nothing was changed; wait for their answers, or send less at once.")
	}
	return seat, nil
}

// encode encodes an answer, in a seat of its caller's. What is passed on as it is needs none.
func (s *Server) encode(g *gin.Context, r route, value any) (text []byte, err error) {
	if raw, is := value.(json.RawMessage); is {
		return raw, nil
	}
	work := seats.Work{Owner: bodyOwner(callOf(g)).Name, Operation: "encode", On: r.path}
	begun := time.Now()
	s.processors.Run(g.Request.Context(), work, func() { text, err = call.Encode(value) })
	callOf(g).Spent.Encode = time.Since(begun)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return text, nil
}

// bodyOwner is the owner of a body's memory: the tenant, or a platform key itself.
func bodyOwner(c *call.Call) request.Owner {
	who := c.Principal()
	owner := request.Owner{Name: who.Tenant, Urgent: c.Payer.Kind == admission.CostReports}
	if owner.Name == "" {
		owner.Name = who.Kind + " " + who.KeyID
	}
	return owner
}
