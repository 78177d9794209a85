// Package mask hides sensitive values from keys without the scope payload. There is one place for it, where an answer leaves core:
// whatever reads a job, and by whatever route, has its answer pass here. Gateways have jobs from nowhere else. What leaves by
// itself, the events of webhooks, is masked with Event before it is stored.
//
// A field of an answer says by its tag `sensitive` what it is:
//
//	payload  a JSON value, or some, that the type's payload_schema describes: what x-sensitive marks in it is hidden
//	result   the same of its result_schema
//	all      what no schema describes, such as an error's message: it is hidden if the type has anything sensitive
//	type     the type of the job, for the fields beside it and below
//
// A value is hidden as a whole where it fits no version of its type, or where the type is not known. If the types cannot be read,
// the answer is an error.
package mask

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// knownBytes bounds the compiled schemas that are kept of all tenants; knownTenants bounds the tenants.
const (
	knownBytes   = 32 << 20
	knownTenants = 1000
)

// Masks has the statements. It is safe for concurrent use.
type Masks struct {
	types *jobtypes.Types

	mu     sync.Mutex
	known  map[tenant.ID]*sensitiveTypes
	weight int
}

// New makes Masks.
func New(types *jobtypes.Types) *Masks {
	return &Masks{types: types, known: map[tenant.ID]*sensitiveTypes{}}
}

// sensitiveTypes are the types of a tenant that have anything sensitive, as of a version of its types.
type sensitiveTypes struct {
	version int64
	weight  int
	// mu is for the schemas, which are not safe for concurrent use.
	mu    sync.Mutex
	types map[string]*versions
}

// versions are the schemas of the kept versions of a type. A nil schema stands for a version without one.
type versions struct{ payload, result []*jobtype.Schema }

// Applies says whether a principal has sensitive values hidden in an operation's answers. Workers see all.
func Applies(access hop.Access, p hop.Principal) bool {
	switch {
	case p.Kind != hop.PrincipalTenant, slices.Contains(p.Scopes, api.ScopePayload), access == hop.ForWorker:
		return false
	case access == hop.ForReaderOrWorker:
		return !slices.Contains(p.Scopes, api.ScopeWork)
	}
	return true
}

// Call is a call whose results are masked.
type Call[Req, Resp any] struct {
	Access  hop.Access
	Items   []hop.Item[Req]
	Results []hop.Result[Resp]
}

// Hide masks the results of a call, each for the principal of its item. It takes seats of the processors, as the check of a value
// against its type does. Where the types cannot be read, failed sets the result.
func Hide[Req, Resp any](ctx context.Context, m *Masks, processors *seats.Seats, c Call[Req, Resp], failed func(i int, err error)) {
	if !carries(reflect.TypeFor[Resp]()) {
		return
	}
	for i := range c.Results {
		if c.Results[i].Value == nil || !Applies(c.Access, c.Items[i].Principal) {
			continue
		}
		shown := *c.Results[i].Value
		if err := m.answer(ctx, processors, c.Items[i].Principal, any(c.Items[i].Request), &shown); err != nil {
			failed(i, err)
			continue
		}
		c.Results[i].Value = &shown
	}
}

// answer masks the answer to a request, which it points to.
func (m *Masks) answer(ctx context.Context, processors *seats.Seats, p hop.Principal, request, answer any) error {
	owner, err := uuid.Parse(p.Tenant)
	if err != nil {
		return err
	}
	types, err := m.of(ctx, processors, owner)
	if err != nil || types == nil {
		return err
	}
	w := walk{types: types}
	if id, ok := jobOf(request); ok {
		if w.asked, err = m.types.TypeOf(ctx, owner, id); err != nil {
			return err
		}
	}
	types.mu.Lock()
	defer types.mu.Unlock()
	processors.Run(ctx, seats.Work{Owner: p.Tenant, Operation: "mask"}, func() {
		if text, ok := answer.(*json.RawMessage); ok {
			err = w.stored(text)
			return
		}
		w.value(reflect.ValueOf(answer).Elem(), w.asked)
	})
	return err
}

// Job gives a job as a principal sees it.
func (m *Masks) Job(ctx context.Context, p hop.Principal, job api.Job) (api.Job, error) {
	if !Applies(hop.ForTenant, p) {
		return job, nil
	}
	err := m.answer(ctx, nil, p, nil, &job)
	return job, err
}

// Event masks the event of a job for a webhook, which has no key.
func (m *Masks) Event(ctx context.Context, owner tenant.ID, event *api.WebhookEvent) error {
	types, err := m.of(ctx, nil, owner)
	if err != nil || types == nil {
		return err
	}
	types.mu.Lock()
	defer types.mu.Unlock()
	w := walk{types: types}
	w.value(reflect.ValueOf(event).Elem(), "")
	return nil
}

// jobOf is the job that a request asks about, if its answer does not name the job's type.
func jobOf(request any) (uuid.UUID, bool) {
	var text string
	switch r := request.(type) {
	case hop.PageFor:
		text = r.For
	case hop.ReadOutputRequest:
		text = r.ID
	case hop.SignalsRequest:
		text = r.ID
	case hop.ExplainJobRequest:
		text = r.ID
	default:
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}

// of gives the types of a tenant that have anything sensitive, as they are now; nil for none.
func (m *Masks) of(ctx context.Context, processors *seats.Seats, owner tenant.ID) (*sensitiveTypes, error) {
	version, some, err := m.types.Sensitive(ctx, owner)
	if err != nil || !some {
		return nil, err
	}
	m.mu.Lock()
	known := m.known[owner]
	m.mu.Unlock()
	if known != nil && known.version == version {
		return known, nil
	}
	rows, err := m.types.SensitiveVersions(ctx, owner)
	if err != nil {
		return nil, err
	}
	made := &sensitiveTypes{version: version, types: map[string]*versions{}}
	processors.Run(ctx, seats.Work{Owner: owner.String(), Operation: "mask"}, func() {
		for _, row := range rows {
			if made.types[row.Type] == nil {
				made.types[row.Type] = &versions{}
			}
			of := made.types[row.Type]
			of.payload = append(of.payload, made.compile(row.PayloadSchema))
			of.result = append(of.result, made.compile(row.ResultSchema))
		}
	})
	m.keep(owner, made)
	return made, nil
}

// anything is the schema of a version without one.
const anything = `true`

// compile gives nil for a schema that cannot be compiled any more: then nothing fits it.
func (s *sensitiveTypes) compile(text []byte) *jobtype.Schema {
	if text == nil {
		text = []byte(anything)
	}
	made, err := jobtype.Compile(text)
	if err != nil {
		return nil
	}
	s.weight += made.Weight()
	return made
}

// keep keeps the types for the next answer.
func (m *Masks) keep(owner tenant.ID, made *sensitiveTypes) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.known[owner]; old != nil {
		m.weight -= old.weight
		delete(m.known, owner)
	}
	if m.weight+made.weight > knownBytes || len(m.known) >= knownTenants {
		m.known, m.weight = map[tenant.ID]*sensitiveTypes{}, 0
	}
	m.known[owner] = made
	m.weight += made.weight
}
