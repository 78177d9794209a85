package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// JobArgs is what a job is about, as a Go type. Written as JSON it is the job's
// payload; it names the type of its jobs, so that producer and worker cannot
// disagree:
//
//	type Email struct {
//		To string `json:"to"`
//	}
//
//	func (Email) JobType() string { return "email" }
//
// JobType is called on a zero value too, and gives the same text always: 1 to 128 of
// A-Z a-z 0-9 . _ : - .
type JobArgs interface {
	JobType() string
}

// JobArgsWithOptions are arguments whose jobs have options of their own:
//
//	func (e Email) JobOptions() client.JobOptions {
//		return client.JobOptions{Queue: "mail", Timeout: time.Minute, DedupeKey: "email:" + e.To}
//	}
type JobArgsWithOptions interface {
	JobArgs
	JobOptions() JobOptions
}

// JobOptions are what a job has besides its arguments. A zero field says nothing: then
// the queue's setting or the server's default holds. Options of a call go before those
// of the arguments' type, field by field; slices and maps are replaced, not merged.
type JobOptions struct {
	// Queue is where the job waits; "default" if no option says otherwise.
	Queue string
	// Priority is 0 to 9, higher first, such as new(9); 5 if nil.
	Priority *int
	// RunAt is when the job may start at the earliest. Not with Delay; the later
	// option of the two counts.
	RunAt time.Time
	// Delay is the same as a duration from now. All durations are sent in milliseconds,
	// rounded up.
	Delay time.Duration
	// Deadline is when the job is of no use any more; it is then a dead letter.
	Deadline time.Time
	// ExpiresAfter is the same as a duration from when the job is stored, at least a second. The later option of the two
	// counts.
	ExpiresAfter time.Duration
	// MaxAttempts is how many executions may be spent on it, 1 to 1000; 3 if 0.
	MaxAttempts int
	// Timeout bounds one execution.
	Timeout time.Duration
	// MaxWait refuses the job with would_wait if its turn is likely to come later; 0 for never.
	MaxWait time.Duration
	// Retry says how long to wait after a failure.
	Retry Retry
	// Tags are what a worker must have to be given the job.
	Tags []string
	// User is the tenant's own end user on whose behalf the job runs.
	User string
	// Metadata is carried along and can be filtered by.
	Metadata map[string]string
	// DedupeKey makes a second live job with the same key answer with the first: 1 to
	// 128 printable ASCII characters. Not in a workflow. It takes the place of Unique.
	DedupeKey string
	// OnLive is what becomes of that second job, with a DedupeKey, Unique or UniquePeriod: api.OnLiveKeep (also if empty),
	// OnLiveReplace, OnLiveExtend or OnLiveFail. The answer's Replaced says that the live job has the new content.
	OnLive string
	// MaxDelay is for OnLiveExtend: the job starts at the latest so long after it was first submitted.
	MaxDelay time.Duration
	// Key is whose turn the job takes within its queue, 1 to 128 printable ASCII characters; the user if empty. KeyWeight is
	// its share in the turns, 0.1 to 100; 1 if 0.
	Key       string
	KeyWeight float64
	// Costs are what an attempt may use of budgets, by the name of the budget, at most 8; nil leaves it to the type or queue.
	Costs api.Amounts
	// Unique makes the DedupeKey of the job's type and arguments (see UniqueKey), so
	// that there is one such job at a time. A job that has ended makes room for the
	// next one. Arguments that must not count: make a DedupeKey of the others instead.
	Unique bool
	// UniquePeriod is Unique within the period in which the job may start first, such as
	// 24*time.Hour for a day in UTC, by this machine's clock: a job of yesterday that
	// still waits does not count. For one job a day, ended or not, see UniqueKey.
	UniquePeriod time.Duration
	// After are the jobs that must have ended before it can start, at most 100.
	After []api.Dependency
}

// Retry is how long to wait after failure n: Base·2^(n−1), Base·n or Base by the
// curve, at most Cap. A zero field leaves it to the queue: 5 s, 300 s, 0.2,
// exponential.
type Retry struct {
	// Base and Cap are at most 7 days.
	Base, Cap time.Duration
	// Jitter is the fraction by which the wait is longer or shorter, 0 to 1.
	Jitter *float64
	// Curve is api.CurveExponential, api.CurveLinear or api.CurveConstant.
	Curve string
}

// SubmitOption is a JobOptions or a CallOption.
type SubmitOption interface {
	applyTo(s *submission)
}

// submission is what the options of one call say.
type submission struct {
	job  JobOptions
	call []CallOption
}

func (o CallOption) applyTo(s *submission) { s.call = append(s.call, o) }

func (o JobOptions) applyTo(s *submission) { s.job = s.job.with(o) }

func collect(options []SubmitOption) submission {
	var s submission
	for _, option := range options {
		option.applyTo(&s)
	}
	return s
}

