package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/mask"
	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
)

// PutType sets a job type: a new version of it, as long as it differs from the newest one. Its schemas are
// compiled, its examples are checked, and so are some of the jobs that wait, unless `force` is set. All
// gateways are notified.
//
//	@x-problems  ["schema_mismatch"]
//	@x-example-mail {"name": "mail.send", "value": {"payload_schema": {"type": "object", "required": ["to"], "properties": {"to": {"type": "string", "format": "email"}}}}}
func (o *Operations) PutType(ctx context.Context, owner tenant.ID, item hop.Item[hop.PutTypeRequest]) (hop.TypeVersion, error) {
	request := &item.Request
	if !api.ValidName(request.Name) {
		return hop.TypeVersion{}, store.ErrNotFound
	}
	// Validated by the gateway too, see submitCall.
	if fields := request.Value.Validate(); len(fields) > 0 {
		return hop.TypeVersion{}, problem.Invalid(fields...)
	}
	given := jobtypes.Definition{JobTypeRequest: request.Value, Reveals: !mask.Applies(hop.ForManager, item.Principal)}
	if view, err := o.Store.Masks.View(ctx, item.Principal); err != nil {
		return hop.TypeVersion{}, err
	} else if view.Hides(request.Name) { // before its waiting jobs are checked: which of them fit says what is in them
		return hop.TypeVersion{}, jobtypes.ErrSensitive
	}
	err := o.types.InTurn(ctx, owner.String(), func(ctx context.Context) (err error) {
		given.Sensitive, err = o.judgeType(ctx, owner, request)
		return err
	})
	if err != nil {
		return hop.TypeVersion{}, err
	}
	stored, changed, err := o.Store.JobTypes.PutType(ctx, owner, request.Name, given)
	if err == nil && changed > 0 {
		o.typesChanged(ctx, owner, changed)
	}
	return hop.TypeVersion{Revision: changed, JobType: stored}, err
}

// typesChanged tells cores and gateways.
func (o *Operations) typesChanged(ctx context.Context, owner tenant.ID, version int64) {
	o.Hints.TypesChanged(hop.TypesChanged{Tenant: owner.String(), Version: version})
	if err := o.Engine.Publisher.TypesChanged(ctx); err != nil {
		o.Logger.WarnContext(ctx, "changed types are known here only after the next refresh", "tenant", owner, "error", err)
	}
}

// judgeType compiles the schemas of a type, and checks what should fit them. sensitive says that they mark something so.
func (o *Operations) judgeType(ctx context.Context, owner tenant.ID, request *hop.PutTypeRequest) (sensitive bool, err error) {
	payload, wrong := compileSchema("payload_schema", request.Value.PayloadSchema)
	result, wrongResult := compileSchema("result_schema", request.Value.ResultSchema)
	if wrong = append(wrong, wrongResult...); len(wrong) > 0 {
		return false, problem.Invalid(wrong...)
	}
	sensitive = payload != nil && payload.Sensitive() || result != nil && result.Sensitive()
	if payload == nil {
		return sensitive, nil
	}
	for i, example := range request.Value.Examples {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		wrong = append(wrong, fieldErrors(fmt.Sprintf("examples[%d]", i), payload.Check(example))...)
	}
	if len(wrong) > 0 {
		return false, problem.Invalid(wrong[:min(len(wrong), jobtype.MaxMismatches)]...)
	}
	if request.Force {
		return sensitive, nil
	}
	return sensitive, o.judgeWaiting(ctx, owner, request, payload)
}

// compileSchema gives nil for none.
func compileSchema(field string, text json.RawMessage) (*jobtype.Schema, []problem.FieldError) {
	if !api.HasSchema(text) {
		return nil, nil
	}
	made, err := jobtype.Compile(text)
	if refused, ok := errors.AsType[*jobtype.SchemaError](err); ok {
		return nil, fieldErrors(field, refused.Mismatches)
	}
	return made, nil
}

func fieldErrors(field string, found []jobtype.Mismatch) []problem.FieldError {
	made := make([]problem.FieldError, len(found))
	for i := range found {
		made[i] = problem.FieldError{Field: field + found[i].Pointer, Message: found[i].String()}
	}
	return made
}

// The jobs that have not ended of which a new schema is checked, and the bytes of their payloads.
const (
	mostLive  = 1000
	liveBytes = 4 << 20
)

