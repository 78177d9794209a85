package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// kind is a kind of objects that a file declares.
type kind struct {
	// noun names one of them, section is the member of a file that has them.
	noun, section string
	// operator says that it takes the operator's key.
	operator bool
	// body is the request that sets one.
	body reflect.Type
	// decode reads settings out of JSON that fits body, and says what the API would refuse of them.
	decode func(name string, text []byte) (settings, []problem.FieldError, error)
	// list reads what is there. It may leave out the settings of objects that are not wanted, but for the label and a type's defaults.
	// Two of one name that is wanted are an error; so are two of which one has the label of what is to be deleted, unless that is "".
	list func(ctx context.Context, c *client.Client, wanted func(name string) bool, label string) (map[string]settings, error)
	// put makes an object, or sets all of its settings. there is what was listed. The secret is that of an object that has a new one.
	put func(ctx context.Context, c *client.Client, name string, to, there settings) (secret *string, err error)
	// remove is nil where the API cannot delete one.
	remove func(ctx context.Context, c *client.Client, name string, there settings) error
}

// settings are those of an object.
type settings struct {
	// request sets them: a value of the kind's body.
	request any
	// tree is request with the API's defaults, as JSON values, without secrets.
	tree any
	// id is of an object whose name is no id.
	id string
}

// label is what the object belongs to; "" for nothing.
func (s settings) label() string {
	fields, _ := s.tree.(map[string]any)
	label, _ := fields["label"].(string)
	return label
}

// kinds are in the order in which objects are made: each may name those of kinds before it. They are deleted in the opposite order.
func kinds() []*kind {
	return []*kind{
		planKind(), tenantKind(), budgetKind(), queueKind(), typeKind(), webhookKind(), scheduleKind(),
	}
}

// request sets an object.
type request[R any] interface {
	*R
	WithDefaults() R
}

// with fills in what is the same for all kinds. R is the request that sets an object, A the API's answer of one.
func with[R, A any, P request[R]](
	k kind, validate func(*R, string) []problem.FieldError, shown func(R) R,
	pages func(*client.Client) func(context.Context, client.PageRequest) (api.Page[A], error), name func(*A) string,
	read func(ctx context.Context, c *client.Client, one *A, wanted bool) (request R, id string, err error),
	put func(ctx context.Context, c *client.Client, name string, request R, id string) (*string, error),
) *kind {
	made := func(request R, id string) settings {
		return settings{request, tree(shown(P(&request).WithDefaults())), id}
	}
	k.body = reflect.TypeFor[R]()
	k.decode = func(name string, text []byte) (settings, []problem.FieldError, error) {
		var request R
		if err := json.Unmarshal(text, &request); err != nil {
			return settings{}, nil, err
		}
		return made(request, ""), validate(&request, name), nil
	}
	k.list = func(ctx context.Context, c *client.Client, wanted func(string) bool, label string) (map[string]settings, error) {
		found := map[string]settings{}
		for one, err := range client.All(ctx, pages(c)) {
			if err != nil {
				return nil, err
			}
			request, id, err := read(ctx, c, &one, wanted(name(&one)))
			if err != nil {
				return nil, err
			}
			this := made(request, id)
			other, twice := found[name(&one)]
			if twice && (wanted(name(&one)) || label != "" && (this.label() == label || other.label() == label)) {
				return nil, problem.New(problem.InvalidRequest, "There are two of the name "+name(&one)+": give one of them another name.")
			}
			found[name(&one)] = this
		}
		return found, nil
	}
	k.put = func(ctx context.Context, c *client.Client, name string, to, there settings) (*string, error) {
		request, _ := to.request.(R)
		return put(ctx, c, name, request, there.id)
	}
	return &k
}

// named is with for objects that their names identify: their answers give their requests, and they are deleted by name.
func named[R, A any, P request[R]](
	k kind, validate func(*R, string) []problem.FieldError, pages func(*client.Client) func(context.Context, client.PageRequest) (api.Page[A], error),
	name func(*A) string, request func(*A) R, put func(*client.Client, context.Context, string, R) (A, error), secret func(*A) *string,
	remove func(*client.Client, context.Context, string) error,
) *kind {
	if remove != nil {
		k.remove = func(ctx context.Context, c *client.Client, name string, _ settings) error {
			return remove(c, ctx, name)
		}
	}
	return with[R, A, P](k, validate, func(r R) R { return r }, pages, name,
		func(_ context.Context, _ *client.Client, one *A, _ bool) (R, string, error) {
			return request(one), "", nil
		},
		func(ctx context.Context, c *client.Client, name string, r R, _ string) (*string, error) {
			answer, err := put(c, ctx, name, r)
			return secret(&answer), err
		})
}

