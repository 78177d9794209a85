package admission_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/shared/api"
)

// How requests share round trips: by our batcher (one pipeline in flight, requests
// that arrive meanwhile are the next), by go-redis's auto-pipelining in its two forms,
// and not at all. The same script, the same arguments, one submit of one job with
// every limit on.
//
//	go test -run '^$' -bench Admit -benchtime 3s -count 3 ./internal/admission/
func BenchmarkAdmit(b *testing.B) {
	url := storetest.Redis(b)
	for _, clients := range []int{1, 64, 256} {
		for _, way := range []struct {
			name string
			make func(*testing.B) func(admission.Request) error
		}{
			{"batcher", func(b *testing.B) func(admission.Request) error {
				l := limiter(b, url, admission.LimiterOptions{})
				return func(r admission.Request) error {
					if d := l.Admit(b.Context(), r); d.Local {
						return fmt.Errorf("decided locally: %v", d.Verdict)
					}
					return nil
				}
			}},
			{"autopipeline", func(b *testing.B) func(admission.Request) error {
				return autoPipelined(b, url, nil)
			}},
			{"autopipeline-fullduplex", func(b *testing.B) func(admission.Request) error {
				options := redis.DefaultBlockingAutoPipelineOptions()
				options.FullDuplex = true
				return autoPipelined(b, url, options)
			}},
			{"plain", func(b *testing.B) func(admission.Request) error {
				client := raw(b, url)
				return func(r admission.Request) error { return evaluate(b, client, r) }
			}},
		} {
			b.Run(fmt.Sprintf("%s/clients=%d", way.name, clients), func(b *testing.B) {
				ask := way.make(b)
				// The server must know the script: only ours asks for that.
				limiter(b, url, admission.LimiterOptions{}).Admit(b.Context(), everyLimit())
				b.SetParallelism(max(1, clients/2)) // times GOMAXPROCS, here 2
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := ask(everyLimit()); err != nil {
							b.Error(err)
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	}
}

type evaluator interface {
	EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd
}

func autoPipelined(b *testing.B, url string, options *redis.AutoPipelineOptions) func(admission.Request) error {
	client, ok := raw(b, url).(*redis.Client)
	if !ok {
		b.Skip("a cluster")
	}
	pipelined, err := client.AutoPipelineWithOptions(options)
	if err != nil {
		b.Fatal(err)
	}
	return func(r admission.Request) error { return evaluate(b, pipelined, r) }
}

func evaluate(b *testing.B, on evaluator, r admission.Request) error {
	keys, args := r.Arguments("bench:")
	_, err := on.EvalSha(b.Context(), admission.ScriptSHA(), keys, args...).Slice()
	return err
}

var benchTenant = uuid.NewString()

// everyLimit is a submit with every limit on: six buckets, two hints.
func everyLimit() admission.Request {
	rate, burst := 1e6, int64(1e6)
	in := api.Limits{
		RequestsPerSecond: &rate, RequestBurst: &burst, JobsPerSecond: &rate, JobBurst: &burst,
		UserRequestsPerSecond: &rate, UserRequestBurst: &burst, UserJobsPerSecond: &rate, UserJobBurst: &burst,
	}
	use := admission.Use{Tenant: benchTenant, KeyID: "k", Jobs: map[string]int64{"bob": 1}, TakesSlots: true}
	return admission.NewRequest(use, func(string) api.Limits { return in })
}

// BenchmarkLocal is a decision without Redis.
func BenchmarkLocal(b *testing.B) {
	l := admission.LocalLimiter(1)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Admit(b.Context(), everyLimit())
		}
	})
}
