package admission

import (
	"maps"
	"math"
	"slices"

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

// Bucket is one token bucket's part in a request.
type Bucket struct {
	Policy string
	User   string // the owner, for the policies of users
	Quota  Quota
	Cost   int64
	key    string // without the prefix
}

// Request is what admission decides on: see NewRequest and NewPeek.
type Request struct {
	// Buckets are all charged, or none is; one whose cost is 0 is only looked at. No two
	// have the same key.
	Buckets []Bucket
	// hints are the keys of hints that a cap is full; none where the request
	// takes no slot, or may be a replay.
	hints []string
}

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
func NewRequest(use Use, limits func(user string) api.Limits) Request {
	var total int64
	for _, n := range use.Jobs {
		total += n
	}
	if use.User != "" && total > 0 { // a user-bound key submits for its user alone
		use.Jobs = map[string]int64{use.User: total}
	}
	r := Request{Buckets: make([]Bucket, 0, 4+2*len(use.Jobs))}
	tenant := limits("")
	r.addTenant(&use, tenant, 1, total)
	for _, user := range use.users() {
		r.addUser(&use, user, limits(user), 1, use.Jobs[user])
	}
	// A bucket that this request takes nothing from is only shown, and does not refuse: a
	// closed one, which has nothing to show, is left out.
	r.Buckets = slices.DeleteFunc(r.Buckets, func(b Bucket) bool { return b.Cost == 0 && b.Quota.Closed() })
	if use.TakesSlots && total > 0 {
		r.hints = use.hints()
	}
	return r
}

// NewPeek lists all buckets of a caller, charged or not, to look at them: the
// tenant's, the credential's and those of user, if that is not empty.
func NewPeek(use Use, user string, limits func(user string) api.Limits) Request {
	var r Request
	r.addTenant(&use, limits(""), 0, 0)
	if user != "" {
		r.addUser(&use, user, limits(user), 0, 0)
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
func NewReports(use Use, n int64, limits func(user string) api.Limits) (r Request, limited bool) {
	r = NewPeek(use, use.User, limits)
	jobs := limits("").JobsPerSecond
	if use.Tenant == "" || jobs == nil {
		return r, false
	}
	// Closed buckets do not refuse it: a tenant that may submit nothing may end its jobs.
	r.Buckets = slices.DeleteFunc(r.Buckets, func(b Bucket) bool { return b.Quota.Closed() })
	rate := max(*jobs*reportsPerJob, leastReports)
	burst := int64(min(rate*reportsSeconds, maxBurst))
	r.add(&use, PolicyTenantReports, "owed:rp", "", &rate, &burst, n)
	return r, true
}

func (r *Request) addTenant(use *Use, in api.Limits, requests, jobs int64) {
	if use.Tenant != "" {
		r.add(use, PolicyTenantRequests, "owed:tr", "", in.RequestsPerSecond, in.RequestBurst, requests)
		r.add(use, PolicyTenantJobs, "owed:tj", "", in.JobsPerSecond, in.JobBurst, jobs)
	}
	if use.KeyID == "" {
		return
	}
	own := use.Credential
	if own.RequestsPerSecond == nil {
		own.RequestsPerSecond, own.RequestBurst = in.RequestsPerSecond, in.RequestBurst
	}
	r.add(use, PolicyCredentialRequests, "owed:cr:"+use.KeyID, "", own.RequestsPerSecond, own.RequestBurst, requests)
	r.add(use, PolicyCredentialJobs, "owed:cj:"+use.KeyID, "", own.JobsPerSecond, own.JobBurst, jobs)
}

func (r *Request) addUser(use *Use, user string, in api.Limits, requests, jobs int64) {
	r.add(use, PolicyUserRequests, "owed:ur:"+user, user, in.UserRequestsPerSecond, in.UserRequestBurst, requests)
	r.add(use, PolicyUserJobs, "owed:uj:"+user, user, in.UserJobsPerSecond, in.UserJobBurst, jobs)
}

// add lists a bucket, if there is one: a burst without a rate is no limit.
func (r *Request) add(use *Use, policy, suffix, user string, rate *float64, burst *int64, cost int64) {
	if rate == nil {
		return
	}
	size := int64(math.Ceil(min(max(*rate, 1), maxBurst)))
	if burst != nil {
		size = *burst
	}
	r.Buckets = append(r.Buckets, Bucket{
		Policy: policy, User: user, Quota: NewQuota(*rate, size), Cost: cost, key: use.key(suffix),
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

// arguments are the script's KEYS and ARGV for so many equal requests.
func (r *Request) arguments(prefix string, peek bool, times int) (keys []string, args []any) {
	const before = 3 // of the buckets
	keys = make([]string, 0, len(r.hints)+len(r.Buckets))
	args = make([]any, before, before+3*len(r.Buckets))
	args[0], args[1], args[2] = "charge", len(r.hints), times
	if peek {
		args[0] = "peek"
	}
	for _, key := range r.hints {
		keys = append(keys, prefix+key)
	}
	for i := range r.Buckets {
		b := &r.Buckets[i]
		keys = append(keys, prefix+b.key)
		args = append(args, b.Quota.rate, b.Quota.burst, b.Cost)
	}
	return keys, args
}

// equal says whether two requests ask for the same of the same buckets.
func (r *Request) equal(other *Request) bool {
	return slices.Equal(r.Buckets, other.Buckets) && slices.Equal(r.hints, other.hints)
}
