package api

// Whoami tells a caller what its key is.
type Whoami struct {
	Tenant *string  `json:"tenant"`
	User   *string  `json:"user"`
	Scopes []string `json:"scopes"`
	Plan   *string  `json:"plan"`
	KeyID  string   `json:"key_id"`
}

// TenantRequest makes a tenant. Plan is "standard" and weight 1 if absent.
type TenantRequest struct {
	Name   string  `json:"name"`
	Plan   *string `json:"plan,omitzero"`
	Weight *int    `json:"weight,omitzero"`
}

// TenantPatch changes a tenant; what is absent stays.
type TenantPatch struct {
	Name      *string    `json:"name,omitzero"`
	Plan      *string    `json:"plan,omitzero"`
	Weight    *int       `json:"weight,omitzero"`
	Overrides *Overrides `json:"overrides,omitzero"`
}

// Tenant is one tenant.
type Tenant struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Plan      string    `json:"plan"`
	Weight    int       `json:"weight"`
	Overrides Overrides `json:"overrides"`
	CreatedAt Time      `json:"created_at" swaggertype:"string" format:"date-time"`
}

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

// Overrides take the place of single limits of the plan, for the tenant and by user.
type Overrides struct {
	Limits
	Users map[string]Limits `json:"users,omitzero"`
}

// Plan is a named set of limits.
type Plan struct {
	Name                   string `json:"name"`
	Limits                 Limits `json:"limits"`
	VisibilityTimeoutMSMax *int64 `json:"visibility_timeout_ms_max"`
}

// PlanRequest sets a plan.
type PlanRequest struct {
	Limits                 Limits `json:"limits"`
	VisibilityTimeoutMSMax *int64 `json:"visibility_timeout_ms_max,omitzero"`
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
	// Status is ok or degraded.
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}