type pages[A any] = func(context.Context, client.PageRequest) (api.Page[A], error)

func noSecret[A any](*A) *string { return nil }

func planKind() *kind {
	return named(kind{noun: "plan", section: "plans", operator: true},
		func(r *api.PlanRequest, _ string) []problem.FieldError { return r.Validate() },
		func(c *client.Client) pages[api.Plan] { return c.ListPlans }, func(p *api.Plan) string { return p.Name },
		(*api.Plan).Request, (*client.Client).PutPlan, noSecret, nil)
}

func budgetKind() *kind {
	return named(kind{noun: "budget", section: "budgets"},
		func(r *api.BudgetRequest, _ string) []problem.FieldError { return r.Validate() },
		func(c *client.Client) pages[api.Budget] { return c.Budgets }, func(b *api.Budget) string { return b.Name },
		(*api.Budget).Request, (*client.Client).PutBudget, noSecret, (*client.Client).DeleteBudget)
}

func webhookKind() *kind {
	return named(kind{noun: "webhook", section: "webhooks"},
		func(r *api.WebhookRequest, _ string) []problem.FieldError { return r.Validate() },
		func(c *client.Client) pages[api.Webhook] { return c.Webhooks }, func(w *api.Webhook) string { return w.Name },
		(*api.Webhook).Request, (*client.Client).PutWebhook, func(w *api.Webhook) *string { return w.Secret }, (*client.Client).DeleteWebhook)
}

func scheduleKind() *kind {
	return named(kind{noun: "schedule", section: "schedules"},
		func(r *api.ScheduleRequest, _ string) []problem.FieldError { return r.Validate(time.Now()) },
		func(c *client.Client) pages[api.Schedule] { return c.Schedules }, func(s *api.Schedule) string { return s.Name },
		(*api.Schedule).Request, (*client.Client).PutSchedule, noSecret, (*client.Client).DeleteSchedule)
}

// withTypeDefaults are the settings of a schedule as the server stores them: its job has the defaults of its type.
func withTypeDefaults(of settings, types map[string]settings) settings {
	request, _ := of.request.(api.ScheduleRequest)
	known, _ := types[request.Job.Type].request.(api.JobTypeRequest)
	if known.Defaults == nil {
		return of
	}
	full := request.Job.Submit()
	known.Defaults.Apply(&full)
	job := &request.Job
	job.Queue, job.Priority, job.MaxAttempts, job.TimeoutMS, job.Retry = full.Queue, full.Priority, full.MaxAttempts, full.TimeoutMS, full.Retry
	return settings{request, tree(request.WithDefaults()), of.id}
}

func typeKind() *kind {
	k := kind{noun: "type", section: "types"}
	k.remove = func(ctx context.Context, c *client.Client, name string, _ settings) error {
		return c.DeleteType(ctx, name)
	}
	return with(k, func(r *api.JobTypeRequest, _ string) []problem.FieldError { return r.Validate() },
		func(r api.JobTypeRequest) api.JobTypeRequest { return r },
		func(c *client.Client) pages[api.JobTypeSummary] { return c.Types }, func(t *api.JobTypeSummary) string { return t.Type },
		func(ctx context.Context, c *client.Client, one *api.JobTypeSummary, wanted bool) (api.JobTypeRequest, string, error) {
			if !wanted {
				return api.JobTypeRequest{Defaults: &one.Defaults, Label: one.Label}, "", nil
			}
			whole, err := c.Type(ctx, one.Type) // a list is without the schemas
			return whole.Request(), "", err
		},
		func(ctx context.Context, c *client.Client, name string, r api.JobTypeRequest, _ string) (*string, error) {
			_, err := c.PutType(ctx, name, r)
			return nil, err
		})
}

// credentials stand for the user and password of a broker in the URL of a push.
const credentials = "***@"

func queueKind() *kind {
	k := kind{noun: "queue", section: "queues"}
	k.remove = func(ctx context.Context, c *client.Client, name string, _ settings) error {
		return c.DeleteQueue(ctx, name)
	}
	return with(k, validQueue, shownQueue,
		func(c *client.Client) pages[api.Queue] {
			return func(ctx context.Context, page client.PageRequest) (api.Page[api.Queue], error) {
				return c.QueuesWithin(ctx, 1, page)
			}
		},
		func(q *api.Queue) string { return q.Name },
		func(_ context.Context, _ *client.Client, one *api.Queue, _ bool) (api.QueueRequest, string, error) {
			request := one.Settings.Request()
			if push := one.Settings.Push; push != nil && push.CredentialsSet {
				request.Push.URL = withCredentials(push.URL)
			}
			return request, "", nil
		},
		func(ctx context.Context, c *client.Client, name string, r api.QueueRequest, _ string) (*string, error) {
			answer, err := c.PutQueue(ctx, name, r)
			if answer.Settings.Push == nil || r.Push.Secret != nil { // which the file has
				return nil, err
			}
			return answer.Settings.Push.Secret, err
		})
}

