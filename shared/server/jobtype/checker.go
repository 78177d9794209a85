package jobtype

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

const (
	// setLife is how long a tenant's types are used without being read again.
	setLife = 30 * time.Second
	// mostTenants bounds the tenants whose types are cached.
	mostTenants = 10_000
	// compiledBytes bounds the compiled schemas of all tenants.
	compiledBytes = 64 << 20
	// maxWait bounds how long a check waits for a seat and takes, and usualCheck is what it takes until that is known.
	maxWait    = 5 * time.Second
	usualCheck = 5 * time.Millisecond
)

// ErrBusy means that a tenant's checks take too long. Nothing was done.
var ErrBusy = errors.New("jobtype: the tenant's checks take too long")

// errGone means that a version is no longer kept, or no longer compiled: it must be read again.
var errGone = errors.New("jobtype: the version is gone")

// Options of a Checker.
type Options struct {
	// Set reads the types of a tenant.
	Set func(ctx context.Context, tenant string) (hop.TypeSet, error)
	// Schema reads a schema of a type's version, its result's or its payload's; found is false where that version
	// is not kept.
	Schema func(ctx context.Context, tenant string, of hop.CheckedType, result bool) (schema json.RawMessage, found bool, err error)
	// Seats are those of the process's processors, its own if nil: a tenant's checks take some of them.
	Seats *seats.Seats
	// Now is time.Now if nil.
	Now func() time.Time
}

// Checker checks values against tenants' types. It is safe for concurrent use.
type Checker struct {
	options  Options
	compiled *compiled

	mu      sync.Mutex
	recent  *list.List // of *tenantTypes, the last used first
	tenants map[string]*list.Element
}

// tenantTypes are the types of a tenant.
type tenantTypes struct {
	tenant string
	// noticed is the newest version that a hint has named.
	noticed atomic.Int64
	set     atomic.Pointer[Set]
	// reading holds a value while a caller reads the set.
	reading chan struct{}
}

// Set is the types of a tenant as they were read. It does not change.
type Set struct {
	version int64
	// answers is the version that was asked for when it was read: a database that was restored may have an older one.
	answers int64
	until   time.Time
	types   map[string]*hop.CheckedType
}

// Type gives a type; nil where there is none.
func (s *Set) Type(name string) *hop.CheckedType {
	if s == nil {
		return nil
	}
	return s.types[name]
}

// NewChecker makes a Checker.
func NewChecker(o Options) *Checker {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Seats == nil {
		o.Seats = seats.Processors()
	}
	return &Checker{
		options: o, compiled: newCompiled(compiledBytes),
		recent: list.New(), tenants: map[string]*list.Element{},
	}
}

// Changed notes that a tenant's types have a new version.
func (c *Checker) Changed(change hop.TypesChanged) {
	types := c.of(change.Tenant)
	for {
		known := types.noticed.Load()
		if known >= change.Version || types.noticed.CompareAndSwap(known, change.Version) {
			return
		}
	}
}