// judgeWaiting refuses a schema that waiting jobs do not fit, as far as it looks.
func (o *Operations) judgeWaiting(ctx context.Context, owner tenant.ID, request *hop.PutTypeRequest, payload *jobtype.Schema) error {
	live, err := o.Store.JobTypes.LiveJobs(ctx, owner, request.Name, mostLive, liveBytes)
	if err != nil {
		return err
	}
	refused := 0
	var wrong []problem.FieldError
	for _, job := range live {
		if err := ctx.Err(); err != nil {
			return err
		}
		if found := payload.Check(job.Payload); len(found) > 0 {
			refused++
			if len(wrong) < jobtype.MaxMismatches {
				wrong = append(wrong, problem.FieldError{Field: "payload_schema", Message: fmt.Sprintf("the job %s, at %q: %s", job.ID, found[0].Pointer, found[0].String())})
			}
		}
	}
	if refused == 0 {
		return nil
	}
	p := problem.New(problem.SchemaMismatch, fmt.Sprintf("Of %d jobs of the type that were looked at and have not ended, %d do not fit the payload_schema. "+
		"Their workers get them unchecked. Store it nevertheless with force=true, or change the schema.", len(live), refused))
	p.Errors = wrong
	return p
}

// GetType reads a version of a job type that is kept; 0, or absent, is the newest. With its revision, which
// no other version of the tenant's types has.
//
//	@x-problems  ["not_found"]
//	@x-example-newest {"name": "mail.send"}
func (o *Operations) GetType(ctx context.Context, owner tenant.ID, item hop.Item[hop.TypeVersionRequest]) (hop.TypeVersion, error) {
	found, revision, err := o.Store.JobTypes.Type(ctx, owner, item.Request.Name, item.Request.Version)
	return hop.TypeVersion{Revision: revision, JobType: found}, err
}

// ListTypes lists a tenant's job types, by name, without schemas and examples.
func (o *Operations) ListTypes(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.JobTypeSummary], error) {
	of := pages.ListingOf(hop.ListTypes.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return pages.Listed(o.Pages, of, pages.ByText, func(one api.JobTypeSummary) string { return one.Type }, func(after string, limit int) ([]api.JobTypeSummary, error) {
		return o.Store.JobTypes.ListTypes(ctx, owner, after, limit)
	})
}

// ListTypeVersions lists the versions of a job type that are kept, newest first.
//
//	@x-problems  ["not_found"]
//	@x-example-first {"for": "mail.send", "page_size": 50}
func (o *Operations) ListTypeVersions(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageFor]) (api.Page[api.JobTypeSummary], error) {
	of := pages.ListingOf(hop.ListTypeVersions.Path, item.Principal, item.Request.For, item.Request.PageSize, item.Request.PageToken)
	key := func(one api.JobTypeSummary) string { return strconv.Itoa(one.Version) }
	return pages.Listed(o.Pages, of, pages.NewestInt, key, func(before, limit int) ([]api.JobTypeSummary, error) {
		return o.Store.JobTypes.TypeVersions(ctx, owner, item.Request.For, before, limit)
	})
}

