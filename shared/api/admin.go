package api

// Whoami tells a caller what its key is.
type Whoami struct {
	Tenant *string  `json:"tenant"`
	User   *string  `json:"user"`
	Scopes []string `json:"scopes"`
	Plan   *string  `json:"plan"`
	KeyID  string   `json:"key_id"`
	// SessionsEnded is how often all console sessions of the key were ended: one from before the last time is over.
	SessionsEnded int64 `json:"sessions_ended"`
	// TenantName is the tenant's name, for people; null for a key of no tenant. A new name is seen within 30 seconds.
	TenantName *string `json:"tenant_name"`
}

// TenantRequest makes a tenant. Plan is "standard" and weight 1 if absent.
type TenantRequest struct {
	Name   string  `json:"name"`
	Plan   *string `json:"plan,omitzero"`
	Weight *int    `json:"weight,omitzero"`
	// Cell names the cell that is to have the tenant's jobs, where there are several; absent, it is the one with the most room.
	Cell *string `json:"cell,omitzero"`
	// Label names what the tenant belongs to, such as a file of `forgequeue apply`; none if absent.
	Label *string `json:"label,omitzero"`
}

// TenantPatch changes a tenant; what is absent stays.
type TenantPatch struct {
	Name      *string    `json:"name,omitzero"`
	Plan      *string    `json:"plan,omitzero"`
	Weight    *int       `json:"weight,omitzero"`
	Overrides *Overrides `json:"overrides,omitzero"`
	// Label names what the tenant belongs to; "" removes it.
	Label *string `json:"label,omitzero"`
}

// Tenant is one tenant.
type Tenant struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Plan      string    `json:"plan"`
	Weight    int       `json:"weight"`
	Overrides Overrides `json:"overrides"`
	CreatedAt Time      `json:"created_at" swaggertype:"string" format:"date-time"`
	// Label names what the tenant belongs to; null for none.
	Label *string `json:"label"`
	// Cell is the cell that has the tenant's jobs; absent where there is one database.
	Cell string `json:"cell,omitzero"`
	// Deletion is null for a tenant that was not deleted.
	Deletion *TenantDeletion `json:"deletion"`
}

// TenantDeletion is how far the deletion of a tenant is.
type TenantDeletion struct {
	// State is running while data is removed, then done.
	State string `json:"state"`
	// Removed counts the rows that were removed so far, edges and attempts aside.
	Removed     int64 `json:"removed"`
	RequestedAt Time  `json:"requested_at" swaggertype:"string" format:"date-time"`
	EndedAt     *Time `json:"ended_at" swaggertype:"string" format:"date-time"`
}

// States of a TenantDeletion.
const (
	DeletionRunning = "running"
	DeletionDone    = "done"
)

// Limits are rates (per second), bursts and caps; null is none. The first six
// are the tenant's, those with user_ in front hold for each of its users.
type Limits struct {
	RequestsPerSecond     *float64 `json:"requests_per_second"`
	RequestBurst          *int64   `json:"request_burst"`
	JobsPerSecond         *float64 `json:"jobs_per_second"`
	JobBurst              *int64   `json:"job_burst"`
	MaxActive             *int64   `json:"max_active"`
	MaxRunning            *int64   `json:"max_running"`
	UserRequestsPerSecond *float64 `json:"user_requests_per_second"`
	UserRequestBurst      *int64   `json:"user_request_burst"`
	UserJobsPerSecond     *float64 `json:"user_jobs_per_second"`
	UserJobBurst          *int64   `json:"user_job_burst"`
	UserMaxActive         *int64   `json:"user_max_active"`
	UserMaxRunning        *int64   `json:"user_max_running"`
}

// Limit is one of Limits: a rate or a count. The other one is nil.
type Limit struct {
	// Name is that of the API.
	Name  string
	Rate  **float64
	Count **int64
}

// All gives each limit, in the order of the API. A limit is changed through what Rate or Count points to.
func (l *Limits) All() []Limit {
	return []Limit{
		{"requests_per_second", &l.RequestsPerSecond, nil},
		{"request_burst", nil, &l.RequestBurst},
		{"jobs_per_second", &l.JobsPerSecond, nil},
		{"job_burst", nil, &l.JobBurst},
		{"max_active", nil, &l.MaxActive},
		{"max_running", nil, &l.MaxRunning},
		{"user_requests_per_second", &l.UserRequestsPerSecond, nil},
		{"user_request_burst", nil, &l.UserRequestBurst},
		{"user_jobs_per_second", &l.UserJobsPerSecond, nil},
		{"user_job_burst", nil, &l.UserJobBurst},
		{"user_max_active", nil, &l.UserMaxActive},
		{"user_max_running", nil, &l.UserMaxRunning},
	}
}

// Overrides take the place of single limits of the plan, for the tenant and by user.
type Overrides struct {
	Limits
	Users map[string]Limits `json:"users,omitzero"`
}

