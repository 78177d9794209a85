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
// A value is hidden as a whole where it fits no version of its type, where the type is not known, and where an answer has more to
// be masked than its share of time. If the types cannot be read, the answer is an error.
package mask

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// Masks masks. It is safe for concurrent use.
type Masks struct {
	types   *jobtypes.Types
	schemas schemas
}

// New makes Masks.
func New(types *jobtypes.Types) *Masks {
	return &Masks{types: types, schemas: schemas{types: types, known: map[schemaKey]*entry{}}}
}

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

// Hide masks the results of a call, each for the principal of its item; tenants do not wait for each other. It takes seats of the
// processors, as the check of a value against its type does. Where the types cannot be read, failed sets the result.
func Hide[Req, Resp any](ctx context.Context, m *Masks, processors *seats.Seats, c Call[Req, Resp], failed func(i int, err error)) {
	if !carries(reflect.TypeFor[Resp]()) {
		return
	}
	byTenant := map[string][]int{}
	for i := range c.Results {
		value := c.Results[i].Value
		if value == nil || !Applies(c.Access, c.Items[i].Principal) {
			continue
		}
		if text, ok := any(*value).(json.RawMessage); ok && !mayHide(text) {
			continue
		}
		of := c.Items[i].Principal.Tenant
		byTenant[of] = append(byTenant[of], i)
	}
	if len(byTenant) == 0 {
		return
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	for owner, places := range byTenant {
		group.Go(func() {
			view, err := m.viewOf(ctx, owner)
			for _, i := range places {
				shown := *c.Results[i].Value
				if err == nil && view != nil {
					view.processors = processors
					err = view.answer(ctx, any(c.Items[i].Request), &shown)
				}
				if err != nil {
					mu.Lock()
					failed(i, err)
					mu.Unlock()
					continue
				}
				c.Results[i].Value = &shown
			}
		})
	}
	group.Wait()
}

// mayHide says whether the answer to a submit may have anything to be hidden: what its worker has said. Most have not.
func mayHide(text json.RawMessage) bool {
	return bytes.Contains(text, []byte(`"last_error":{`)) || bytes.Contains(text, []byte(`"progress":{`))
}

// View is what those see of a tenant's jobs who lack the scope payload, as the types were when it was made. It is not safe for
// concurrent use; nil shows all.
type View struct {
	masks *Masks
	owner tenant.ID
	// sensitive are the types that have anything sensitive, with their last revision.
	sensitive map[string]int64
	// loaded are those whose schemas the view has.
	loaded     map[string]*versions
	processors *seats.Seats
	// db reads schemas where they are read in a transaction; nil elsewhere.
	db store.Querier
	// left bounds what the view masks, in steps.
	left int
}

// maskSteps bounds the steps of a view: a second or so.
const maskSteps = 2_000_000

// View gives the view of a principal, for operations of tenants.
func (m *Masks) View(ctx context.Context, p hop.Principal) (*View, error) {
	if !Applies(hop.ForTenant, p) {
		return nil, nil //nolint:nilnil // it shows all
	}
	return m.viewOf(ctx, p.Tenant)
}

// ViewOfHooks gives the view of a tenant's webhooks, which have no key.
func (m *Masks) ViewOfHooks(ctx context.Context, owner tenant.ID) (*View, error) {
	return m.viewOf(ctx, owner.String())
}

func (m *Masks) viewOf(ctx context.Context, owner string) (*View, error) {
	id, err := uuid.Parse(owner)
	if err != nil {
		return nil, err
	}
	sensitive, err := m.types.Sensitive(ctx, id)
	if err != nil || len(sensitive) == 0 {
		return nil, err
	}
	return &View{masks: m, owner: id, sensitive: sensitive, loaded: map[string]*versions{}, left: maskSteps}, nil
}

// Hides says whether a type has anything sensitive.
func (v *View) Hides(jobType string) bool {
	if v == nil {
		return false
	}
	_, hides := v.sensitive[jobType]
	return hides
}

// Job gives a job as the view shows it.
func (v *View) Job(ctx context.Context, job api.Job) (api.Job, error) {
	if v == nil {
		return job, nil
	}
	err := v.mask(ctx, reflect.ValueOf(&job).Elem(), "")
	return job, err
}

// Event masks an event of a webhook, in a transaction.
func (v *View) Event(ctx context.Context, tx store.Querier, event *api.WebhookEvent) error {
	if v == nil {
		return nil
	}
	v.db = tx
	return v.mask(ctx, reflect.ValueOf(event).Elem(), "")
}

// answer masks the answer to a request, which it points to.
func (v *View) answer(ctx context.Context, request, answer any) (err error) {
	if text, ok := answer.(*json.RawMessage); ok {
		return v.stored(ctx, text)
	}
	asked := ""
	if id, ok := jobOf(request); ok {
		if asked, err = v.masks.types.TypeOf(ctx, v.owner, id); err != nil {
			return err
		}
	}
	return v.mask(ctx, reflect.ValueOf(answer).Elem(), asked)
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

// mask masks a value; asked is the type of the job that the request asks about, empty where that is not known.
func (v *View) mask(ctx context.Context, value reflect.Value, asked string) error {
	needed := walk{view: v, needs: map[string]bool{}}
	needed.value(value, asked)
	for name := range needed.needs {
		if v.loaded[name] != nil {
			continue
		}
		found, err := v.masks.schemas.get(ctx, v.processors, v.db, schemaKey{v.owner, name, v.sensitive[name]})
		if err != nil {
			return err
		}
		v.loaded[name] = found
	}
	v.processors.Run(ctx, seats.Work{Owner: v.owner.String(), Operation: "mask"}, func() {
		(&walk{view: v, done: ctx.Done()}).value(value, asked)
	})
	return ctx.Err()
}

// stored masks the answer to a submit, which is JSON already: that of one job may be another's, which has ended an attempt.
func (v *View) stored(ctx context.Context, text *json.RawMessage) error {
	var seen struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(*text, &seen); err != nil {
		return err
	}
	if !v.Hides(seen.Type) {
		return nil
	}
	var whole api.SubmitResponse
	if err := json.Unmarshal(*text, &whole); err != nil {
		return err
	}
	if err := v.mask(ctx, reflect.ValueOf(&whole).Elem(), ""); err != nil {
		return err
	}
	made, err := json.Marshal(&whole)
	*text = made
	return err
}

// show gives a JSON text as the view shows it.
func (v *View) show(text []byte, jobType, what string, over bool) []byte {
	of := v.loaded[jobType]
	if of == nil || what == ofAll || over {
		return jobtype.Mask(text, nil, nil)
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	schemas := of.payload
	if what == ofResult {
		schemas = of.result
	}
	return jobtype.Mask(text, schemas, &v.left)
}
