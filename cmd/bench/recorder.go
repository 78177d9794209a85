package bench

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// The range of a histogram is from a microsecond to ten minutes, with three digits.
	// A longer latency counts as the longest.
	longest = 10 * time.Minute
	digits  = 3
)

// recorder collects the latencies and errors of all senders of a scenario.
type recorder struct {
	mu        sync.Mutex
	latencies map[string]*hdrhistogram.Histogram
	errors    map[string]int64
	example   string

	submitted, finished atomic.Int64
}

func newRecorder() *recorder {
	return &recorder{latencies: map[string]*hdrhistogram.Histogram{}, errors: map[string]int64{}}
}

// took records one latency under a name.
func (r *recorder) took(name string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.histogram(name, d)
}

// tookAll records one latency for each time, all up to now.
func (r *recorder) tookAll(name string, since []time.Time, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range since {
		r.histogram(name, now.Sub(at))
	}
}

func (r *recorder) histogram(name string, d time.Duration) {
	h := r.latencies[name]
	if h == nil {
		h = hdrhistogram.New(1, longest.Microseconds(), digits)
		r.latencies[name] = h
	}
	// It fails only for a value out of range, and min and max exclude that.
	_ = h.RecordValue(min(max(d.Microseconds(), 1), longest.Microseconds()))
}

// lag returns a function that records under a name.
func (r *recorder) lag(name string) func(time.Duration) {
	return func(d time.Duration) { r.took(name, d) }
}

// failed counts n jobs, or a request, that ended in an error.
func (r *recorder) failed(code string, n int, example string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors[code] += int64(n)
	if r.example == "" && example != "" {
		r.example = code + ": " + example
	}
}

// failures are the counts of errors by code, and the text of one.
func (r *recorder) failures() (byCode map[string]int64, example string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.errors), r.example
}

// summary are the percentiles of all latencies.
func (r *recorder) summary() map[string]Latency {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]Latency{}
	for name, h := range r.latencies {
		at := h.ValueAtPercentilesSlice([]float64{50, 90, 99, 99.9})
		all[name] = Latency{
			Count: h.TotalCount(), P50: milliseconds(at[0]), P90: milliseconds(at[1]), P99: milliseconds(at[2]), P999: milliseconds(at[3]),
			Max: milliseconds(h.Max()),
		}
	}
	return all
}

// percentile is of one latency, in milliseconds; 0 where nothing was recorded.
func (r *recorder) percentile(name string, p float64) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.latencies[name]
	if h == nil {
		return 0
	}
	return milliseconds(h.ValueAtPercentile(p))
}

func milliseconds(microseconds int64) float64 { return float64(microseconds) / 1000 }

// sliceTimes measures the rate of each slice of the jobs.
type sliceTimes struct {
	mu   sync.Mutex
	size int64
	last time.Time
	next int64
	ends []time.Duration
}

func newSliceTimes(size int, begun time.Time) *sliceTimes {
	return &sliceTimes{size: int64(size), next: int64(size), last: begun}
}

// reached records how many jobs have been finished by now.
func (s *sliceTimes) reached(finished int64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for finished >= s.next {
		s.ends = append(s.ends, now.Sub(s.last))
		s.last, s.next = now, s.next+s.size
	}
}

// rates are jobs a second, slice by slice.
func (s *sliceTimes) rates() []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	rates := make([]float64, len(s.ends))
	for i, took := range s.ends {
		rates[i] = float64(s.size) / max(took.Seconds(), 1e-6)
	}
	return rates
}
