package bucket_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
)

// How requests share round trips: by our batcher (one pipeline in flight, requests
// that arrive meanwhile are the next), by go-redis's auto-pipelining in its two forms,
// and not at all. The same script, the same arguments, one submit of one job with
// every limit on.
//
//	go test -run '^$' -bench Admit -benchtime 3s -count 3 ./internal/admission/bucket/
func BenchmarkAdmit(b *testing.B) {
	url := storetest.Redis(b)
	for _, clients := range []int{1, 64, 256} {
		for _, way := range []struct {
			name string
			make func(*testing.B) func(bucket.Request) error
		}{
			{"batcher", func(b *testing.B) func(bucket.Request) error {
				l := limiter(b, url, bucket.Options{})
				return func(r bucket.Request) error {
					if d := l.Admit(b.Context(), r); d.Local {
						return fmt.Errorf("decided locally: %v", d.Verdict)
					}
					return nil
				}
			}},
			{"autopipeline", func(b *testing.B) func(bucket.Request) error {
				return autoPipelined(b, url, nil)
			}},
			{"autopipeline-fullduplex", func(b *testing.B) func(bucket.Request) error {
				options := redis.DefaultBlockingAutoPipelineOptions()
				options.FullDuplex = true
				return autoPipelined(b, url, options)
			}},
			{"plain", func(b *testing.B) func(bucket.Request) error {
				client := raw(b, url)
				return func(r bucket.Request) error { return evaluate(b, client, r) }
			}},
		} {
			b.Run(fmt.Sprintf("%s/clients=%d", way.name, clients), func(b *testing.B) {
				ask := way.make(b)
				// The server must know the script: only ours asks for that.
				limiter(b, url, bucket.Options{}).Admit(b.Context(), everyLimit())
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

func autoPipelined(b *testing.B, url string, options *redis.AutoPipelineOptions) func(bucket.Request) error {
	client, ok := raw(b, url).(*redis.Client)
	if !ok {
		b.Skip("a cluster")
	}
	pipelined, err := client.AutoPipelineWithOptions(options)
	if err != nil {
		b.Fatal(err)
	}
	return func(r bucket.Request) error { return evaluate(b, pipelined, r) }
}

func evaluate(b *testing.B, on evaluator, r bucket.Request) error {
	keys, args := r.Arguments("bench:")
	_, err := on.EvalSha(b.Context(), bucket.ScriptSHA(), keys, args...).Slice()
	return err
}

var benchTenant = uuid.NewString()

// everyLimit is a submit with every limit on: six buckets, two hints.
func everyLimit() bucket.Request {
	plenty := of(1e6, 1e6, 1)
	r := bucket.RequestOf(benchTenant, plenty, plenty, plenty, plenty, plenty, plenty)
	r.Hints = []string{"{" + benchTenant + "}:full:t", "{" + benchTenant + "}:full:u:bob"}
	return r
}

// BenchmarkLocal is a decision without Redis.
func BenchmarkLocal(b *testing.B) {
	l := bucket.LocalLimiter(1)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Admit(b.Context(), everyLimit())
		}
	})
}
