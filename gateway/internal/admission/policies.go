package admission

import (
	"maps"
	"math"
	"slices"

	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Names of policies, as headers and problems have them. Clients may rely on them.
const (
	PolicyTenantRequests     = "tenant-requests"
	PolicyTenantJobs         = "tenant-jobs"
	PolicyCredentialRequests = "credential-requests" //nolint:gosec // no credential, only a name
	PolicyCredentialJobs     = "credential-jobs"     //nolint:gosec // likewise
	// PolicyCredentialLinks is of links that sign in to the console.
	PolicyCredentialLinks = "credential-links" //nolint:gosec // likewise
	PolicyTenantReports   = "tenant-reports"
	PolicyUserRequests    = "user-requests"
	PolicyUserJobs        = "user-jobs"
)

// Use is what a request uses, and by which tenant, key and user.
type Use struct {
	Tenant string // id; empty for a platform key
	KeyID  string
	User   string // of a user-bound key
	// Jobs has the number of submitted jobs for each user that the request names;
	// those without a user are under "". With a user-bound key all are its user's,
	// whatever their key here. Empty where the request submits none.
	Jobs map[string]int64
	// TakesSlots is set for a submit that carries no Idempotency-Key: one that a
	// hint may refuse. With a key it may be a replay, which takes no slot, and
	// only core can tell.
	TakesSlots bool
	// Credential are the limits of the key itself: requests_per_second and
	// jobs_per_second with their bursts, all null until keys have limits of their
	// own. Without them a key has a bucket for requests at the tenant's rate; it has
	// none for jobs, since it could never refuse what the tenant's admits.
	Credential api.Limits
}

// NewRequest lists the buckets that a request has to pass: by request and by job,
// for the tenant, the credential and each user; those that it takes nothing from
// are there to be shown. A request counts once for the
// user of its key and for each user that its jobs name, since an unbound key acts
// for them too. limits gives what is in force for a user ("" is none), as
// api.Overrides.For does.
func NewRequest(use Use, limits func(user string) api.Limits) bucket.Request {
	var total int64
	for _, n := range use.Jobs {
		total += n
	}
	if use.User != "" && total > 0 { // a user-bound key submits for its user alone
		use.Jobs = map[string]int64{use.User: total}
	}
	r := bucket.Request{Buckets: make([]bucket.Bucket, 0, 4+2*len(use.Jobs))}
	use.addTenant(&r, limits(""), 1, total)
	for _, user := range use.users() {
		use.addUser(&r, user, limits(user), 1, use.Jobs[user])
	}
	// A bucket that this request takes nothing from is only shown, and does not refuse: a
	// closed one, which has nothing to show, is left out.
	r.Buckets = slices.DeleteFunc(r.Buckets, func(b bucket.Bucket) bool { return b.Cost == 0 && b.Quota.Closed() })
	if use.TakesSlots && total > 0 {
		r.Hints = use.hints()
	}
	return r
}

// NewPeek lists all buckets of a caller, charged or not, to look at them: the
// tenant's, the credential's and those of user, if that is not empty.
func NewPeek(use Use, user string, limits func(user string) api.Limits) bucket.Request {
	var r bucket.Request
	use.addTenant(&r, limits(""), 0, 0)
	if user != "" {
		use.addUser(&r, user, limits(user), 0, 0)
	}
	return r
}

// What a tenant's workers may report: outcomes, and leases in heartbeats. Attempts and
// heartbeats belong to jobs that were submitted, so that a multiple of the tenant's
// jobs_per_second is more than they need; the floor is for tenants with few jobs
// that run for long: 50,000 at once, each with a heartbeat in 10 s.
const (
	reportsPerJob  = 20
	leastReports   = 5000 // a second
	reportsSeconds = 10   // of the rate are the burst, more than any one request
)

// NewReports lists the buckets of a worker's report of n outcomes or leases: its own,
// which is charged, and the others to be shown. limited is false where none is charged: for
// a tenant without jobs_per_second, and for platform keys, which the operator issues.
func NewReports(use Use, n int64, limits func(user string) api.Limits) (r bucket.Request, limited bool) {
	r = NewPeek(use, use.User, limits)
	jobs := limits("").JobsPerSecond
	if use.Tenant == "" || jobs == nil {
		return r, false
	}
	// Closed buckets do not refuse it: a tenant that may submit nothing may end its jobs.
	r.Buckets = slices.DeleteFunc(r.Buckets, func(b bucket.Bucket) bool { return b.Quota.Closed() })
	rate := max(*jobs*reportsPerJob, leastReports)
	burst := int64(min(rate*reportsSeconds, bucket.MaxBurst))
	use.add(&r, PolicyTenantReports, "owed:rp", "", &rate, &burst, n)
	return r, true
}

func (u *Use) addTenant(r *bucket.Request, in api.Limits, requests, jobs int64) {
	if u.Tenant != "" {
		u.add(r, PolicyTenantRequests, "owed:tr", "", in.RequestsPerSecond, in.RequestBurst, requests)
		u.add(r, PolicyTenantJobs, "owed:tj", "", in.JobsPerSecond, in.JobBurst, jobs)
	}
	if u.KeyID == "" {
		return
	}
	own := u.Credential
	if own.RequestsPerSecond == nil {
		own.RequestsPerSecond, own.RequestBurst = in.RequestsPerSecond, in.RequestBurst
	}
	u.add(r, PolicyCredentialRequests, "owed:cr:"+u.KeyID, "", own.RequestsPerSecond, own.RequestBurst, requests)
	u.add(r, PolicyCredentialJobs, "owed:cj:"+u.KeyID, "", own.JobsPerSecond, own.JobBurst, jobs)
}

func (u *Use) addUser(r *bucket.Request, user string, in api.Limits, requests, jobs int64) {
	u.add(r, PolicyUserRequests, "owed:ur:"+user, user, in.UserRequestsPerSecond, in.UserRequestBurst, requests)
	u.add(r, PolicyUserJobs, "owed:uj:"+user, user, in.UserJobsPerSecond, in.UserJobBurst, jobs)
}

// add lists a bucket, if there is one: a burst without a rate is no limit.
func (u *Use) add(r *bucket.Request, policy, suffix, user string, rate *float64, burst *int64, cost int64) {
	if rate == nil {
		return
	}
	size := int64(math.Ceil(min(max(*rate, 1), bucket.MaxBurst)))
	if burst != nil {
		size = *burst
	}
	r.Buckets = append(r.Buckets, bucket.Bucket{
		Policy: policy, User: user, Quota: bucket.NewQuota(*rate, size), Cost: cost, Key: u.key(suffix),
	})
}

// users are those that the request acts for, in order.
func (u *Use) users() []string {
	if len(u.Jobs) == 0 {
		if u.User == "" {
			return nil
		}
		return []string{u.User}
	}
	users := slices.Sorted(maps.Keys(u.Jobs))
	return slices.DeleteFunc(users, func(user string) bool { return user == "" })
}

// hints are the keys whose hints refuse the request: the tenant's, and its user's
// if all of its jobs are one user's. Core divides a batch for several.
func (u *Use) hints() []string {
	keys := []string{u.key(hintSuffix(""))}
	if users := u.users(); len(users) == 1 && u.Jobs[""] == 0 {
		keys = append(keys, u.key(hintSuffix(users[0])))
	}
	return keys
}

func hintSuffix(user string) string {
	if user == "" {
		return "full:t"
	}
	return "full:u:" + user
}

// key puts all keys of a tenant into one hash slot. A platform key, which has no
// tenant, has a slot of its own. The caller's own text comes last, so that no two
// keys collide.
func (u *Use) key(suffix string) string {
	tag := u.Tenant
	if tag == "" {
		tag = "key-" + u.KeyID
	}
	return "{" + tag + "}:" + suffix
}