func validQueue(r *api.QueueRequest, _ string) []problem.FieldError {
	refused := r.Validate()
	if r.Push != nil && r.Push.NewSecret {
		refused = append(refused, problem.FieldError{Field: "push.new_secret", Message: "is no setting: it would make a new secret each time; use `forgequeue queue set --new-push-secret`"})
	}
	return refused
}

// shownQueue is the request as it is compared and shown: without its secrets, and with the URL as the API gives it back.
func shownQueue(r api.QueueRequest) api.QueueRequest {
	if r.Push == nil {
		return r
	}
	push := *r.Push
	push.Secret = nil
	if broker, wrong := api.BrokerURL(push.URL); wrong == "" && api.IsBrokerURL(push.URL) {
		if push.URL = broker.URL.String(); broker.HasUser {
			push.URL = withCredentials(push.URL)
		}
	}
	r.Push = &push
	return r
}

func withCredentials(url string) string { return strings.Replace(url, "://", "://"+credentials, 1) }

// tenant is a tenant of a file: the fields that POST and PATCH take.
type tenant struct {
	Plan      *string        `json:"plan,omitzero"`
	Weight    *int           `json:"weight,omitzero"`
	Overrides *api.Overrides `json:"overrides,omitzero"`
	// Cell is where a new tenant is made. A tenant is not moved.
	Cell  *string `json:"cell,omitzero"`
	Label *string `json:"label,omitzero"`
}

// WithDefaults is the tenant with the API's defaults in the place of what is absent.
func (t *tenant) WithDefaults() tenant {
	made := *t
	if made.Plan == nil {
		made.Plan = new("standard")
	}
	if made.Weight == nil {
		made.Weight = new(1)
	}
	overrides := api.Overrides{}
	if t.Overrides != nil {
		overrides = *t.Overrides
	}
	if len(overrides.Users) == 0 {
		overrides.Users = nil
	}
	made.Overrides = &overrides
	return made
}

func tenantKind() *kind {
	k := kind{noun: "tenant", section: "tenants", operator: true}
	k.remove = func(ctx context.Context, c *client.Client, _ string, there settings) error {
		_, err := c.DeleteTenant(ctx, there.id)
		return err
	}
	create := func(name string, t *tenant) api.TenantRequest {
		return api.TenantRequest{Name: name, Plan: t.Plan, Weight: t.Weight, Cell: t.Cell, Label: t.Label}
	}
	return with(k,
		func(t *tenant, name string) []problem.FieldError {
			request := create(name, t)
			return append(request.Validate(), (&api.TenantPatch{Overrides: t.Overrides}).Validate()...)
		},
		func(t tenant) tenant { t.Cell = nil; return t },
		livingTenants, func(t *api.Tenant) string { return t.Name },
		func(_ context.Context, _ *client.Client, one *api.Tenant, _ bool) (tenant, string, error) {
			return tenant{Plan: &one.Plan, Weight: &one.Weight, Overrides: &one.Overrides, Label: one.Label}, one.ID, nil
		},
		func(ctx context.Context, c *client.Client, name string, t tenant, id string) (*string, error) {
			full := t.WithDefaults()
			if id == "" {
				made, err := c.CreateTenant(ctx, create(name, &t))
				if err != nil || reflect.ValueOf(*full.Overrides).IsZero() {
					return nil, err
				}
				id = made.ID
			}
			label := ""
			if t.Label != nil {
				label = *t.Label
			}
			_, err := c.PatchTenant(ctx, id, api.TenantPatch{Plan: full.Plan, Weight: full.Weight, Overrides: full.Overrides, Label: &label})
			return nil, err
		})
}

// livingTenants lists those that are not being deleted: another one may have such a one's name.
func livingTenants(c *client.Client) pages[api.Tenant] {
	return func(ctx context.Context, page client.PageRequest) (api.Page[api.Tenant], error) {
		answer, err := c.ListTenants(ctx, page)
		var living []api.Tenant
		for _, one := range answer.Items {
			if one.Deletion == nil {
				living = append(living, one)
			}
		}
		answer.Items = living
		return answer, err
	}
}

// tree is a value as JSON values, with numbers as they are written.
func tree(value any) (made any) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil // it was read from JSON
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	_ = decoder.Decode(&made) // it was written above
	return made
}
