package bucket

import "slices"

// Bucket is one token bucket's part in a request.
type Bucket struct {
	Policy string
	User   string // the owner, for the policies of users
	Quota  Quota
	Cost   int64
	Key    string // in Redis, without the prefix
}

// Request is what a Limiter decides on.
type Request struct {
	// Buckets are all charged, or none is; one whose cost is 0 is only looked at. No two
	// have the same key.
	Buckets []Bucket
	// Hints are keys that refuse the request while they exist.
	Hints []string
}

// arguments are the script's KEYS and ARGV for so many equal requests.
func (r *Request) arguments(prefix string, peek bool, times int) (keys []string, args []any) {
	const before = 3 // of the buckets
	keys = make([]string, 0, len(r.Hints)+len(r.Buckets))
	args = make([]any, before, before+3*len(r.Buckets))
	args[0], args[1], args[2] = "charge", len(r.Hints), times
	if peek {
		args[0] = "peek"
	}
	for _, key := range r.Hints {
		keys = append(keys, prefix+key)
	}
	for i := range r.Buckets {
		b := &r.Buckets[i]
		keys = append(keys, prefix+b.Key)
		args = append(args, b.Quota.rate, b.Quota.burst, b.Cost)
	}
	return keys, args
}

// equal says whether two requests ask for the same of the same buckets.
func (r *Request) equal(other *Request) bool {
	return slices.Equal(r.Buckets, other.Buckets) && slices.Equal(r.Hints, other.Hints)
}