// For gives the limits in force: the plan's, each replaced by the tenant's
// override where there is one, and for a user ("" is none) by the user's own.
// In a user's entry both spellings, with user_ in front and without, mean that
// user's limit; the one in front wins.
func (o *Overrides) For(plan Limits, user string) Limits {
	in := plan
	if o == nil {
		return in
	}
	in.replace(&o.Limits)
	own, ok := o.Users[user]
	if user == "" || !ok {
		return in
	}
	in.replace(&Limits{
		UserRequestsPerSecond: either(own.UserRequestsPerSecond, own.RequestsPerSecond),
		UserRequestBurst:      either(own.UserRequestBurst, own.RequestBurst),
		UserJobsPerSecond:     either(own.UserJobsPerSecond, own.JobsPerSecond),
		UserJobBurst:          either(own.UserJobBurst, own.JobBurst),
		UserMaxActive:         either(own.UserMaxActive, own.MaxActive),
		UserMaxRunning:        either(own.UserMaxRunning, own.MaxRunning),
	})
	return in
}

// replace takes each limit of other that is set.
func (l *Limits) replace(other *Limits) {
	l.RequestsPerSecond = either(other.RequestsPerSecond, l.RequestsPerSecond)
	l.RequestBurst = either(other.RequestBurst, l.RequestBurst)
	l.JobsPerSecond = either(other.JobsPerSecond, l.JobsPerSecond)
	l.JobBurst = either(other.JobBurst, l.JobBurst)
	l.MaxActive = either(other.MaxActive, l.MaxActive)
	l.MaxRunning = either(other.MaxRunning, l.MaxRunning)
	l.UserRequestsPerSecond = either(other.UserRequestsPerSecond, l.UserRequestsPerSecond)
	l.UserRequestBurst = either(other.UserRequestBurst, l.UserRequestBurst)
	l.UserJobsPerSecond = either(other.UserJobsPerSecond, l.UserJobsPerSecond)
	l.UserJobBurst = either(other.UserJobBurst, l.UserJobBurst)
	l.UserMaxActive = either(other.UserMaxActive, l.UserMaxActive)
	l.UserMaxRunning = either(other.UserMaxRunning, l.UserMaxRunning)
}

func either[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

// LimitsResponse answers GET /v1/limits: the rates and caps that hold for the
// caller, with what is left of each at this moment. Asking costs nothing.
type LimitsResponse struct {
	Policies   []PolicyUse `json:"policies"`
	Caps       []CapUse    `json:"caps"`
	SharedTime SharedTime  `json:"shared_time"`
}

// SharedTime is what the tenant's requests have used of what all tenants share, as an average of the last seconds: 0 is
// nothing, 1 is all. While requests wait, the tenant that has used less goes first.
type SharedTime struct {
	// Gateway is of the processors of the gateway that answers.
	Gateway float64 `json:"gateway"`
	// Database is of the connections of the core that answers.
	Database float64 `json:"database"`
}

// PolicyUse is one token bucket. ResetMS is the time in milliseconds until it is
// full again.
type PolicyUse struct {
	Name          string  `json:"name"`
	RatePerSecond float64 `json:"rate_per_second"`
	Burst         int64   `json:"burst"`
	Remaining     int64   `json:"remaining"`
	ResetMS       int64   `json:"reset_ms"`
}

// CapUse is one cap with what is used of it.
type CapUse struct {
	// Scope is tenant or user.
	Scope string `json:"scope"`
	// Kind is active (all jobs that have not ended) or running.
	Kind  string `json:"kind"`
	Limit int64  `json:"limit"`
	Used  int64  `json:"used"`
}

// Plan is a named set of limits.
type Plan struct {
	Name                   string `json:"name"`
	Limits                 Limits `json:"limits"`
	VisibilityTimeoutMSMax *int64 `json:"visibility_timeout_ms_max"`
	// Label names what the plan belongs to; null for none.
	Label *string `json:"label"`
}

// PlanRequest sets a plan.
type PlanRequest struct {
	Limits                 Limits `json:"limits"`
	VisibilityTimeoutMSMax *int64 `json:"visibility_timeout_ms_max,omitzero"`
	// Label names what the plan belongs to, such as a file of `forgequeue apply`; none if absent.
	Label *string `json:"label,omitzero"`
}

// KeyRequest makes a tenant key; with a user it acts for that user only.
type KeyRequest struct {
	User      *string  `json:"user,omitzero"`
	Scopes    []string `json:"scopes"`
	ExpiresAt *Time    `json:"expires_at,omitzero" swaggertype:"string" format:"date-time"`
}

// PlatformKeyRequest makes a platform key.
type PlatformKeyRequest struct {
	ExpiresAt *Time `json:"expires_at,omitzero" swaggertype:"string" format:"date-time"`
}

// Key is a key without its secret.
type Key struct {
	KeyID     string   `json:"key_id"`
	Tenant    *string  `json:"tenant"`
	User      *string  `json:"user"`
	Scopes    []string `json:"scopes"`
	ExpiresAt *Time    `json:"expires_at" swaggertype:"string" format:"date-time"`
	CreatedAt Time     `json:"created_at" swaggertype:"string" format:"date-time"`
}

// NewKey is a fresh key; the only answer that ever shows it.
type NewKey struct {
	Key
	Secret string `json:"key"`
}

// Page is one page of a list.
type Page[T any] struct {
	Items         []T     `json:"items"`
	NextPageToken *string `json:"next_page_token"`
}

// Readiness is the answer of /readyz.
type Readiness struct {
	// Status is ok, degraded, starting or draining.
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
	// Reason says why core has not started yet; absent otherwise.
	Reason string `json:"reason,omitzero"`
}

// ConsoleLink signs in to the console once.
type ConsoleLink struct {
	// Path is on the gateway that answered.
	Path      string `json:"path"`
	ExpiresAt Time   `json:"expires_at" swaggertype:"string" format:"date-time"`
}