// Types gives the types of a tenant, of at least the given version; nil where it has none. 0 is the version of a
// tenant that never had any: unless a hint says otherwise, nothing is read for it.
func (c *Checker) Types(ctx context.Context, tenant string, version int64) (*Set, error) {
	if version == 0 && !c.knows(tenant) {
		return nil, nil //nolint:nilnil // it has none
	}
	types := c.of(tenant)
	if set, ok := types.current(version, c.options.Now()); ok {
		return set, nil
	}
	select {
	case types.reading <- struct{}{}:
		defer func() { <-types.reading }()
		return c.read(ctx, types, version)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// current gives the set that was read; ok is false where it must be read.
func (t *tenantTypes) current(version int64, now time.Time) (*Set, bool) {
	wanted, set := max(version, t.noticed.Load()), t.set.Load()
	if wanted == 0 && set == nil {
		return nil, true
	}
	return set, set != nil && set.answers >= wanted && now.Before(set.until)
}

// read reads the set, unless another caller has done so meanwhile. One caller reads at a time.
func (c *Checker) read(ctx context.Context, types *tenantTypes, version int64) (*Set, error) {
	now := c.options.Now()
	if set, ok := types.current(version, now); ok {
		return set, nil
	}
	wanted := max(version, types.noticed.Load())
	got, err := c.options.Set(ctx, types.tenant)
	if err != nil {
		return nil, err
	}
	set := &Set{version: got.Version, answers: max(got.Version, wanted), until: now.Add(setLife), types: make(map[string]*hop.CheckedType, len(got.Types))}
	for i := range got.Types {
		set.types[got.Types[i].Type] = &got.Types[i]
	}
	for {
		old := types.set.Load()
		// A set that was read late does not replace a newer one; one that was restored is newer once the old one has aged.
		if old != nil && old.version > set.version && now.Before(old.until) {
			return old, nil
		}
		if types.set.CompareAndSwap(old, set) {
			return set, nil
		}
	}
}

// knows says whether a tenant is known to have types.
func (c *Checker) knows(tenant string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.tenants[tenant]
	return ok
}

// of gives the cache of a tenant.
func (c *Checker) of(tenant string) *tenantTypes {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.tenants[tenant]; ok {
		c.recent.MoveToFront(found)
		return found.Value.(*tenantTypes) //nolint:forcetypeassert // the list holds nothing else
	}
	made := &tenantTypes{tenant: tenant, reading: make(chan struct{}, 1)}
	c.tenants[tenant] = c.recent.PushFront(made)
	if c.recent.Len() > mostTenants {
		last := c.recent.Remove(c.recent.Back()).(*tenantTypes) //nolint:forcetypeassert // the list holds nothing else
		delete(c.tenants, last.tenant)
	}
	return made
}

// InTurn does what takes long, such as compiling a schema, once the tenant has a seat. It is ErrBusy where none comes soon,
// or do does not end: do looks at its context.
func (c *Checker) InTurn(ctx context.Context, tenant string, do func(context.Context) error) error {
	within, cancel := context.WithTimeoutCause(ctx, maxWait, ErrBusy)
	defer cancel()
	seat, err := c.options.Seats.Take(within, seats.Work{Owner: tenant, Operation: "types", Guess: usualCheck})
	if err == nil {
		defer seat.Leave()
		err = do(within)
	}
	if errors.Is(err, seats.ErrFull) || errors.Is(err, seats.ErrDisplaced) || err != nil && ctx.Err() == nil && errors.Is(context.Cause(within), ErrBusy) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

// Ask is a value to be checked against a type.
type Ask struct {
	Of hop.CheckedType
	// Result says that it is a result; otherwise it is a payload.
	Result bool
	Value  json.RawMessage
}

func (a *Ask) checked() bool {
	if a.Result {
		return a.Of.ChecksResults
	}
	return a.Of.ChecksPayload
}

// Check checks a tenant's values: places has where each does not fit, none for one that fits. current is false where a
// type has changed meanwhile so much that its version is not kept: ask again, with the types as they are then.
func (c *Checker) Check(ctx context.Context, tenant string, asks []Ask) (places [][]Mismatch, current bool, err error) {
	places = make([][]Mismatch, len(asks))
	texts := map[schemaKey]json.RawMessage{} // of the schemas that are not compiled
	some := false
	for i := range asks {
		if !asks[i].checked() {
			continue
		}
		some = true
		if err = c.fetch(ctx, tenant, &asks[i], texts); errors.Is(err, errGone) {
			c.forget(tenant)
			return nil, false, nil
		}
		if err != nil {
			return places, true, err
		}
	}
	if !some {
		return places, true, nil
	}
	err = c.InTurn(ctx, tenant, func(ctx context.Context) error {
		for i := range asks {
			if !asks[i].checked() {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			schema, err := c.schema(tenant, &asks[i], texts)
			if err != nil {
				return err
			}
			places[i] = schema.Check(asks[i].Value)
		}
		return nil
	})
	if errors.Is(err, errGone) {
		c.forget(tenant)
		return nil, false, nil
	}
	return places, true, err
}

// forget has a tenant's types read again.
func (c *Checker) forget(tenant string) { c.of(tenant).set.Store(nil) }

func (a *Ask) key(tenant string) schemaKey {
	return schemaKey{tenant: tenant, jobType: a.Of.Type, revision: a.Of.Revision, created: a.Of.CreatedAt.UnixMicro(), result: a.Result}
}

// fetch reads the schema of an ask into texts, unless it is compiled or read already.
func (c *Checker) fetch(ctx context.Context, tenant string, ask *Ask, texts map[schemaKey]json.RawMessage) error {
	key := ask.key(tenant)
	if _, known := texts[key]; known || c.compiled.get(key) != nil {
		return nil
	}
	text, found, err := c.options.Schema(ctx, tenant, ask.Of, ask.Result)
	if err == nil && !found {
		err = errGone
	}
	texts[key] = text
	return err
}

// schema gives a compiled schema: one of texts is compiled now. It is errGone for one that is neither compiled any more
// nor in texts.
func (c *Checker) schema(tenant string, ask *Ask, texts map[schemaKey]json.RawMessage) (*Schema, error) {
	key := ask.key(tenant)
	if known := c.compiled.get(key); known != nil {
		return known, nil
	}
	text, found := texts[key]
	if !found {
		return nil, errGone
	}
	made, err := Compile(text)
	if err != nil {
		return nil, fmt.Errorf("jobtype: the schema of %s, version %d, was stored and cannot be compiled: %w", ask.Of.Type, ask.Of.Version, err)
	}
	c.compiled.put(key, made)
	return made, nil
}
