package mask

import (
	"context"
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

const (
	// knownBytes bounds the compiled schemas that are kept of all tenants, typeBytes those of one type.
	knownBytes = 32 << 20
	typeBytes  = 8 << 20
	// knownTypes bounds the types.
	knownTypes = 5000
)

// schemas are the compiled schemas of types that have anything sensitive. Each is compiled once, however many ask.
type schemas struct {
	types *jobtypes.Types

	mu     sync.Mutex
	known  map[schemaKey]*entry
	weight int
}

// schemaKey is a type as of a revision: a change of it has another one.
type schemaKey struct {
	tenant   tenant.ID
	jobType  string
	revision int64
}

type entry struct {
	ready chan struct{}
	of    *versions
	err   error
}

// versions are the schemas of the kept versions of a type; nil stands for one that cannot be compiled, or for which there was no
// room: then everything is hidden.
type versions struct {
	// mu is for the schemas, which are not safe for concurrent use.
	mu              sync.Mutex
	payload, result []*jobtype.Schema
	weight          int
}

// get gives the schemas of a type; db reads them, where not nil.
func (s *schemas) get(ctx context.Context, processors *seats.Seats, db store.Querier, key schemaKey) (*versions, error) {
	for {
		one, first := s.enter(key)
		if first {
			one.of, one.err = s.load(ctx, processors, db, key)
			s.keep(key, one)
			close(one.ready)
			return one.of, one.err
		}
		select {
		case <-one.ready:
			if one.err == nil {
				return one.of, nil
			} // else the first one has failed, perhaps because its caller left: this one asks itself
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enter gives the entry of a type; first says that its caller has to load it.
func (s *schemas) enter(key schemaKey) (one *entry, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[key]; known != nil {
		return known, false
	}
	one = &entry{ready: make(chan struct{})}
	s.known[key] = one
	return one, true
}

// keep keeps what was loaded, as long as there is room.
func (s *schemas) keep(key schemaKey, one *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.err != nil {
		delete(s.known, key)
		return
	}
	if s.weight += one.of.weight; s.weight > knownBytes || len(s.known) > knownTypes {
		s.known, s.weight = map[schemaKey]*entry{key: one}, one.of.weight
	}
}

// anything is the schema of a version without one.
const anything = `true`

func (s *schemas) load(ctx context.Context, processors *seats.Seats, db store.Querier, key schemaKey) (*versions, error) {
	rows, err := s.types.Versions(ctx, db, key.tenant, key.jobType)
	if err != nil {
		return nil, err
	}
	made := &versions{}
	processors.Run(ctx, seats.Work{Owner: key.tenant.String(), Operation: "mask"}, func() {
		for _, row := range rows {
			made.payload = append(made.payload, made.compile(row.PayloadSchema))
			made.result = append(made.result, made.compile(row.ResultSchema))
		}
	})
	return made, nil
}

func (v *versions) compile(text []byte) *jobtype.Schema {
	if text == nil {
		text = []byte(anything)
	}
	if v.weight > typeBytes {
		return nil
	}
	made, err := jobtype.Compile(text)
	if err != nil {
		return nil
	}
	v.weight += made.Weight()
	return made
}