// Request makes the request of a job out of its arguments: for workflows
// and Client.Submit, and to change what JobOptions cannot. Options are applied in
// order, after those of the arguments. The error is about arguments that cannot be
// written as JSON, or a negative UniquePeriod; all else is for the server to say.
func Request(args JobArgs, options ...JobOptions) (api.SubmitRequest, error) {
	if args == nil {
		return api.SubmitRequest{}, errors.New("client: the arguments are nil")
	}
	payload, err := encode(args)
	if err != nil {
		return api.SubmitRequest{}, fmt.Errorf("client: the arguments %T cannot be written as JSON: %w", args, err)
	}
	var all JobOptions
	if own, ok := args.(JobArgsWithOptions); ok {
		all = own.JobOptions()
	}
	for _, more := range options {
		all = all.with(more)
	}
	if all.UniquePeriod < 0 {
		return api.SubmitRequest{}, fmt.Errorf("client: UniquePeriod is %v: must be more than 0", all.UniquePeriod)
	}
	request := all.request()
	request.Type, request.Payload = args.JobType(), payload
	key := all.DedupeKey
	if key == "" && (all.Unique || all.UniquePeriod > 0) {
		if key, err = uniqueKey(request.Type, payload, all.UniquePeriod, all.start(time.Now())); err != nil {
			return api.SubmitRequest{}, err
		}
	}
	if all.OnLive != "" || all.MaxDelay != 0 {
		request.Dedupe = &api.Dedupe{Key: key, OnLive: all.OnLive, MaxDelayMS: orNil(milliseconds(all.MaxDelay))}
	} else {
		request.DedupeKey = orNil(key)
	}
	return request, nil
}

// with gives o with what more says in its place.
func (o JobOptions) with(more JobOptions) JobOptions {
	if !more.RunAt.IsZero() || more.Delay != 0 {
		o.RunAt, o.Delay = more.RunAt, more.Delay
	}
	if more.DedupeKey != "" || more.Unique || more.UniquePeriod != 0 {
		o.DedupeKey, o.Unique, o.UniquePeriod = more.DedupeKey, more.Unique, more.UniquePeriod
	}
	if more.OnLive != "" && more.OnLive != o.OnLive {
		o.OnLive, o.MaxDelay = more.OnLive, 0 // which is of the other one
	}
	replace(&o.MaxDelay, more.MaxDelay)
	if more.Retry != (Retry{}) {
		o.Retry = more.Retry
	}
	replace(&o.Queue, more.Queue)
	replace(&o.Priority, more.Priority)
	replace(&o.MaxAttempts, more.MaxAttempts)
	replace(&o.Timeout, more.Timeout)
	replace(&o.MaxWait, more.MaxWait)
	replace(&o.User, more.User)
	replace(&o.Key, more.Key)
	replace(&o.KeyWeight, more.KeyWeight)
	if !more.Deadline.IsZero() || more.ExpiresAfter != 0 {
		o.Deadline, o.ExpiresAfter = more.Deadline, more.ExpiresAfter
	}
	if more.Tags != nil {
		o.Tags = more.Tags
	}
	if more.Metadata != nil {
		o.Metadata = more.Metadata
	}
	if more.Costs != nil {
		o.Costs = more.Costs
	}
	if more.After != nil {
		o.After = more.After
	}
	return o
}

func replace[T comparable](field *T, more T) {
	var zero T
	if more != zero {
		*field = more
	}
}

// start is when a job with these options may start at the earliest.
func (o JobOptions) start(now time.Time) time.Time {
	if !o.RunAt.IsZero() {
		return o.RunAt
	}
	return now.Add(o.Delay)
}

// request is what the options alone say, but for the dedupe key.
func (o JobOptions) request() api.SubmitRequest {
	request := api.SubmitRequest{
		Queue: o.Queue, Priority: o.Priority, MaxAttempts: orNil(o.MaxAttempts), Tags: o.Tags, User: orNil(o.User),
		Metadata: o.Metadata, Key: orNil(o.Key), KeyWeight: orNil(o.KeyWeight), Costs: o.Costs, After: o.After,
		DelayMS: orNil(milliseconds(o.Delay)), TimeoutMS: orNil(milliseconds(o.Timeout)), MaxWaitMS: orNil(milliseconds(o.MaxWait)),
		RunAt: timeOrNil(o.RunAt), Deadline: timeOrNil(o.Deadline), ExpiresAfterMS: orNil(milliseconds(o.ExpiresAfter)),
	}
	if o.Retry != (Retry{}) {
		request.Retry = &api.RetryRequest{
			BaseMS: orNil(milliseconds(o.Retry.Base)), CapMS: orNil(milliseconds(o.Retry.Cap)),
			Jitter: o.Retry.Jitter, Curve: orNil(o.Retry.Curve),
		}
	}
	return request
}

// milliseconds rounds away from 0, which would say nothing.
func milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if rest := d % time.Millisecond; rest > 0 {
		ms++
	} else if rest < 0 {
		ms--
	}
	return ms
}

// orNil is nil for the zero value, which says nothing.
func orNil[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

func timeOrNil(at time.Time) *api.Time {
	if at.IsZero() {
		return nil
	}
	return new(api.At(at))
}