// DeleteType deletes a job type, with all of its versions. All gateways are notified. The answer has the
// version of the tenant's types since.
//
//	@x-problems  ["not_found"]
//	@x-example-mail {"name": "mail.send"}
func (o *Operations) DeleteType(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (hop.TypesChanged, error) {
	changed, err := o.Store.JobTypes.DeleteType(ctx, owner, item.Request.Name, !mask.Applies(hop.ForManager, item.Principal))
	if err == nil {
		o.typesChanged(ctx, owner, changed)
	}
	return hop.TypesChanged{Tenant: owner.String(), Version: changed}, err
}

// DocumentTypes reads a tenant's job types with their schemas. The newest version of each, by name, as long
// as they have at most 4 MiB; `left_out` counts the others.
func (o *Operations) DocumentTypes(ctx context.Context, owner tenant.ID, _ hop.Item[struct{}]) (hop.TypeDocuments, error) {
	return o.Store.JobTypes.TypeDocuments(ctx, owner)
}

// ReadTypes reads what gateways need to know of all job types of a tenant. The newest version of each,
// without schemas and examples, and the version of them all. Gateways cache it.
func (o *Operations) ReadTypes(ctx context.Context, owner tenant.ID, _ hop.Item[struct{}]) (hop.TypeSet, error) {
	return o.Store.JobTypes.TypeSet(ctx, owner)
}

// newTypes checks results.
func newTypes(o Options) *jobtype.Checker {
	return jobtype.NewChecker(jobtype.Options{
		Seats: o.Processors,
		Set: func(ctx context.Context, owner string) (hop.TypeSet, error) {
			id, err := uuid.Parse(owner)
			if err != nil {
				return hop.TypeSet{}, err
			}
			return o.Store.JobTypes.TypeSet(ctx, id)
		},
		Schema: func(ctx context.Context, owner string, of hop.CheckedType, result bool) (json.RawMessage, bool, error) {
			id, err := uuid.Parse(owner)
			if err != nil {
				return nil, false, err
			}
			found, revision, err := o.Store.JobTypes.Type(ctx, id, of.Type, of.Version)
			if errors.Is(err, store.ErrNotFound) || err == nil && revision != of.Revision {
				return nil, false, nil
			}
			if result {
				return found.ResultSchema, true, err
			}
			return found.PayloadSchema, true, err
		},
	})
}

// resultOf is the result of a running job whose tenant has results checked.
type resultOf struct {
	place   int
	jobType string
	value   json.RawMessage
}

// resultsToCheck gives those results, of outcomes that complete a job, by tenant.
func (o *Operations) resultsToCheck(ctx context.Context, owner tenant.ID, sent []api.OutcomeRequest) (map[tenant.ID][]resultOf, error) {
	if !o.Engine.Cached.Limits.ChecksResults(owner) {
		return nil, nil //nolint:nilnil // nothing is to be checked
	}
	places := map[uuid.UUID][]int{} // a job may be reported more than once
	var ids []uuid.UUID
	for i := range sent {
		if id, err := uuid.Parse(sent[i].JobID); err == nil && sent[i].Kind == api.KindComplete {
			places[id], ids = append(places[id], i), append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil //nolint:nilnil // as above
	}
	running, err := o.Store.JobTypes.RunningJobs(ctx, owner, ids)
	if err != nil {
		return nil, err
	}
	byTenant := map[tenant.ID][]resultOf{}
	for _, job := range running {
		for _, place := range places[job.ID] {
			if o.Engine.Cached.Limits.ChecksResults(job.TenantID) {
				byTenant[job.TenantID] = append(byTenant[job.TenantID], resultOf{place, job.Type, sent[place].Result})
			}
		}
	}
	return byTenant, nil
}

// checkResults gives, by the place of its outcome, why a result is refused. Tenants do not wait for each other.
func (o *Operations) checkResults(ctx context.Context, byTenant map[tenant.ID][]resultOf) map[int]error {
	var mu sync.Mutex
	refused := map[int]error{}
	var group sync.WaitGroup
	for of, results := range byTenant {
		group.Go(func() {
			found, err := o.checkResultsOf(ctx, of, results)
			mu.Lock()
			defer mu.Unlock()
			for i, one := range results {
				switch {
				case err != nil:
					refused[one.place] = err
				case len(found[i]) > 0:
					p := problem.New(problem.SchemaMismatch, "The result does not fit the result_schema of the type "+one.jobType+". The lease stays: complete the job with another result, or fail it.")
					p.Errors = fieldErrors("result", found[i])
					refused[one.place] = p
				}
			}
		})
	}
	group.Wait()
	return refused
}

// checkResultsOf checks results of one tenant's jobs.
func (o *Operations) checkResultsOf(ctx context.Context, of tenant.ID, results []resultOf) (found [][]jobtype.Mismatch, err error) {
	err = o.askTypes(ctx, of, func(set *jobtype.Set) []jobtype.Ask {
		asks := make([]jobtype.Ask, len(results))
		for i, one := range results {
			if known := set.Type(one.jobType); known != nil {
				asks[i] = jobtype.Ask{Of: *known, Result: true, Value: one.value}
			}
		}
		return asks
	}, func(_ []jobtype.Ask, all [][]jobtype.Mismatch) { found = all })
	return found, err
}

// checkTypes gives jobs of a tenant the defaults of their types, and checks their payloads. refused runs in parallel to jobs.
func (o *Operations) checkTypes(ctx context.Context, of tenant.ID, jobs []api.SubmitRequest) (refused []*problem.Problem, err error) {
	refused = make([]*problem.Problem, len(jobs))
	if o.Engine.Cached.Limits.TypesVersion(of) == 0 {
		return refused, nil
	}
	err = o.askTypes(ctx, of, func(set *jobtype.Set) []jobtype.Ask {
		asks := make([]jobtype.Ask, len(jobs))
		for i := range jobs {
			if known := set.Type(jobs[i].Type); known != nil {
				asks[i] = jobtype.Ask{Of: *known, Value: jobs[i].Payload}
			}
		}
		return asks
	}, func(asks []jobtype.Ask, found [][]jobtype.Mismatch) {
		for i := range jobs {
			if len(found[i]) == 0 {
				asks[i].Of.Defaults.Apply(&jobs[i])
				continue
			}
			refused[i] = problem.New(problem.SchemaMismatch, "The payload does not fit the payload_schema of the type "+jobs[i].Type+".")
			refused[i].Errors = fieldErrors("payload", found[i])
		}
	})
	return refused, err
}

// askTypes checks values of a tenant by its types as they are now: a type may change meanwhile.
func (o *Operations) askTypes(ctx context.Context, of tenant.ID, asks func(*jobtype.Set) []jobtype.Ask, checked func([]jobtype.Ask, [][]jobtype.Mismatch)) error {
	for range 3 {
		set, err := o.types.Types(ctx, of.String(), o.Engine.Cached.Limits.TypesVersion(of))
		if err != nil {
			return err
		}
		all := asks(set)
		found, current, err := o.types.Check(ctx, of.String(), all)
		if err != nil {
			return err
		}
		if current {
			checked(all, found)
			return nil
		}
	}
	return fmt.Errorf("%w: the types change all the time", jobtype.ErrBusy)
}
